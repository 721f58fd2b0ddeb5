package sshlink

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

func TestSharedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := serverPool(t, Options{})
		defer s.wg.Wait()
		defer p.Close()
		conns := make([]*Conn, 200)
		var wg sync.WaitGroup
		for i := range conns {
			wg.Go(func() { conns[i], _ = p.Conn(t.Context(), "gpu-1") })
		}
		wg.Wait()
		for _, c := range conns {
			if c == nil || c != conns[0] {
				t.Fatalf("not one connection: %p %p", c, conns[0])
			}
		}
		if n := s.accepted.Load(); n != 1 {
			t.Errorf("%d dials for one destination", n)
		}
	})
}

func TestKeepalive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := serverPool(t, Options{})
		defer s.wg.Wait()
		defer p.Close()
		c, err := p.Conn(t.Context(), "gpu-1")
		if err != nil {
			t.Fatal(err)
		}
		st, err := c.Exec(t.Context(), "cat")
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		time.Sleep(time.Hour)
		if err := c.Err(); err != nil {
			t.Fatalf("an hour later: %v", err)
		}
		s.last().freeze()
		frozen := time.Now()
		_, err = st.Read(make([]byte, 1))
		var silent *KeepaliveError
		if !errors.As(err, &silent) || silent.Hint() == "" {
			t.Errorf("reader is told %v", err)
		}
		if took := time.Since(frozen); took > 10*time.Second {
			t.Errorf("noticed after %v", took)
		}
		<-c.Done()
		if !errors.As(c.Err(), &silent) {
			t.Errorf("connection ended by %v", c.Err())
		}
		if _, err := c.Exec(t.Context(), "cat"); !errors.As(err, &silent) {
			t.Errorf("session on a dead connection: %v", err)
		}
		again, err := p.Conn(t.Context(), "gpu-1")
		if err != nil || again == c {
			t.Errorf("connect again: %v", err)
		}
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := serverPool(t, Options{})
		defer s.wg.Wait()
		defer p.Close()
		down := errors.New("no route to host")
		s.failWith(down)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		_, err := p.Conn(ctx, "gpu-1")
		var not *NotConnectedError
		if !errors.As(err, &not) || !errors.Is(err, down) || !errors.Is(err, context.DeadlineExceeded) || not.Hint() == "" {
			t.Fatalf("gave up with %v", err)
		}
		// Drawn from up to 30 s each: about 40 in ten minutes, never a storm.
		if n := s.accepted.Load(); n < 20 || n > 90 {
			t.Errorf("%d attempts in ten minutes", n)
		}
		tried := s.accepted.Load()
		next, last := p.Last("gpu-1")
		if !errors.Is(last, down) || next.IsZero() {
			t.Errorf("Last: %v, %v", next, last)
		}
		if time.Until(next) > 0 {
			if _, err := p.Conn(NoWait(t.Context()), "gpu-1"); !errors.As(err, &not) || !errors.Is(err, down) {
				t.Errorf("NoWait: %v", err)
			}
			if s.accepted.Load() != tried {
				t.Error("NoWait tried out of turn")
			}
		}
		s.failWith(nil)
		if err := p.Retry("gpu-1"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := p.Conn(t.Context(), "gpu-1"); err != nil || time.Since(start) != 0 {
			t.Errorf("after Retry: %v, %v", time.Since(start), err)
		}
		if next, last := p.Last("gpu-1"); last != nil || !next.IsZero() {
			t.Errorf("Last while connected: %v, %v", next, last)
		}
	})
}

// A connection that lived is made anew at once; one that keeps dying young is not.
func TestReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := serverPool(t, Options{})
		defer s.wg.Wait()
		defer p.Close()
		lose := func(after time.Duration) {
			c, err := p.Conn(t.Context(), "gpu-1")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(after)
			s.last().Close()
			<-c.Done()
			var lost *LostError
			if !errors.As(c.Err(), &lost) || lost.Hint() == "" {
				t.Errorf("lost by %v", c.Err())
			}
		}
		lose(time.Minute)
		if next, _ := p.Last("gpu-1"); time.Until(next) > 0 {
			t.Errorf("an old connection's successor waits %v", time.Until(next))
		}
		start := time.Now()
		for range 20 {
			lose(0)
		}
		if took := time.Since(start); took < time.Minute {
			t.Errorf("20 short connections within %v", took)
		}
	})
}

func TestHandshakeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := serverPool(t, Options{})
		defer s.wg.Wait()
		defer p.Close()
		p.opt.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := s.dial(ctx, network, addr)
			s.last().freeze()
			return conn, err
		}
		start := time.Now()
		_, err := p.Conn(NoWait(t.Context()), "gpu-1")
		var dial *DialError
		if !errors.As(err, &dial) || dial.Op != "handshake" || !strings.Contains(err.Error(), "no answer within 15s") || dial.Hint() == "" {
			t.Errorf("frozen in the handshake: %v", err)
		}
		if took := time.Since(start); took != 15*time.Second {
			t.Errorf("gave up after %v", took)
		}
	})
}

func TestPermanentErrorsComeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := serverPool(t, Options{})
		defer s.wg.Wait()
		defer p.Close()
		known := p.opt.KnownHosts[0]
		writeFile(t, known, "")
		start := time.Now()
		_, err := p.Conn(t.Context(), "gpu-1")
		var unknown *UnknownHostKeyError
		if !errors.As(err, &unknown) {
			t.Fatalf("unknown key: %v", err)
		}
		if unknown.Host != "gpu-1" || unknown.Fingerprint() != Fingerprint(s.hostKey.PublicKey()) ||
			!strings.Contains(unknown.Hint(), unknown.Line()) {
			t.Errorf("%+v: %s", unknown, unknown.Hint())
		}
		tried := s.accepted.Load()
		next, _ := p.Last("gpu-1")
		if _, err := p.Conn(t.Context(), "gpu-1"); !errors.As(err, &unknown) {
			t.Errorf("asked again: %v", err)
		}
		if early := time.Until(next) > 0; early && s.accepted.Load() != tried {
			t.Error("asked again, it tried out of turn")
		}
		writeFile(t, known, unknown.Line()+"\n")
		_ = p.Retry("gpu-1")
		if _, err := p.Conn(t.Context(), "gpu-1"); err != nil {
			t.Errorf("with the line added: %v", err)
		}
		if time.Since(start) != 0 {
			t.Errorf("took %v", time.Since(start))
		}
	})
}

func TestWrongKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := serverPool(t, Options{})
		defer s.wg.Wait()
		defer p.Close()
		writeKey(t, p.opt.Identity[0], "")
		_, err := p.Conn(t.Context(), "gpu-1")
		var auth *AuthError
		if !errors.As(err, &auth) || len(auth.Offered) != 1 || !strings.Contains(auth.Hint(), "ssh -v me@gpu-1") {
			t.Errorf("wrong key: %v", err)
		}
	})
}

// Few handshakes at a time, whatever the number of hosts.
func TestHandshakeBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := serverPool(t, Options{Handshakes: 3})
		defer s.wg.Wait()
		defer p.Close()
		var mu sync.Mutex
		now, most := 0, 0
		p.opt.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second) // fake: a slow network
			defer func() { mu.Lock(); now--; mu.Unlock() }()
			return s.dial(ctx, network, addr)
		}
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				if _, err := p.Conn(t.Context(), "gpu-"+string(rune('a'+i%26))+string(rune('a'+i/26))); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most != 3 {
			t.Errorf("%d handshakes at once", most)
		}
	})
}

func TestRekeyWithAnotherKey(t *testing.T) {
	dir := t.TempDir()
	a, b := newSigner(t).PublicKey(), newSigner(t).PublicKey()
	known := writeFile(t, filepath.Join(dir, "known"),
		"h "+keyLine(a.Type(), a.Marshal())+"\nh "+keyLine(b.Type(), b.Marshal())+"\n")
	v, err := newVerifier(Target{Name: "h", Host: "h", Port: 22, KnownHosts: []string{known}})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		key ssh.PublicKey
		ok  bool
	}{{a, true}, {a, true}, {b, false}} {
		if err := v.callback("", nil, step.key); (err == nil) != step.ok {
			t.Errorf("callback: %v", err)
		}
	}
	if key, _ := v.verdict(); Fingerprint(key) != Fingerprint(a) {
		t.Error("the first key did not stay")
	}
}

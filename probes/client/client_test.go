package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"ebb/fleet"
	"ebb/probes/client"
	"ebb/probes/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeAgent serves one stream: what it says first, then HTTP.
func fakeAgent(t *testing.T, said string, h http.Handler) client.Dialer {
	t.Helper()
	return func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		var p http.Protocols
		p.SetUnencryptedHTTP2(true)
		srv := &http.Server{Handler: h, Protocols: &p}
		l := &oneConn{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := io.WriteString(theirs, said); err != nil || h == nil {
				theirs.Close()
				return
			}
			l.conn <- theirs
			_ = srv.Serve(l)
		}()
		t.Cleanup(func() {
			srv.Close()
			l.Close()
			theirs.Close()
			<-done
		})
		return ours, nil
	}
}

type oneConn struct {
	conn   chan net.Conn
	closed chan struct{}
	once   atomic.Bool
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error {
	if l.once.CompareAndSwap(false, true) {
		close(l.closed)
	}
	return nil
}
func (l *oneConn) Addr() net.Addr { return &net.UnixAddr{} }

const hello = "EBBD/1 1.2.3 operate m1\n"

func TestNoiseBeforeTheMagicLineDoesNoHarm(t *testing.T) {
	noise := "Welcome to gpu-041!\r\n\x1b[31mlast login\n" + strings.Repeat("x", 20000) + "\n"
	var operator, proto string
	c, err := client.Dial(t.Context(), fakeAgent(t, noise+hello, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operator, proto = r.Header.Get(wire.HeaderOperator), r.Proto
		io.WriteString(w, `{"machine":"m1"}`)
	})), client.Options{Role: wire.Cordon, Operator: "ann\r\n@desk ü"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.Summary(t.Context())
	if err != nil || s.Machine != "m1" || proto != "HTTP/2.0" || operator != "ann@desk ??" {
		t.Fatalf("%+v %v %s %q", s, err, proto, operator)
	}
	if h := c.Hello(); h.Version != "1.2.3" || h.Role != wire.Operate || h.Machine != "m1" {
		t.Fatalf("%+v", h)
	}
}

func TestStreamsThatAreNoAgent(t *testing.T) {
	var version *client.VersionError
	var machine *client.MachineError
	var role *client.RoleError
	for said, check := range map[string]func(error) bool{
		"bash: line 1: ebbd: command not found\n":          func(err error) bool { return errors.Is(err, client.ErrNotInstalled) },
		"sh: 1: ebbd: not found\n":                         func(err error) bool { return errors.Is(err, client.ErrNotInstalled) },
		"bash: /usr/bin/ebbd: No such file or directory\n": func(err error) bool { return errors.Is(err, client.ErrNotInstalled) },
		"": func(err error) bool { return errors.Is(err, wire.ErrNoMagic) },
		"This account is locked.\x1b[2J\n": func(err error) bool {
			return errors.Is(err, wire.ErrNoMagic) && strings.Contains(err.Error(), "This account is locked.[2J")
		},
		strings.Repeat("junk\n", 20000): func(err error) bool { return errors.Is(err, wire.ErrNoMagic) },
		"EBBD/2 9.9 operate m1\n": func(err error) bool {
			return errors.As(err, &version) && strings.Contains(version.Error(), "newer") && version.Hint() == "update ebb on this console"
		},
		"EBBD/0 0.1 operate m1\n": func(err error) bool {
			return errors.As(err, &version) && strings.Contains(version.Error(), "older") && strings.Contains(version.Hint(), "ebb agent install")
		},
		"EBBD/1 1.0 operate m2\n": func(err error) bool { return errors.As(err, &machine) && machine.Got == "m2" },
		"EBBD/1 1.0 observe m1\n": func(err error) bool { return errors.As(err, &role) && role.Got == wire.Observe },
	} {
		_, err := client.Dial(t.Context(), fakeAgent(t, said, nil), client.Options{Role: wire.Cordon, Machine: "m1", Version: "1.0"})
		if err == nil || !check(err) {
			t.Errorf("%.60q: %v", said, err)
		}
	}
}

func TestASilentHostDoesNotHoldUpDialing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		begun := time.Now()
		_, err := client.Dial(t.Context(), func(context.Context) (net.Conn, error) { return ours, nil }, client.Options{})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > time.Minute {
			t.Fatalf("%v after %v", err, time.Since(begun))
		}
		ours2, theirs2 := net.Pipe()
		defer theirs2.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		_, err = client.Dial(ctx, func(context.Context) (net.Conn, error) { return ours2, nil }, client.Options{})
		if err == nil || time.Since(begun) != time.Second {
			t.Fatalf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestProblemsKeepWhatTheAgentSays(t *testing.T) {
	c, err := client.Dial(t.Context(), fakeAgent(t, hello, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wire.PathHolds {
			w.WriteHeader(502)
			io.WriteString(w, "<html>\x1b[2Jbad gateway")
			return
		}
		w.WriteHeader(409)
		io.WriteString(w, `{"code":"stale_epoch","error":"newer","epoch":7,"hold":{"kind":"drain","who":"bob","since":"2026-11-29T12:00:00Z"}}`)
	})), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Drain(t.Context(), wire.DrainRequest{})
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != 409 || p.Epoch != 7 || p.Hold.Who != "bob" || !p.Refused() || !client.HasCode(err, wire.CodeStaleEpoch) {
		t.Fatalf("%+v", err)
	}
	_, err = c.Holds(t.Context())
	if !errors.As(err, &p) || p.Refused() || strings.Contains(err.Error(), "\x1b") {
		t.Fatalf("%+v", err)
	}
}

func TestAMissedGenerationIsReadAgain(t *testing.T) {
	var asked []string
	c, err := client.Dial(t.Context(), fakeAgent(t, hello, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := http.NewResponseController(w)
		line := func(s string) { fmt.Fprintln(w, s); out.Flush() }
		asked = append(asked, r.URL.RawQuery)
		if len(asked) == 1 {
			line(`{"generation":5,"since":0,"full":{"generation":5,"machine":"m1"}}`)
			line(`{"generation":9,"since":8,"patch":{"state":{"holds":{}}}}`)
			<-r.Context().Done()
			return
		}
		line(`{"generation":9,"since":0,"full":{"generation":9,"machine":"m1","unheld":true}}`)
		line(`{"generation":10,"since":9,"patch":{"state":{"holds":{}}}}`)
		line(`{"generation":10,"since":10,"idle":true}`)
	})), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var seen []string
	err = c.Watch(t.Context(), fleet.Facts{}, func(f fleet.Facts) error {
		seen = append(seen, fmt.Sprintf("%d %v", f.Generation, f.Unheld))
		return nil
	})
	if want := "5 false,9 true,10 false,10 false"; strings.Join(seen, ",") != want || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("%v: %v", seen, err)
	}
	if want := "by=key,by=key"; strings.Join(asked, ",") != want {
		t.Fatalf("asked for %v", asked)
	}
	stop := errors.New("enough")
	if err := c.Watch(t.Context(), fleet.Facts{}, func(fleet.Facts) error { return stop }); !errors.Is(err, stop) {
		t.Fatal(err)
	}
}

// Who was away is told what has changed meanwhile; one whose place the agent no
// longer knows gets everything, and so does one who is told what does not fit.
func TestAWatchGoesOnWhereItWas(t *testing.T) {
	began := time.Unix(100, 7).UTC()
	have := fleet.Facts{Generation: 5, Machine: "m1", Agent: fleet.AgentInfo{Started: began},
		Workloads: fleet.Read([]fleet.Workload{{Key: fleet.Key{Kind: "vm", ID: "a"}}, {Key: fleet.Key{Kind: "vm", ID: "b"}}}, "t", began, 0)}
	var asked []string
	answers := []string{
		`{"generation":6,"since":5,"patch":{"workloads_by":{"set":[{"key":"vm/c","phase":"running","rule":""}],"gone":["vm/a"]}}}`,
		`{"generation":8,"since":7,"patch":{"workloads_by":{"gone":["vm/a"]}}}`,
		`{"generation":8,"full":{"generation":8,"machine":"m1"}}`,
	}
	c, err := client.Dial(t.Context(), fakeAgent(t, hello, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		fmt.Fprintln(w, answers[len(asked)-1])
	})), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stop := errors.New("enough")
	var got fleet.Facts
	first := func(f fleet.Facts) error { got = f; return stop }
	if err := c.Watch(t.Context(), have, first); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if w := got.Workloads.Value; got.Generation != 6 || len(w) != 2 || w[0].Key.ID != "b" || w[1].Key.ID != "c" || len(have.Workloads.Value) != 2 || have.Workloads.Value[0].Key.ID != "a" {
		t.Fatalf("%+v from %+v", got, have)
	}
	if err := c.Watch(t.Context(), have, first); !errors.Is(err, stop) || got.Generation != 8 || len(got.Workloads.Value) != 0 {
		t.Fatalf("%v: %+v", err, got)
	}
	want := []string{"by=key&since=5&started=100000000007", "by=key&since=5&started=100000000007", "by=key"}
	if !slices.Equal(asked, want) {
		t.Fatalf("asked for %v", asked)
	}
}

func TestOneStreamServesManyCallsAndDoneTellsItsEnd(t *testing.T) {
	dials := 0
	release := make(chan struct{})
	dial := fakeAgent(t, hello, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-release
		io.WriteString(w, `{}`)
	}))
	var stream net.Conn
	c, err := client.Dial(t.Context(), func(ctx context.Context) (net.Conn, error) {
		dials++
		s, err := dial(ctx)
		stream = s
		return s, err
	}, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	errs := make(chan error)
	for range 50 {
		go func() {
			_, err := c.Holds(t.Context())
			errs <- err
		}()
	}
	close(release)
	for range 50 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if dials != 1 {
		t.Fatalf("%d dials", dials)
	}
	select {
	case <-c.Done():
		t.Fatal("done while it works")
	default:
	}
	stream.Close()
	<-c.Done()
	if _, err := c.Holds(t.Context()); err == nil {
		t.Fatal("a call on a broken stream succeeded")
	}
	if dials != 1 {
		t.Fatal("it dialed again by itself")
	}
}

// Calls beyond what the agent takes at once wait for others to end, also where
// some of those are watches.
func TestCallsBeyondTheAgentsLimitWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		var p http.Protocols
		p.SetUnencryptedHTTP2(true)
		srv := &http.Server{Protocols: &p, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 3}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == wire.PathWatch {
				fmt.Fprintln(w, `{"generation":5,"full":{"generation":5}}`)
				http.NewResponseController(w).Flush()
				<-r.Context().Done()
				return
			}
			time.Sleep(time.Second)
			io.WriteString(w, `{}`)
		})}
		l := &oneConn{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
		l.conn <- theirs
		go srv.Serve(l)
		defer srv.Close()
		defer l.Close()
		c, err := client.Dial(t.Context(), func(context.Context) (net.Conn, error) { return ours, nil }, client.Options{NoHello: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Holds(t.Context()); err != nil { // from here on the limit is known
			t.Fatal(err)
		}
		go func() { _ = c.Watch(t.Context(), fleet.Facts{}, func(fleet.Facts) error { return nil }) }()
		synctest.Wait()
		begun, errs := time.Now(), make(chan error)
		for range 10 {
			go func() {
				_, err := c.Holds(t.Context())
				errs <- err
			}()
		}
		for range 10 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(begun); took != 5*time.Second { // two at a time
			t.Errorf("it took %v", took)
		}
	})
}

// A peer that is there and says nothing is noticed by pings.
func TestAFrozenPeerIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		frozen := make(chan struct{})
		var p http.Protocols
		p.SetUnencryptedHTTP2(true)
		srv := &http.Server{Protocols: &p, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, `{"generation":5,"since":0,"full":{"generation":5}}`)
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})}
		l := &oneConn{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
		l.conn <- &freezing{Conn: theirs, frozen: frozen}
		go srv.Serve(l)
		defer srv.Close()
		defer l.Close()
		c, err := client.Dial(t.Context(), func(context.Context) (net.Conn, error) { return ours, nil }, client.Options{NoHello: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var at time.Time
		err = c.Watch(t.Context(), fleet.Facts{}, func(fleet.Facts) error {
			close(frozen)
			at = time.Now()
			return nil
		})
		if took := time.Since(at); err == nil || took > 10*time.Second {
			t.Fatalf("%v after %v", err, took)
		}
		<-c.Done()
	})
}

// freezing swallows what is written after it froze.
type freezing struct {
	net.Conn
	frozen chan struct{}
}

func (f *freezing) Write(p []byte) (int, error) {
	select {
	case <-f.frozen:
		return len(p), nil
	default:
		return f.Conn.Write(p)
	}
}

func FuzzHello(f *testing.F) {
	f.Add([]byte("noise\n" + hello))
	f.Add([]byte("EBBD/"))
	f.Add([]byte("EBBD/99999999999999999999 a b c\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		ours, theirs := net.Pipe()
		go func() {
			theirs.Write(said)
			theirs.Close()
		}()
		c, err := client.Dial(t.Context(), func(context.Context) (net.Conn, error) { return ours, nil }, client.Options{})
		if err == nil {
			c.Close()
		}
	})
}

package sshlink

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

func TestExecInProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := serverPool(t, Options{})
		defer s.wg.Wait()
		defer p.Close()
		c, err := p.Conn(t.Context(), "gpu-1")
		if err != nil {
			t.Fatal(err)
		}
		if string(c.HostKey().Marshal()) != string(s.hostKey.PublicKey().Marshal()) {
			t.Error("HostKey is not the server's")
		}
		st, err := c.Exec(t.Context(), "cat")
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		if _, err := io.WriteString(st, "hello"); err != nil {
			t.Fatal(err)
		}
		if err := st.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(st); string(got) != "hello" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		if err := st.Wait(); err != nil {
			t.Errorf("wait: %v", err)
		}
		if nc := st.NetConn(); nc.RemoteAddr().String() != "remote:22" || nc.SetDeadline(time.Now()) != nil {
			t.Errorf("net.Conn: %v", nc.RemoteAddr())
		}
	})
}

func TestEndings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := serverPool(t, Options{})
		defer s.wg.Wait()
		defer p.Close()
		c, err := p.Conn(t.Context(), "gpu-1")
		if err != nil {
			t.Fatal(err)
		}
		for command, want := range map[string]struct {
			code int
			read bool // the error also comes from Read
		}{"exit 127": {127, true}, "vanish": {-1, true}} {
			st, err := c.Exec(t.Context(), command)
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.ReadAll(st)
			var exit *ExitError
			if !errors.As(err, &exit) || exit.Code != want.code || exit.Hint() == "" {
				t.Errorf("%s: read says %v", command, err)
			}
			if err := st.Wait(); !errors.As(err, &exit) {
				t.Errorf("%s: wait says %v", command, err)
			}
			if _, err := st.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("%s: write says %v", command, err)
			}
			st.Close()
		}
		_, err = c.Exec(t.Context(), "refuse")
		var refused *SessionRefusedError
		if !errors.As(err, &refused) || refused.What != "command" || refused.Hint() == "" {
			t.Errorf("refused command: %v", err)
		}
	})
}

func TestSessionLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := serverPool(t, Options{Sessions: 2})
		defer s.wg.Wait()
		defer p.Close()
		c, err := p.Conn(t.Context(), "gpu-1")
		if err != nil {
			t.Fatal(err)
		}
		var open []*Stream
		for range 2 {
			st, err := c.Exec(t.Context(), "cat")
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, st)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Exec(ctx, "cat")
		var limit *SessionLimitError
		if !errors.As(err, &limit) || limit.Limit != 2 || !errors.Is(err, context.DeadlineExceeded) || limit.Hint() == "" {
			t.Errorf("third session: %v", err)
		}
		got := make(chan error, 1)
		go func() {
			st, err := c.Exec(t.Context(), "say x")
			if err == nil {
				defer st.Close()
				_, err = io.ReadAll(st)
			}
			got <- err
		}()
		synctest.Wait()
		open[0].CloseWrite() // cat ends, and with it the session
		if err := <-got; err != nil {
			t.Errorf("waiting session: %v", err)
		}
		open[0].Close()
		open[1].Close()
	})
}

// A closed stream's session counts until the host has ended it, as it does there.
func TestClosedStreamKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := serverPool(t, Options{Sessions: 1})
		defer s.wg.Wait()
		defer p.Close()
		c, err := p.Conn(t.Context(), "gpu-1")
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			st, err := c.Exec(t.Context(), "hang")
			if err != nil {
				t.Fatal(err)
			}
			st.Close()
			if _, err := st.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("read after close: %v", err)
			}
		}
		if most := s.most.Load(); most != 1 {
			t.Errorf("%d sessions at once", most)
		}
	})
}

// Closing waits for nobody, be the other side frozen with full buffers or not.
func TestCloseIsLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := serverPool(t, Options{})
		defer s.wg.Wait()
		c, err := p.Conn(t.Context(), "gpu-1")
		if err != nil {
			t.Fatal(err)
		}
		st, err := c.Exec(t.Context(), "hang")
		if err != nil {
			t.Fatal(err)
		}
		s.last().freeze()
		ended := make(chan error, 2)
		go func() {
			for {
				if _, err := st.Write(make([]byte, 1<<20)); err != nil {
					ended <- err
					return
				}
			}
		}()
		go func() {
			_, err := st.Read(make([]byte, 1))
			ended <- err
		}()
		synctest.Wait()
		start := time.Now()
		st.Close()
		st.Close()
		for range 2 {
			if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("let go with %v", err)
			}
		}
		if err := st.Wait(); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("wait after close: %v", err)
		}
		p.Close()
		if took := time.Since(start); took != 0 {
			t.Errorf("closing took %v", took)
		}
		if !errors.Is(c.Err(), ErrClosed) {
			t.Errorf("ended by %v", c.Err())
		}
		if _, err := p.Conn(t.Context(), "gpu-1"); !errors.Is(err, ErrClosed) {
			t.Errorf("connect after close: %v", err)
		}
	})
}

// Output that nobody reads must not keep anything alive beyond the connection.
func TestUnreadOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := serverPool(t, Options{})
		defer s.wg.Wait()
		c, err := p.Conn(t.Context(), "gpu-1")
		if err != nil {
			t.Fatal(err)
		}
		st, err := c.Exec(t.Context(), "say unread")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p.Close() // hangs if it does
		if _, err := io.ReadAll(st); !errors.Is(err, ErrClosed) {
			t.Errorf("read after the end: %v", err)
		}
	})
}

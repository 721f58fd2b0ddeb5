package station

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/probes/wire"
)

// Where the short way to an agent does not serve, because sshd refuses it, or
// because an agent from before there was one says nothing on it, the agent is asked
// for by command. For what is more than looking there is no short way.
func TestTheShortWayDoesNotServe(t *testing.T) {
	errCommand := errors.New("asked for by command")
	for name, c := range map[string]struct {
		role  wire.Role
		short dialer
		tried bool
		most  time.Duration
	}{
		"refused": {wire.Observe, func(context.Context, string, wire.Role) (net.Conn, ssh.PublicKey, error) {
			return nil, nil, errors.New("open failed")
		}, true, 0},
		"silent": {wire.Observe, func(context.Context, string, wire.Role) (net.Conn, ssh.PublicKey, error) {
			near, _ := net.Pipe()
			return near, nil, nil
		}, true, shortWithin},
		"none": {wire.Operate, func(context.Context, string, wire.Role) (net.Conn, ssh.PublicKey, error) {
			return nil, nil, errors.New("not for this")
		}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAgents(config.Fleet{}, nil, nil, "ann")
				tried := false
				a.short = func(ctx context.Context, address string, role wire.Role) (net.Conn, ssh.PublicKey, error) {
					tried = true
					return c.short(ctx, address, role)
				}
				a.dialer = func(ctx context.Context, _ string, role wire.Role) (net.Conn, ssh.PublicKey, error) {
					if role != c.role || ctx.Err() != nil {
						t.Errorf("asked for %s, %v", role, ctx.Err())
					}
					return nil, nil, errCommand
				}
				began := time.Now()
				_, _, err := a.dial(t.Context(), "h1", c.role)
				if !errors.Is(err, errCommand) || tried != c.tried || time.Since(began) != c.most {
					t.Errorf("%v, short way tried %v, after %v", err, tried, time.Since(began))
				}
			})
		})
	}
}

// An agent that has another place, or another user, is not where the socket of the
// short way is.
func TestTheShortWayIsForTheDefaultPlace(t *testing.T) {
	for _, c := range []struct {
		ssh   config.SSH
		short bool
	}{
		{config.SSH{}, true}, {config.SSH{AgentPath: defaultAgent}, true},
		{config.SSH{AgentPath: "/opt/ebbd"}, false}, {config.SSH{Sudo: true}, false},
	} {
		a := newAgents(config.Fleet{SSH: c.ssh}, nil, nil, "")
		if (a.short != nil) != c.short {
			t.Errorf("%+v: short way %v", c.ssh, a.short != nil)
		}
		if cmd := a.command(wire.Observe); !strings.HasSuffix(cmd, " dial-stdio --role observe") {
			t.Errorf("%+v: %s", c.ssh, cmd)
		}
	}
}

// single is a listener with one connection to accept.
type single struct {
	conn  chan net.Conn
	ended chan struct{}
}

func (s single) Accept() (net.Conn, error) {
	select {
	case c := <-s.conn:
		return c, nil
	case <-s.ended:
		return nil, net.ErrClosed
	}
}

func (s single) Close() error   { close(s.ended); return nil }
func (s single) Addr() net.Addr { return &net.UnixAddr{} }

// A channel for acts is closed when nothing has been asked on it for a while, and
// opened again for the next word; not while a call is under way, and not the one
// that a host is looked at through.
func TestIdleChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgents(config.Fleet{}, nil, func(_ context.Context, id fleet.HostID) (fleet.Host, error) { return fleet.Host{ID: id}, nil }, "ann")
		a.short = nil
		dials := map[wire.Role]int{}
		long := make(chan struct{})
		a.dialer = func(_ context.Context, _ string, role wire.Role) (net.Conn, ssh.PublicKey, error) {
			dials[role]++
			near, far := net.Pipe()
			l := single{make(chan net.Conn, 1), make(chan struct{})}
			var p http.Protocols
			p.SetUnencryptedHTTP2(true)
			srv := &http.Server{Protocols: &p, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == wire.PathFacts {
					<-long
				}
				_, _ = w.Write([]byte("{}"))
			})}
			go func() { _ = srv.Serve(l) }()
			t.Cleanup(func() { _ = srv.Close() })
			go func() {
				if wire.WriteHello(far, wire.Hello{Proto: wire.Proto, Version: "v1", Role: role, Machine: "m1"}) == nil {
					l.conn <- far
				}
			}()
			return near, nil, nil
		}
		host := fleet.Host{ID: "prod/h1"}
		open := func(role wire.Role) {
			t.Helper()
			if _, _, err := a.open(t.Context(), host, role); err != nil {
				t.Fatal(err)
			}
		}
		want := func(when string, role wire.Role, n int) {
			t.Helper()
			if dials[role] != n {
				t.Errorf("%s: %d channels opened for %s, want %d", when, dials[role], role, n)
			}
		}
		for range 10 {
			open(wire.Operate)
			open(wire.Observe)
			time.Sleep(idleAfter / 2)
		}
		want("used all the time", wire.Operate, 1)
		time.Sleep(2 * idleAfter)
		open(wire.Operate)
		open(wire.Observe)
		want("after a pause", wire.Operate, 2)
		want("after a pause", wire.Observe, 1)

		cl, _, _ := a.open(t.Context(), host, wire.Operate)
		answered := make(chan error)
		go func() {
			_, err := cl.Facts(t.Context(), false)
			answered <- err
		}()
		time.Sleep(10 * idleAfter)
		close(long)
		if err := <-answered; err != nil {
			t.Errorf("a call that takes long: %v", err)
		}
		time.Sleep(2 * idleAfter)
		open(wire.Operate)
		want("after the long call", wire.Operate, 3)
		a.close()
	})
}

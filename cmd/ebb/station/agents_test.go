package station

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

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

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ebb/fleet"
	"ebb/probes/agent"
	"ebb/probes/client"
	"ebb/probes/wire"
)

// refused is the exit status of a refused admission (EX_TEMPFAIL).
const refused = 75

const admitTimeout = 10 * time.Second

func (c command) admit() *cobra.Command {
	var h hostFlags
	var req wire.AdmissionRequest
	var key string
	cmd := &cobra.Command{
		Use:   "admit OP --key KIND/ID | admit done|failed TICKET",
		Short: "ask whether this host takes something, or report how that went",
		Long: "Asks the agent whether this host takes something, and prints the ticket. Where the agent is\n" +
			"down the record of holds answers. Exit status 0: admitted; 75: refused, with the reason.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), admitTimeout)
			defer cancel()
			if args[0] == "done" || args[0] == "failed" {
				if len(args) != 2 {
					return &exit{status: 2, err: errors.New("which ticket?")}
				}
				return c.report(ctx, h, args[1], wire.TicketReport{Closed: args[0], Who: req.Who})
			}
			req.Op = fleet.Op(args[0])
			if len(args) != 1 || !slices.Contains(fleet.Ops, req.Op) {
				return &exit{status: 2, err: fmt.Errorf("operation %q: want one of %v", args[0], fleet.Ops)}
			}
			if key != "" {
				k, err := fleet.ParseKey(key)
				if err != nil {
					return &exit{status: 2, err: err}
				}
				req.Key = k
			}
			return c.ask(ctx, h, req)
		},
	}
	h.register(cmd)
	cmd.Flags().StringVar(&key, "key", "", "the workload, as KIND/ID")
	cmd.Flags().DurationVar(&req.TTL, "ttl", 0, "how long the creation may take (default 5m)")
	cmd.Flags().StringVar(&req.Who, "who", "", "who asks")
	return cmd
}

func (c command) ask(ctx context.Context, flags hostFlags, req wire.AdmissionRequest) error {
	if req.Who == "" {
		req.Who = c.operator()
	}
	reply, err := admitBy(ctx, c, flags, func(cl *client.Client) (wire.AdmissionReply, error) {
		return cl.Admit(ctx, req)
	}, func(o agent.Offline) (wire.AdmissionReply, error) {
		return o.Admit(ctx, c.caller(wire.Admission), req)
	})
	if err != nil {
		return err
	}
	if reply.Ticket != nil {
		return c.print(reply.Ticket)
	}
	return c.print(reply)
}

func (c command) report(ctx context.Context, flags hostFlags, ticket string, rep wire.TicketReport) error {
	if rep.Who == "" {
		rep.Who = c.operator()
	}
	t, err := admitBy(ctx, c, flags, func(cl *client.Client) (fleet.Ticket, error) {
		return cl.Settle(ctx, ticket, rep)
	}, func(o agent.Offline) (fleet.Ticket, error) {
		return o.Settle(ctx, c.caller(wire.Admission), ticket, rep)
	})
	if err != nil {
		return err
	}
	return c.print(t)
}

// admitBy asks the daemon, or where that is down the state directory. Whatever
// is not a clear yes is a refusal.
func admitBy[R any](ctx context.Context, c command, flags hostFlags, online func(*client.Client) (R, error), offline func(agent.Offline) (R, error)) (R, error) {
	var out R
	h, broken := flags.find()
	cl, err := client.Dial(ctx, func(ctx context.Context) (net.Conn, error) {
		return agent.DialSocket(ctx, h.socket(wire.Admission))
	}, client.Options{NoHello: true, Operator: c.operator(), Version: versionText()})
	switch {
	case err == nil:
		defer cl.Close()
		out, err = online(cl)
	case broken != nil: // its caps are not known
		err = broken
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		machine, boot, _, e := h.identity()
		if e != nil {
			return out, &exit{status: refused, err: e}
		}
		out, err = offline(agent.Offline{
			StateDir: h.stateDir, Machine: machine, Boot: boot, Caps: h.conf.Caps, Clock: agent.SystemClock{}, Wait: 2 * time.Second,
		})
	}
	if err != nil {
		return out, refusedAs(err)
	}
	return out, nil
}

// refusedAs says a refusal with what stands behind it: whoever asks on the host
// finds out why it is held, and whom to talk to.
func refusedAs(err error) error {
	e := &exit{status: refused, err: err}
	var hold *fleet.Hold
	var p *client.Problem
	if errors.As(err, &p) {
		e.hint, hold = p.Hint, p.Hold
		e.err = errors.New(p.Code + ": " + p.Error())
	} else if p, ok := agent.Refusal(err); ok {
		e.hint, hold = p.Hint, p.Hold
	}
	if hold != nil && hold.Why != "" {
		e.err = fmt.Errorf("%w; %q says: %q", e.err, hold.Who, hold.Why)
	}
	return e
}

func (c command) print(v any) error {
	enc := json.NewEncoder(c.out)
	return enc.Encode(v)
}

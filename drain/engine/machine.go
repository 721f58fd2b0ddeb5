package engine

import (
	"context"
	"fmt"
	"time"

	"ebb/fleet"
)

// bound is the machine as which the journal knows a host. It is empty where the
// journal does not know it, or can't be asked within two seconds: a cordon does
// not wait for a journal.
func (e *Engine) bound(ctx context.Context, host fleet.HostID) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := e.State(ctx, host)
	if err != nil || !s.Terminated.IsZero() { // that machine is gone: another may take its name
		return ""
	}
	return s.Machine
}

// sameMachine refuses a verb where another machine answers at a host's address
// than the one that the journal knows it as.
func (e *Engine) sameMachine(ctx context.Context, verb string, host fleet.HostID, machine string) error {
	if want := e.bound(ctx, host); want != "" && want != machine {
		return &Refused{Verb: verb, Host: host, Issues: []fleet.Issue{{Check: fleet.CheckReach,
			Detail: fmt.Sprintf("another machine answers at its address: %s, not %s", machine, want)}}}
	}
	return nil
}

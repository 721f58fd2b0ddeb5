package engine

import (
	"context"
	"fmt"
	"time"

	"ebb/fleet"
)

// Refused is a verb that was not carried out, with every reason.
type Refused struct {
	Verb   string
	Host   fleet.HostID
	Issues []fleet.Issue
	Next   string // what to type, where something helps
}

// Hint says what to type next; empty where nothing helps.
func (r *Refused) Hint() string { return r.Next }

func (r *Refused) Error() string {
	if len(r.Issues) == 0 {
		return fmt.Sprintf("%s %s: refused", r.Verb, r.Host)
	}
	return fmt.Sprintf("%s %s: refused: %s", r.Verb, r.Host, r.Issues[0].Detail)
}

// Final says that repeating the verb changes nothing.
func (r *Refused) Final() bool { return true }

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

package replay

import (
	"context"
	"errors"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
)

// ErrReplay is the answer to everything that would act.
var ErrReplay = errors.New("this is a replay: nothing can be done in it")

// Nothing is the verbs of a replay: none of them does anything.
type Nothing struct{}

var _ feed.Verbs = Nothing{}

// Focus reads no host.
func (Nothing) Focus(...fleet.HostID) {}

// Cordon refuses.
func (Nothing) Cordon(context.Context, fleet.HostID, string) (string, error) { return "", ErrReplay }

// Reword refuses.
func (Nothing) Reword(context.Context, fleet.HostID, string) (string, error) { return "", ErrReplay }

// Uncordon refuses.
func (Nothing) Uncordon(context.Context, fleet.HostID, bool) (string, error) { return "", ErrReplay }

// Plan refuses: a plan is made from facts.
func (Nothing) Plan(context.Context, fleet.HostID, feed.Request) (drain.Plan, error) {
	return drain.Plan{}, ErrReplay
}

// Drain refuses.
func (Nothing) Drain(context.Context, fleet.HostID, feed.Request, drain.Plan) (string, error) {
	return "", ErrReplay
}

// Undrain refuses.
func (Nothing) Undrain(context.Context, fleet.HostID) (string, error) { return "", ErrReplay }

// Ask refuses.
func (Nothing) Ask(context.Context, fleet.HostID, drain.Body) error { return ErrReplay }

// Clean refuses.
func (Nothing) Clean(context.Context, fleet.HostID, fleet.Resource) (string, error) {
	return "", ErrReplay
}

// Check refuses: a gate is read from host and claims.
func (Nothing) Check(context.Context, fleet.HostID) (feed.Gate, error) {
	return feed.Gate{}, ErrReplay
}

// Verify refuses.
func (Nothing) Verify(context.Context, fleet.HostID) (feed.Gate, error) {
	return feed.Gate{}, ErrReplay
}

// Accept refuses.
func (Nothing) Accept(context.Context, fleet.HostID, fleet.Key, string, string) error {
	return ErrReplay
}

// Terminate refuses.
func (Nothing) Terminate(context.Context, fleet.HostID, string) error { return ErrReplay }

// Stop has nothing to stop.
func (Nothing) Stop() {}

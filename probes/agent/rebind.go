package agent

import (
	"cmp"

	"ebb/probes/wire"
)

// rebind writes down that a person has bound the host's name to this machine: who
// reads the log of a machine finds there what it was taken for, and since when.
func (a *Agent) rebind(c Caller, req wire.RebindRequest) (wire.RebindReply, error) {
	if err := a.checkMachine(req.Machine, true); err != nil {
		return wire.RebindReply{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	what := clip(req.Host, maxID) + " by " + clip(req.Who, maxText) + ", instead of machine " + clip(cmp.Or(req.Was, "none"), maxID)
	err := a.audited(c, note{"rebind", what, clip(req.Why, maxText)}, func() error { return nil })
	return wire.RebindReply{Machine: a.cfg.Machine}, err
}

package drain

import (
	"time"

	"ebb/fleet"
)

// quiesced reports whether a copy that served has nothing left to answer. It is
// taken out of traffic first, by the host's own command where the rule names one;
// then its agent reads the gauges, over a window. Until that has been seen to be
// zero it is not told to end: what can't be read may be busy.
func (d *decider) quiesced(it Item) bool {
	switch {
	case it.InFlight == nil || !it.QuietAt.IsZero() || !it.TermAt.IsZero():
		return true
	case it.Readiness != "" && it.UnreadyAt.IsZero():
		if !d.delayed(it) {
			d.act(it, Act{Kind: ActExec, Step: StepUnready, Target: d.s.Host, Exec: it.Readiness, Runs: d.runs(it)})
			d.because(it, fleet.Because(WaitUnready))
		}
	default:
		every := d.p.HealthEvery * time.Duration(min(max(it.Fails, 1), 5))
		if d.tooSoon(it.RetryAt, every) {
			return false
		}
		d.act(it, Act{Kind: ActQuiet, Step: StepQuiesce, Runs: d.runs(it), Quiet: it.InFlight})
		if it.Reason.Code != WaitFailed {
			d.because(it, fleet.Because(WaitBusy))
		}
	}
	return false
}

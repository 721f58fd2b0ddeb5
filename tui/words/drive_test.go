package words

import (
	"testing"

	"ebb/drain"
	"ebb/fleet"
)

// What a drain has brought to rest itself has not arrived.
func TestFoundAtRest(t *testing.T) {
	web := drain.Found{Key: fleet.Key{Kind: "service", ID: "web"}, Class: fleet.Stateless, Phase: fleet.Running}
	rest := drain.Found{Key: fleet.Key{Kind: "sandbox", ID: "t"}, Class: fleet.Pausable, Phase: fleet.AtRest}
	for want, d := range map[string]drain.DriveFound{
		"found nothing that has to leave":                                          {},
		"found service/web (stateless), sandbox/t (pausable)":                      {Items: []drain.Found{web, rest}},
		"arrived late: service/web (stateless); at rest now: sandbox/t (pausable)": {Items: []drain.Found{web, rest}, Late: true},
		"at rest now: sandbox/t (pausable)":                                        {Items: []drain.Found{rest}, Late: true},
	} {
		if got := found(d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// In a drain that is stopped nothing comes that it would have done.
func TestDoingInAStoppedDrain(t *testing.T) {
	it := drain.Item{Found: drain.Found{Class: fleet.Ephemeral}, Reason: fleet.Because(drain.WaitOutlives, "expires", "", "escalates", "2026-11-29T14:31:00Z")}
	p := drain.DefaultPolicy()
	if got := DoingIn(it, drain.State{Phase: drain.Draining}, p, true); got != "escalates 14:31" {
		t.Errorf("%q", got)
	}
	if got := DoingIn(it, drain.State{Phase: drain.Stopped}, p, true); got != "as it is: the drain is stopped" {
		t.Errorf("stopped: %q", got)
	}
	it.Held, it.Reason = true, fleet.Because(drain.WaitHeld, "why", "x")
	if got := DoingIn(it, drain.State{Phase: drain.Stopped}, p, true); got != Doing(it, p, true) {
		t.Errorf("held: %q", got)
	}
}

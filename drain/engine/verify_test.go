package engine

import (
	"testing"

	"ebb/drain"
	"ebb/fleet"
)

// What was lost is named where the host can't be asked, unless it was accepted.
func TestLostIsKnownWithoutTheHost(t *testing.T) {
	a, b := fleet.Key{Kind: "vm", ID: "a"}, fleet.Key{Kind: "vm", ID: "b"}
	s := drain.State{Lost: []drain.LostItem{{Key: a, How: "rebooted"}, {Key: b, How: "rebooted"}}, Accepted: map[fleet.Key]string{b: "it is old"}}
	got := lostIssues(fleet.HostView{}, s)
	if len(got) != 1 || got[0].Key != a || got[0].Check != fleet.CheckLost {
		t.Errorf("got %+v", got)
	}
}

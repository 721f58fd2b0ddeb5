package drain

import (
	"testing"

	"ebb/fleet"
)

// Only what the first inventory would find is taken as found, and never anything
// after it.
func TestForeseen(t *testing.T) {
	k := fleet.Key{Kind: "vm", ID: "a"}
	on := fleet.HostView{Findings: []fleet.Finding{{Key: k}}}
	known := func(s State, k fleet.Key) bool { _, found := s.Foreseen(k, on, DefaultPolicy()).Items[k]; return found }
	switch {
	case !known(State{}, k):
		t.Error("what runs on the host is not known")
	case known(State{}, fleet.Key{Kind: "vm", ID: "b"}):
		t.Error("what does not run on the host is known")
	case known(State{First: true}, k):
		t.Error("what came after the inventory is taken as found by it")
	}
}

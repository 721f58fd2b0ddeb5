package diffview

import (
	"testing"

	"ebb/fleet"
)

func TestEveryVerdictHasItsSection(t *testing.T) {
	for v, want := range map[fleet.Verdict]string{
		fleet.Agreed: "agreed", fleet.Resting: "agreed", fleet.Ghost: "claimed only", fleet.Orphan: "on the host only",
		fleet.Unattributed: "on the host only", fleet.Leak: "leaks", fleet.UnknownV: "unknown", "something new": "unknown",
	} {
		if got := sections[place(v)].name; got != want {
			t.Errorf("%s stands under %s", v, got)
		}
	}
}

// Two things of one name, one after the other, are two rows: a key that was
// meant for the first must not reach the second.
func TestIdentity(t *testing.T) {
	k := fleet.Key{Kind: "netns", ID: "ns-1"}
	a := fleet.Finding{Key: k, Resource: &fleet.Resource{Key: k, Identity: "ino 1"}}
	b := fleet.Finding{Key: k, Resource: &fleet.Resource{Key: k, Identity: "ino 2"}}
	if identity(a) == identity(b) {
		t.Error("a recreated resource is taken for the old one")
	}
}

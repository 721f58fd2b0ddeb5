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

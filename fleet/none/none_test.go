package none

import (
	"errors"
	"testing"

	"ebb/fleet"
)

func TestPlane(t *testing.T) {
	given := []fleet.Host{
		{ID: "ssh/b", Address: "b", Labels: map[string]string{"instance": "i-b"}},
		{ID: "ssh/a", Address: "first"}, {ID: "ssh/a", Address: "second"},
	}
	p, ctx := New("ssh", given), t.Context()
	hosts, err := p.Hosts(ctx)
	if err != nil || len(hosts) != 2 || hosts[0].ID != "ssh/a" || hosts[0].Address != "first" || hosts[1].Instance != "i-b" {
		t.Fatalf("hosts %+v, %v", hosts, err)
	}
	hosts[1].Labels["instance"] = "another" // what it hands out is the caller's
	if again, _ := p.Hosts(ctx); again[1].Labels["instance"] != "i-b" {
		t.Error("a caller changed the plane's own list")
	}
	if given[0].ID != "ssh/b" {
		t.Error("the caller's list was sorted")
	}
	if !p.SelfClaims() {
		t.Error("recognised workloads are not their own claims")
	}
	if c, err := p.Claims(ctx, nil); err != nil || len(c) != 2 || c["ssh/a"] != nil {
		t.Errorf("claims %+v, %v", c, err)
	}
	if c, err := p.Claims(ctx, []fleet.HostID{"ssh/b"}); err != nil || len(c) != 1 {
		t.Errorf("claims of b %+v, %v", c, err)
	}
	want := fleet.Flag{Set: true, Why: "hunch", Who: "ann"}
	if f, err := p.Set(ctx, "ssh/a", want); err != nil || f != want {
		t.Errorf("set %+v, %v", f, err)
	}
	if err := p.Lift(ctx, "ssh/a", false); err != nil {
		t.Error(err)
	}
	if e, err := p.Eligible(ctx, "ssh/a"); err != nil || e.Eligible.Status != fleet.NotApplicable || e.Flag.Set {
		t.Errorf("eligible %+v, %v", e, err)
	}
	var missing *MissingError
	_, set := p.Set(ctx, "ssh/none", want)
	_, claims := p.Claims(ctx, []fleet.HostID{"other/a"})
	_, eligible := p.Eligible(ctx, "")
	for _, err := range []error{set, claims, eligible, p.Lift(ctx, "ssh/none", true)} {
		if !errors.As(err, &missing) || !missing.Final() {
			t.Errorf("of a host it does not know: %v", err)
		}
	}
}

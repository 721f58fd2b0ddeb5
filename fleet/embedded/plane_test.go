package embedded

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ebb/fleet"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a time that tests move.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func noon() *clock { return &clock{time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)} }

func open(t testing.TB, url string, c *clock) *Plane {
	t.Helper()
	p, err := Open(context.Background(), Config{Name: "demo", URL: url, Clock: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func add(t testing.TB, p *Plane, ids ...fleet.HostID) {
	t.Helper()
	for _, id := range ids {
		if err := p.AddHost(t.Context(), fleet.Host{ID: id, Address: "alias-" + id.Name(), Labels: map[string]string{"pool": "gpu", "instance": "i-" + id.Name()}}); err != nil {
			t.Fatal(err)
		}
	}
}

// each runs a test in memory and on a file.
func each(t *testing.T, test func(*testing.T, string)) {
	t.Run("memory", func(t *testing.T) { test(t, "sqlite::memory:") })
	t.Run("file", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "odd ?#name", "plane.db")) })
}

func TestHostsAndClaims(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c := noon()
		p, ctx := open(t, url, c), t.Context()
		odd := fleet.HostID("demo/" + strings.Repeat("x", 4096) + "'\n\x1b[2J\u202e")
		add(t, p, "demo/b", "demo/a", odd)
		if err := p.SetHeartbeat(ctx, "demo/a", c.t); err != nil {
			t.Fatal(err)
		}
		add(t, p, "demo/a") // again: its heartbeat stays
		hosts, err := p.Hosts(ctx)
		if err != nil || len(hosts) != 3 || hosts[0].ID != "demo/a" || hosts[2].ID != odd || hosts[0].Instance != "i-a" ||
			!hosts[0].Heartbeat.Equal(c.t) || hosts[0].Pool() != "gpu" || hosts[0].Address != "alias-a" {
			t.Fatalf("hosts %+v, %v", hosts, err)
		}
		if h, listed, err := p.Host(ctx, "demo/a"); err != nil || !listed || !reflect.DeepEqual(h, hosts[0]) {
			t.Errorf("host alone: %+v, listed %v, %v", h, listed, err)
		}
		if h, listed, err := p.Host(ctx, "demo/none"); err != nil || listed {
			t.Errorf("%+v, listed %v, %v", h, listed, err)
		}

		vm := fleet.Key{Kind: "vm", ID: "v1"}
		full := fleet.Claim{Key: vm, Host: "demo/a", Phase: fleet.Running, Class: fleet.Pausable, Owner: "ann", Status: "busy",
			Expires: c.t.Add(time.Hour), Changed: c.t, Run: fleet.Run{Boot: "b", PID: 7, Start: 8}, Labels: map[string]string{"k": "v"}}
		if err := p.Put(ctx, full); err != nil {
			t.Fatal(err)
		}
		got, err := p.Claims(ctx, nil)
		if want := map[fleet.HostID][]fleet.Claim{"demo/a": {full}}; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("claims\n%+v\nwant\n%+v\n%v", got, want, err)
		}
		if got, err := p.Claims(ctx, []fleet.HostID{"demo/b"}); err != nil || len(got) != 1 || len(got["demo/b"]) != 0 {
			t.Errorf("claims of b: %+v, %v", got, err)
		}
		for _, turn := range []struct {
			phase fleet.Phase
			do    func(context.Context, fleet.Key, fleet.HostID) error
		}{
			{fleet.AtRest, p.Rest}, {fleet.Running, p.Wake},
			{fleet.Gone, func(ctx context.Context, k fleet.Key, _ fleet.HostID) error { return p.End(ctx, k) }},
		} {
			c.t = c.t.Add(time.Minute)
			if err := turn.do(ctx, vm, "demo/a"); err != nil {
				t.Fatal(err)
			}
			phase := turn.phase
			if got, _ := p.Claims(ctx, nil); got["demo/a"][0].Phase != phase || !got["demo/a"][0].Changed.Equal(c.t) {
				t.Errorf("want %s, got %+v", phase, got)
			}
		}
		if err := p.Wake(ctx, vm, "demo/a"); err != nil {
			t.Fatal(err)
		}
		if got, _ := p.Claims(ctx, nil); got["demo/a"][0].Phase != fleet.Gone {
			t.Errorf("what its owner has ended is awake: %+v", got)
		}
		var missing *MissingError
		none := fleet.Key{Kind: "vm", ID: "none"}
		for name, err := range map[string]error{
			"end":       p.End(ctx, none),
			"heartbeat": p.SetHeartbeat(ctx, "demo/none", c.t),
			"put":       p.Put(ctx, fleet.Claim{Key: vm, Host: "other/a"}),
			"rest":      p.Rest(ctx, vm, "demo/b"),
			"settle":    p.Settle(ctx, none, "demo/a", "", ""),
			"move":      p.Move(ctx, vm, "demo/a", "demo/none"),
			"move from": p.Move(ctx, vm, "demo/b", "demo/b"),
			"lift":      p.Lift(ctx, "demo/none", true),
		} {
			if !errors.As(err, &missing) || !missing.Final() {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestSettleAndMove(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		p, ctx := open(t, url, noon()), t.Context()
		add(t, p, "demo/a", "demo/b")
		vm := fleet.Key{Kind: "vm", ID: "v1"}
		if err := p.Put(ctx, fleet.Claim{Key: vm, Host: "demo/a"}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := p.Move(ctx, vm, "demo/a", "demo/b"); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := p.Settle(ctx, vm, "demo/b", "it is not there", "ann"); err != nil {
				t.Fatal(err)
			}
		}
		got, err := p.Claims(ctx, []fleet.HostID{"demo/b"})
		if c := got["demo/b"]; err != nil || len(c) != 1 || c[0].Phase != fleet.Gone || c[0].Labels["settled_by"] != "ebb:ann" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestFlag(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c := noon()
		p, ctx := open(t, url, c), t.Context()
		add(t, p, "demo/a", "demo/b")
		f, err := p.Set(ctx, "demo/a", fleet.Flag{Set: true, Why: "hunch", Who: "ann"})
		if want := (fleet.Flag{Set: true, Why: "hunch", Who: "ann", At: c.t}); err != nil || f != want {
			t.Fatalf("set %+v, %v", f, err)
		}
		c.t = c.t.Add(time.Hour)
		if again, err := p.Set(ctx, "demo/a", fleet.Flag{Set: true, Who: "eve"}); err != nil || again != f {
			t.Errorf("set again %+v, %v", again, err)
		}
		if h, err := p.Hosts(ctx); err != nil || !h[0].Draining || h[0].DrainWho != "ann" || h[1].Draining {
			t.Errorf("hosts %+v, %v", h, err)
		}
		for range 2 {
			if err := p.Lift(ctx, "demo/a", false); err != nil {
				t.Error(err)
			}
		}
		if _, err := p.SetTheirs(ctx, "demo/b", fleet.Flag{Why: "fan", Who: "bob"}); err != nil {
			t.Fatal(err)
		}
		if err := p.Lift(ctx, "demo/b", false); !errors.Is(err, ErrTheirs) || !strings.Contains(err.Error(), "bob") {
			t.Errorf("lift bob's: %v", err)
		}
		if err := p.Lift(ctx, "demo/b", true); err != nil {
			t.Error(err)
		}
		if e, err := p.Eligible(ctx, "demo/b"); err != nil || e.Flag.Set || e.Eligible.Status != fleet.NotApplicable {
			t.Errorf("eligible %+v, %v", e, err)
		}
	})
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []Config{{Name: "", URL: "sqlite::memory:"}, {Name: "a/b", URL: "sqlite::memory:"}, {Name: "a", URL: "sqlite:"}, {Name: "a", URL: dir}, {Name: "a", URL: "sqlite:" + dir}} {
		if _, err := Open(t.Context(), c); err == nil {
			t.Errorf("%+v opened", c)
		}
	}
}

package observe

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"ebb/fleet"
)

func vm(id string) fleet.Key { return fleet.Key{Kind: "vm", ID: id} }

func (f *fakes) runs(name, id string) {
	f.host(name, func(x *fleet.Facts) {
		run := fleet.Run{Boot: "b", PID: 10, Start: 10}
		x.Workloads.Value = []fleet.Workload{{Key: vm(id), Phase: fleet.Running, Run: run, Runs: []fleet.Run{run}}}
		x.Processes.Value = []fleet.Process{{Run: run, Owner: vm(id)}}
	})
}

func verdict(v fleet.HostView, k fleet.Key) fleet.Verdict {
	for _, f := range v.Findings {
		if f.Key == k {
			return f.Verdict
		}
	}
	return "none"
}

// What a watch pushes is settled within one interval, and stays so while
// nothing changes.
func TestFindingsSettle(t *testing.T) {
	f := newFakes("a")
	f.claims["p/a"] = []fleet.Claim{{Key: vm("ghost"), Host: "p/a", Phase: fleet.Running}}
	observing(t, f, func(t *testing.T, o *Observer) {
		o.Focus("p/a")
		time.Sleep(5 * time.Second)
		f.runs("a", "stray")
		time.Sleep(1500 * time.Millisecond)
		for i := range 100 {
			v := o.see(t, "a")
			if !v.Stable || verdict(v, vm("stray")) != fleet.Orphan || verdict(v, vm("ghost")) != fleet.Ghost {
				t.Fatalf("after %d rounds: stable %v, %s, %s", i, v.Stable, verdict(v, vm("stray")), verdict(v, vm("ghost")))
			}
			time.Sleep(170 * time.Millisecond)
		}
		// A claim that has just come is not a ghost before it has been seen twice
		// around a reading of the host.
		f.do(func() {
			f.claims["p/a"] = append(f.claims["p/a"], fleet.Claim{Key: vm("new"), Host: "p/a", Phase: fleet.Running})
		})
		time.Sleep(3100 * time.Millisecond)
		if v := o.see(t, "a"); verdict(v, vm("new")) == fleet.Ghost && !v.Stable {
			t.Error("suspected as a ghost, and not marked as such")
		}
		time.Sleep(6 * time.Second)
		if v := o.see(t, "a"); !v.Stable || verdict(v, vm("new")) != fleet.Ghost {
			t.Errorf("stable %v, %s", v.Stable, verdict(v, vm("new")))
		}
	})
}

func TestLookReadsClaimsAroundFacts(t *testing.T) {
	f := newFakes("a")
	synctest.Test(t, func(t *testing.T) {
		o := looker(f, nil)
		v, err := o.Look(t.Context(), "p/a")
		if err != nil || !v.Stable {
			t.Fatalf("%v, stable %v", err, v.Stable)
		}
		if want := []string{"hosts", "claims", "facts", "claims"}; !slices.Equal(f.calls, want) {
			t.Errorf("calls %v, want %v", f.calls, want)
		}
		if _, err := o.Look(t.Context(), "p/none"); !errors.Is(err, ErrNotListed) {
			t.Errorf("a host that is not listed: %v", err)
		}
		if _, err := o.Look(t.Context(), "q/a"); err == nil {
			t.Error("a plane that is not configured")
		}
	})
}

func looker(f *fakes, plane Plane) *Observer {
	if plane == nil {
		plane = f
	}
	return New(Config{Planes: map[string]Plane{"p": plane}, Window: map[string]time.Duration{"p": 35 * time.Second},
		Agent: func(_ context.Context, h fleet.Host) (Agent, error) { return fakeAgent{f, h.ID}, nil }})
}

// A host that hangs costs whoever looks at it a bounded time.
func TestLookIsBounded(t *testing.T) {
	f := newFakes("a")
	f.deaf["p/a"] = true
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		v, err := looker(f, nil).Look(t.Context(), "p/a")
		if err != nil || v.Facts.Status != fleet.Failed || v.Problem == "" || time.Since(began) > 30*time.Second {
			t.Errorf("%v, %+v after %v", err, v.Facts, time.Since(began))
		}
	})
}

// A look that fails leaves what was known, with its age.
func TestFailedLookKeepsWhatWasKnown(t *testing.T) {
	f := newFakes("a")
	observing(t, f, func(t *testing.T, o *Observer) {
		f.runs("a", "x")
		f.host("a", func(x *fleet.Facts) { x.Holds.Cordon = &fleet.Hold{Kind: fleet.CordonHold} })
		if _, err := o.Look(t.Context(), "p/a"); err != nil {
			t.Fatal(err)
		}
		f.do(func() { f.dead["p/a"] = true })
		v, _ := o.Look(t.Context(), "p/a")
		if v.Facts.Status != fleet.Failed {
			t.Errorf("whoever looks is told %s", v.Facts.Status)
		}
		time.Sleep(time.Second)
		if v := o.see(t, "a"); v.Facts.Status != fleet.OK || v.Unreachable.IsZero() || v.Cordon != fleet.HostOnly {
			t.Errorf("the screen shows %s, unreachable %v, cordon %q", v.Facts.Status, v.Unreachable, v.Cordon)
		}
	})
}

func TestCordonOf(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	hold := func(age time.Duration) fleet.Holds {
		return fleet.Holds{Cordon: &fleet.Hold{Since: now.Add(-age)}}
	}
	flag := func(age time.Duration) fleet.Host { return fleet.Host{Draining: true, DrainAt: now.Add(-age)} }
	const w, old, young = 35 * time.Second, time.Hour, time.Second
	cases := map[string]struct {
		in   CordonInput
		want fleet.CordonState
	}{
		"nothing":                        {CordonInput{}, fleet.Uncordoned},
		"the host only":                  {CordonInput{Holds: hold(old)}, fleet.HostOnly},
		"the plane only":                 {CordonInput{Host: flag(old)}, fleet.PlaneOnly},
		"no plane to tell":               {CordonInput{Holds: hold(young), SelfClaims: true}, fleet.Cordoned},
		"both, long ago":                 {CordonInput{Holds: hold(old), Host: flag(old), PlaneNow: now}, fleet.Cordoned},
		"the host is younger":            {CordonInput{Holds: hold(young), Host: flag(old), PlaneNow: now}, fleet.Cordoning},
		"the plane is younger":           {CordonInput{Holds: hold(old), Host: flag(young), PlaneNow: now}, fleet.Cordoning},
		"the scheduler has not seen it":  {CordonInput{Holds: hold(old), Host: flag(old), PlaneNow: now, Eligible: fleet.Read(true, "", now, 0)}, fleet.Cordoning},
		"it has":                         {CordonInput{Holds: hold(old), Host: flag(old), PlaneNow: now, Eligible: fleet.Read(false, "", now, 0)}, fleet.Cordoned},
		"its clock can't be read":        {CordonInput{Holds: hold(old), Host: flag(old)}, fleet.Cordoning},
		"but the flag was watched":       {CordonInput{Holds: hold(old), Host: flag(old), Watched: w}, fleet.Cordoned},
		"the plane does not say when":    {CordonInput{Holds: hold(old), Host: fleet.Host{Draining: true}, PlaneNow: now, Watched: w}, fleet.Cordoned},
		"a second hold renews no window": {CordonInput{Holds: fleet.Holds{Cordon: hold(old).Cordon, Drain: &fleet.Hold{Since: now}}, Host: flag(old), PlaneNow: now}, fleet.Cordoned},
	}
	for name, c := range cases {
		for _, skew := range []time.Duration{0, time.Hour, -time.Hour} {
			in := c.in
			in.Window, in.HostNow = w, now
			if in.Host.Draining && !in.Host.DrainAt.IsZero() { // the plane's clock is another one
				in.Host.DrainAt = in.Host.DrainAt.Add(skew)
				if !in.PlaneNow.IsZero() {
					in.PlaneNow = in.PlaneNow.Add(skew)
				}
			}
			if got := CordonOf(in); got != c.want {
				t.Errorf("%s, skewed by %v: %q, want %q", name, skew, got, c.want)
			}
		}
	}
}

// A fresh flag is not proved early, an old one not late, whatever the plane's
// clock says; without its clock the window counts from when the flag was seen.
func TestSkewedPlane(t *testing.T) {
	for _, skew := range []time.Duration{0, time.Hour, -time.Hour} {
		for _, clocked := range []bool{true, false} {
			f := newFakes("a")
			f.ahead, f.clocked = skew, clocked
			observing(t, f, func(t *testing.T, o *Observer) {
				f.host("a", func(x *fleet.Facts) {
					x.Holds.Cordon = &fleet.Hold{Kind: fleet.CordonHold, Since: time.Now().Add(-10 * time.Minute)}
				})
				f.do(func() { f.hosts[0].Draining, f.hosts[0].DrainAt = true, time.Now().Add(skew) })
				time.Sleep(30 * time.Second)
				if v, _ := o.Look(t.Context(), "p/a"); v.Cordon != fleet.Cordoning {
					t.Errorf("skew %v, clock %v: %q after 30s", skew, clocked, v.Cordon)
				}
				time.Sleep(10 * time.Second)
				if v, _ := o.Look(t.Context(), "p/a"); v.Cordon != fleet.Cordoned {
					t.Errorf("skew %v, clock %v: %q after 40s", skew, clocked, v.Cordon)
				}
			})
			if !clocked {
				continue
			}
			synctest.Test(t, func(t *testing.T) { // a process that has just begun
				f.hosts[0].DrainAt = time.Now().Add(skew - time.Minute)
				f.facts["p/a"] = fleet.Facts{Machine: "m-a", Holds: fleet.Holds{Cordon: &fleet.Hold{Since: time.Now().Add(-time.Minute)}}}
				if v, _ := looker(f, clock{f}).Look(t.Context(), "p/a"); v.Cordon != fleet.Cordoned {
					t.Errorf("skew %v: %q at first sight", skew, v.Cordon)
				}
			})
		}
	}
}

// finder is a plane that can look one host up.
type finder struct{ *fakes }

func (f finder) Host(ctx context.Context, id fleet.HostID) (fleet.Host, bool, error) {
	hosts, err := f.Hosts(ctx)
	f.do(func() { f.calls[len(f.calls)-1] = "host" })
	for _, h := range hosts {
		if h.ID == id {
			return h, true, nil
		}
	}
	return fleet.Host{}, false, err
}

// Whoever looks at one host does not have the plane list all of them, and hears
// the same of one that is not listed or whose plane is away.
func TestLookFindsOneHost(t *testing.T) {
	f := newFakes("a", "b")
	o := New(Config{Planes: map[string]Plane{"p": finder{f}}, Agent: func(_ context.Context, h fleet.Host) (Agent, error) { return fakeAgent{f, h.ID}, nil }})
	v, err := o.Look(t.Context(), "p/b")
	if err != nil || v.Host.ID != "p/b" || v.Facts.Status != fleet.OK {
		t.Fatalf("%+v, %v", v, err)
	}
	if slices.Contains(f.calls, "hosts") || !slices.Contains(f.calls, "host") {
		t.Fatalf("calls %v", f.calls)
	}
	if _, err := o.Look(t.Context(), "p/c"); !errors.Is(err, ErrNotListed) {
		t.Fatalf("not listed: %v", err)
	}
	f.away = true
	if _, err := o.Look(t.Context(), "p/b"); !errors.Is(err, errAway) || errors.Is(err, ErrNotListed) {
		t.Fatalf("plane away: %v", err)
	}
}

// A hold ages by the host's clock also while the host has nothing new to look at:
// what counts is the clock as it answered, not when it looked last.
func TestHostNowOfASummary(t *testing.T) {
	now := time.Now()
	looked := now.Add(-time.Minute)
	for name, c := range map[string]struct {
		sum  fleet.Summary
		want time.Time
	}{
		"it tells its clock": {fleet.Summary{At: looked, Clock: now}, now},
		"it does not":        {fleet.Summary{At: looked}, looked},
	} {
		got := hostNow(fleet.HostView{Summary: fleet.Read(c.sum, "agent", now.Add(-time.Second), time.Second)})
		if d := got.Sub(c.want); d < 0 || d > 20*time.Second {
			t.Errorf("%s: %v off", name, d)
		}
	}
}

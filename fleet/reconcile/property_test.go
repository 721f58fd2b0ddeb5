package reconcile

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ebb/fleet"
)

var statuses = []fleet.Status{fleet.OK, fleet.OK, fleet.OK, fleet.OK, fleet.Failed, fleet.Unknown, fleet.NotApplicable}

// scenes draws inputs with few names, so that claims and facts meet.
func scenes() *rapid.Generator[Input] {
	id := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	phase := rapid.SampledFrom([]fleet.Phase{fleet.Running, fleet.Running, fleet.AtRest, fleet.Gone, "odd"})
	pid := rapid.IntRange(1, 6)
	aClaim := rapid.Custom(func(t *rapid.T) fleet.Claim {
		c := claim(id.Draw(t, "id"), phase.Draw(t, "phase"))
		c.Host = rapid.SampledFrom([]fleet.HostID{host, host, host, "prod/other"}).Draw(t, "host")
		c.Class = rapid.SampledFrom(fleet.Classes).Draw(t, "class")
		if rapid.Bool().Draw(t, "run") {
			c.Run = work("", pid.Draw(t, "pid")).Run
		}
		return c
	})
	aWorkload := rapid.Custom(func(t *rapid.T) fleet.Workload {
		w := work(id.Draw(t, "id"), pid.Draw(t, "pid"))
		w.Phase = rapid.SampledFrom([]fleet.Phase{fleet.Running, fleet.AtRest}).Draw(t, "phase")
		w.Kept = rapid.SampledFrom([]string{"", "", "", "rule"}).Draw(t, "kept")
		return w
	})
	aProcess := rapid.Custom(func(t *rapid.T) fleet.Process {
		p := proc(pid.Draw(t, "pid"), "x")
		p.PPID = pid.Draw(t, "ppid")
		p.State = rapid.SampledFrom([]string{"S", "Z"}).Draw(t, "state")
		p.System = rapid.SampledFrom([]string{"", "", "unit"}).Draw(t, "system")
		if rapid.Bool().Draw(t, "owned") {
			p.Owner = vm(id.Draw(t, "owner"))
		}
		return p
	})
	aDir := rapid.Custom(func(t *rapid.T) fleet.Resource {
		r := fleet.Resource{Key: dir("/v/" + id.Draw(t, "id")), Identity: fmt.Sprint(pid.Draw(t, "inode"))}
		if rapid.Bool().Draw(t, "owned") {
			r.Owner = vm(id.Draw(t, "owner"))
		}
		if rapid.Bool().Draw(t, "used") {
			r.Users = []fleet.Run{{PID: 3}}
		}
		return r
	})
	distinct := func(w fleet.Workload) string { return w.Key.String() + w.Run.String() }
	return rapid.Custom(func(t *rapid.T) Input {
		in := scene()
		status := rapid.SampledFrom(statuses)
		in.After = claims(rapid.SliceOfN(aClaim, 0, 6).Draw(t, "after")...)
		in.Before = in.After
		if rapid.Bool().Draw(t, "moved") {
			in.Before = claims(rapid.SliceOfN(aClaim, 0, 6).Draw(t, "before")...)
		}
		in.Before.Status, in.After.Status = status.Draw(t, "before status"), status.Draw(t, "after status")
		in.SelfClaims = rapid.IntRange(0, 5).Draw(t, "self") == 0
		in.Facts.Status = status.Draw(t, "facts status")
		f := &in.Facts.Value
		f.Workloads.Value = rapid.SliceOfNDistinct(aWorkload, 0, 4, distinct).Draw(t, "workloads")
		f.Processes.Value = rapid.SliceOfNDistinct(aProcess, 0, 4, func(p fleet.Process) int { return p.Run.PID }).Draw(t, "processes")
		f.Dirs.Value = rapid.SliceOfNDistinct(aDir, 0, 4, func(r fleet.Resource) fleet.Key { return r.Key }).Draw(t, "dirs")
		f.Workloads.Status, f.Processes.Status, f.Dirs.Status = status.Draw(t, "w"), status.Draw(t, "p"), status.Draw(t, "d")
		if rapid.IntRange(0, 3).Draw(t, "ticket") == 0 {
			f.Tickets = []fleet.Ticket{{ID: "t", Key: vm(id.Draw(t, "for"))}}
		}
		return in
	})
}

func negative(v fleet.Verdict) bool {
	return v == fleet.Ghost || v == fleet.Orphan || v == fleet.Leak
}

// live lists the keys that a reading that can be relied on claims, for any host.
func live(in Input, here bool) map[fleet.Key]bool {
	out := map[fleet.Key]bool{}
	for _, r := range []fleet.Reading[[]fleet.Claim]{in.Before, in.After} {
		for _, c := range r.Value {
			if r.Status == fleet.OK && c.Phase != fleet.Gone && (!here || c.Host == host) {
				out[c.Key] = true
			}
		}
	}
	return out
}

func TestEveryClaimAndFactEndsInOneFinding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := scenes().Draw(t, "in")
		findings := Reconcile(in).Findings
		aboutClaim, aboutWork, aboutProc := map[fleet.Key]int{}, map[fleet.Run]map[fleet.Key]int{}, map[fleet.Key]int{}
		aboutDir := map[fleet.Key]int{}
		for _, f := range findings {
			n := 0
			if f.Claim != nil {
				aboutClaim[f.Claim.Key]++
				n++
			}
			if f.Workload != nil {
				if aboutWork[f.Workload.Run] == nil {
					aboutWork[f.Workload.Run] = map[fleet.Key]int{}
				}
				aboutWork[f.Workload.Run][f.Workload.Key]++
				n++
			}
			if f.Process != nil {
				aboutProc[f.Process.Key()]++
				n++
			}
			if f.Resource != nil {
				aboutDir[f.Resource.Key]++
				n++
			}
			if n == 0 || f.Verdict == "" {
				t.Fatalf("a finding about nothing: %+v", f)
			}
		}
		if !in.SelfClaims {
			for k := range live(in, true) {
				if aboutClaim[k] != 1 {
					t.Fatalf("claim %s has %d findings: %s", k, aboutClaim[k], told(findings))
				}
			}
		}
		facts, ok := in.Facts.Get()
		if !ok {
			return
		}
		home := map[fleet.Key]bool{}
		if !in.SelfClaims {
			home = live(in, true)
		}
		for _, w := range value(facts.Workloads) {
			home[w.Key] = true
			if aboutWork[w.Run][w.Key] != 1 {
				t.Fatalf("workload %s has %d findings: %s", w.Key, aboutWork[w.Run][w.Key], told(findings))
			}
		}
		for _, r := range value(facts.Dirs) {
			want := 1
			if home[r.Owner] {
				want = 0 // evidence in its owner's finding
			}
			if aboutDir[r.Key] != want {
				t.Fatalf("%s has %d findings, want %d: %s", r.Key, aboutDir[r.Key], want, told(findings))
			}
		}
		for _, p := range value(facts.Processes) {
			n, outside := aboutProc[p.Key()], !home[p.Owner] && (p.System == "" || !p.Owner.IsZero())
			if n > 1 || !outside && n != 0 || outside && p.State != "Z" && n != 1 {
				t.Fatalf("process %d has %d findings: %s", p.Run.PID, n, told(findings))
			}
		}
	})
}

func TestNothingClaimedIsALeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := scenes().Draw(t, "in")
		claimed := live(in, false)
		for _, f := range Reconcile(in).Findings {
			if f.Verdict == fleet.Leak && !in.SelfClaims && claimed[f.Resource.Owner] {
				t.Fatalf("%s", told([]fleet.Finding{f}))
			}
		}
	})
}

func TestFailedReadingGivesNoGhostOrphanOrLeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := scenes().Draw(t, "in")
		bad := rapid.SampledFrom([]fleet.Status{fleet.Failed, fleet.Unknown}).Draw(t, "bad")
		switch rapid.IntRange(0, 4).Draw(t, "which") {
		case 0:
			in.Facts.Status = bad
		case 1:
			in.Facts.Value.Workloads.Status = bad
		case 2:
			in.SelfClaims, in.After.Status = false, bad
		case 3:
			in.SelfClaims, in.Before.Status = false, bad
		case 4: // workloads may have been seen, but no absence can be concluded
			in.Facts.Value.Processes.Status = bad
			in.Facts.Value.Workloads.Value = nil
		}
		for _, f := range Reconcile(in).Findings {
			if negative(f.Verdict) {
				t.Fatalf("%s", told([]fleet.Finding{f}))
			}
		}
	})
}

// Knowing less never gives a verdict that knowing more did not: what a failed
// reading takes away becomes unknown or unseen, nothing else.
func TestUnknownNeverUpgrades(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := scenes().Draw(t, "in")
		type mark struct {
			key     fleet.Key
			verdict fleet.Verdict
		}
		had := map[mark]bool{}
		for _, f := range Reconcile(in).Findings {
			had[mark{f.Key, f.Verdict}] = true
		}
		bad := rapid.SampledFrom([]fleet.Status{fleet.Failed, fleet.Unknown}).Draw(t, "bad")
		all := []*fleet.Status{
			&in.Facts.Status, &in.Before.Status, &in.After.Status, &in.Facts.Value.Workloads.Status,
			&in.Facts.Value.Processes.Status, &in.Facts.Value.Dirs.Status, &in.Facts.Value.Loops.Status,
		}
		*rapid.SampledFrom(all).Draw(t, "which") = bad
		for _, f := range Reconcile(in).Findings {
			if f.Verdict != fleet.UnknownV && !had[mark{f.Key, f.Verdict}] {
				t.Fatalf("new with less known: %s", told([]fleet.Finding{f}))
			}
		}
	})
}

func TestOrderOfInputDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := scenes().Draw(t, "in")
		other := in
		other.Before.Value = rapid.Permutation(in.Before.Value).Draw(t, "before")
		other.After.Value = rapid.Permutation(in.After.Value).Draw(t, "after")
		f := in.Facts.Value
		f.Workloads.Value = rapid.Permutation(f.Workloads.Value).Draw(t, "workloads")
		f.Processes.Value = rapid.Permutation(f.Processes.Value).Draw(t, "processes")
		f.Dirs.Value = rapid.Permutation(f.Dirs.Value).Draw(t, "dirs")
		other.Facts.Value = f
		a, b := Reconcile(in), Reconcile(other)
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("%s\n%s", told(a.Findings), told(b.Findings))
		}
		if !slices.IsSortedFunc(a.Findings, func(x, y fleet.Finding) int { return compare(&x, &y) }) {
			t.Fatal("not sorted")
		}
	})
}

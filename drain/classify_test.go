package drain

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ebb/fleet"
)

func finding(verdict fleet.Verdict, plane, host fleet.Class, labels map[string]string) fleet.Finding {
	k := fleet.Key{Kind: "vm", ID: "web-1"}
	f := fleet.Finding{Key: k, Verdict: verdict, Workload: &fleet.Workload{Key: k, Class: host, Rule: "manifest", Owner: "onhost", Labels: labels}}
	if verdict == fleet.Agreed {
		f.Claim = &fleet.Claim{Key: k, Class: plane, Owner: "search"}
	}
	return f
}

func TestClassify(t *testing.T) {
	rule := func(m fleet.RuleMatch, c fleet.Class, b fleet.Budget) fleet.ClassRule {
		return fleet.ClassRule{Match: m, Class: c, Budget: b}
	}
	host := fleet.Host{ID: "prod/h1", Labels: map[string]string{"pool": "gpu"}}
	cases := []struct {
		name  string
		rules []fleet.ClassRule
		f     fleet.Finding
		class fleet.Class
		by    string
		grace time.Duration
	}{
		{"the fleet's rule wins", []fleet.ClassRule{rule(fleet.RuleMatch{ID: "web-*"}, fleet.Durable, fleet.Budget{})}, finding(fleet.Agreed, fleet.Stuck, fleet.Ephemeral, nil), fleet.Durable, "rule id web-*", 0},
		{"the first of two", []fleet.ClassRule{rule(fleet.RuleMatch{Kind: "vm"}, fleet.Stuck, fleet.Budget{Grace: time.Hour}), rule(fleet.RuleMatch{}, fleet.Durable, fleet.Budget{})}, finding(fleet.Agreed, "", "", nil), fleet.Stuck, "kind vm", time.Hour},
		{"then the plane", nil, finding(fleet.Agreed, fleet.Stuck, fleet.Ephemeral, nil), fleet.Stuck, "plane prod", 10 * time.Minute},
		{"then the host", nil, finding(fleet.Agreed, "", fleet.Ephemeral, nil), fleet.Ephemeral, "host rule manifest", time.Minute},
		{"else nothing", nil, finding(fleet.Agreed, "", "", nil), fleet.Unclassified, "", 0},
		{"a class that does not exist", nil, finding(fleet.Agreed, "cattle", "pet", nil), fleet.Unclassified, "", 0},
		{"never an orphan", []fleet.ClassRule{rule(fleet.RuleMatch{}, fleet.Stuck, fleet.Budget{})}, finding(fleet.Orphan, "", fleet.Stuck, nil), fleet.Unclassified, "", 0},
		{"by label", []fleet.ClassRule{rule(fleet.RuleMatch{Label: "app=vllm"}, fleet.Stateless, fleet.Budget{})}, finding(fleet.Agreed, "", "", map[string]string{"app": "vllm"}), fleet.Stateless, "label app=vllm", 3 * time.Minute},
		{"by another label", []fleet.ClassRule{rule(fleet.RuleMatch{Label: "app=vllm"}, fleet.Stateless, fleet.Budget{})}, finding(fleet.Agreed, "", "", map[string]string{"app": "x"}), fleet.Unclassified, "", 0},
		{"by the plane's owner", []fleet.ClassRule{rule(fleet.RuleMatch{Owner: "search", Pool: "gpu", Plane: "prod"}, fleet.Pausable, fleet.Budget{})}, finding(fleet.Agreed, "", "", nil), fleet.Pausable, "owner search", 0},
		{"in another pool", []fleet.ClassRule{rule(fleet.RuleMatch{Pool: "cpu"}, fleet.Pausable, fleet.Budget{})}, finding(fleet.Agreed, "", "", nil), fleet.Unclassified, "", 0},
		{"a broken pattern matches nothing", []fleet.ClassRule{rule(fleet.RuleMatch{ID: "["}, fleet.Stuck, fleet.Budget{})}, finding(fleet.Agreed, "", "", nil), fleet.Unclassified, "", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := DefaultPolicy()
			p.Rules = c.rules
			got := Classify(c.f, host, p)
			if got.Class != c.class || !strings.Contains(got.Rule, c.by) || got.Budget.Grace != c.grace {
				t.Fatalf("class %s by %q grace %s", got.Class, got.Rule, got.Budget.Grace)
			}
		})
	}
}

func TestOwnersGraceIsNeverShortened(t *testing.T) {
	f := finding(fleet.Agreed, fleet.Ephemeral, "", nil)
	f.Workload.Grace = 20 * time.Minute
	if g := Classify(f, fleet.Host{ID: "prod/h"}, DefaultPolicy()).Budget.Grace; g != 20*time.Minute {
		t.Fatalf("grace %s", g)
	}
}

func TestKeep(t *testing.T) {
	p := DefaultPolicy()
	p.Rules = []fleet.ClassRule{{Match: fleet.RuleMatch{ID: "db-*"}, Class: fleet.Durable}, {Match: fleet.RuleMatch{Kind: "vm"}, Keep: true}}
	host := fleet.Host{ID: "prod/h"}
	if !Keeps(finding(fleet.Agreed, "", "", nil), host, p) {
		t.Fatal("not kept")
	}
	db := finding(fleet.Agreed, "", "", nil)
	db.Key.ID = "db-1"
	if Keeps(db, host, p) {
		t.Fatal("an earlier rule gives it a class, and it is kept all the same")
	}
}

func TestKeepRuleThatComesLater(t *testing.T) {
	w := newWorld(t)
	w.add("plugin", fleet.Durable)
	w.start(45 * time.Minute)
	w.until(time.Minute, "waits", w.reason("plugin", WaitNoStrategy))
	w.p.Rules = []fleet.ClassRule{{Match: fleet.RuleMatch{ID: "plugin"}, Keep: true}}
	w.until(time.Minute, "empty", w.phase(Empty))
	if len(w.s.Lost) != 0 || w.s.Items[wk("plugin")].Kept == "" {
		t.Fatalf("%s", w.dump())
	}
}

func TestScale(t *testing.T) {
	p := DefaultPolicy()
	p.Rules = []fleet.ClassRule{{Budget: fleet.Budget{Grace: time.Minute}}}
	fast := p.Scale(10)
	if fast.Notice != 6*time.Second || fast.Defaults[fleet.Stuck].Grace != time.Minute || fast.Rules[0].Grace != 6*time.Second {
		t.Fatalf("%+v", fast)
	}
	if p.Rules[0].Grace != time.Minute || p.Defaults[fleet.Stuck].Grace != 10*time.Minute || p.Scale(0).Notice != time.Minute {
		t.Fatal("scaling changed the original")
	}
}

func TestPlan(t *testing.T) {
	w := newWorld(t)
	w.targets = []fleet.HostID{"prod/t1"}
	w.add("e1", fleet.Ephemeral, ttl(10*time.Minute))
	w.add("e2", fleet.Ephemeral, ttl(3*time.Hour))
	w.add("s1", fleet.Stateless)
	w.add("s2", fleet.Stateless)
	w.add("s3", fleet.Stateless)
	w.add("s4", fleet.Stateless, func(p *proc) { p.health = "" })
	w.add("k1", fleet.Stuck)
	w.add("k2", fleet.Stuck, func(p *proc) { p.rests = true })
	w.add("p1", fleet.Pausable)
	w.add("o1", fleet.Stuck, unclaimed)
	for _, cordon := range []fleet.CordonState{fleet.Cordoned, fleet.Uncordoned} {
		w.cordon = cordon
		planned(t, w)
	}
	if short := MakePlan(w.view(), w.p, noon.Add(5*time.Minute), "", noon); short.Items[len(short.Items)-3].Reason.Code != WaitNoTime {
		t.Errorf("a stuck one with ten minutes of grace and five to go: %+v", short.Items)
	}
}

// planned compares a plan with what it should be. What waits for nobody else's time
// begins when the cordon has taken.
func planned(t *testing.T, w *world) {
	t.Helper()
	var proof time.Duration
	if w.cordon != fleet.Cordoned {
		proof = w.p.CacheWindow
	}
	plan := MakePlan(w.view(), w.p, noon.Add(45*time.Minute), "", noon)
	want := map[string]struct {
		code string
		by   time.Duration
		may  bool
	}{
		"e1": {"", 10 * time.Minute, true},
		"e2": {"", 45*time.Minute - w.p.Margin, true},
		"s1": {"", proof + 20*time.Minute, true},
		"s2": {"", proof + 20*time.Minute, true},
		"s3": {"", proof + 40*time.Minute, true}, // when one of the two that go there has gone
		"s4": {WaitNoCommand, 0, false},
		"k1": {"", proof + 11*time.Minute + 30*time.Second, true},
		"k2": {WaitNoStrategy, 0, false},
		"p1": {WaitNoStrategy, 0, false},
		"o1": {WaitUnclassified, 0, false},
	}
	if len(plan.Items) != len(want) || !plan.Expected.IsZero() {
		t.Fatalf("%+v", plan)
	}
	for _, it := range plan.Items {
		x := want[it.Key.ID]
		var by time.Duration
		if !it.GoneBy.IsZero() {
			by = it.GoneBy.Sub(noon)
		}
		if it.Reason.Code != x.code || by != x.by || it.MayDie != x.may {
			t.Errorf("%s: reason %v gone by %s may die %v", it.Key, it.Reason, by, it.MayDie)
		}
	}
	if plan.Items[0].Class != fleet.Ephemeral || plan.Items[len(plan.Items)-1].Class != fleet.Unclassified {
		t.Error("not in the order of the classes")
	}
}

// An escalation that would just fit, were it not for the cordon that has to be
// proved first, is not promised.
func TestPlanCountsTheCordon(t *testing.T) {
	w := newWorld(t)
	w.add("e", fleet.Ephemeral, ttl(3*time.Hour))
	deadline := noon.Add(w.p.escalation(w.p.Defaults[fleet.Ephemeral].Grace) + time.Second)
	for cordon, code := range map[fleet.CordonState]string{fleet.Cordoned: "", fleet.Uncordoned: WaitNoTime, fleet.Cordoning: WaitNoTime} {
		w.cordon = cordon
		if it := MakePlan(w.view(), w.p, deadline, "", noon).Items[0]; it.Reason.Code != code {
			t.Errorf("%s: %v, gone by %v", cordon, it.Reason, it.GoneBy)
		}
	}
}

func TestPlanBlocks(t *testing.T) {
	w := newWorld(t)
	w.holds.Drain = &fleet.Hold{Drain: "d9", Who: "bob"}
	w.probe, w.planeDown = "netns", true
	if got := MakePlan(w.view(), w.p, noon.Add(time.Hour), "", noon).Blocks; len(got) != 3 {
		t.Fatalf("%q", got)
	}
	w.factsDown = true
	if got := MakePlan(w.view(), w.p, noon.Add(time.Hour), "", noon); len(got.Blocks) != 1 || len(got.Items) != 0 || got.Unread == "" {
		t.Fatalf("%+v", got)
	}
}

// The plan of a drain that would go on keeps to what somebody has said in it.
func TestPlanOfAStandingDrain(t *testing.T) {
	w := newWorld(t)
	w.add("held", fleet.Stuck)
	w.add("kept", fleet.Stuck)
	w.add("free", fleet.Stuck)
	w.start(time.Hour)
	w.until(2*time.Minute, "found", func() bool { return w.s.First })
	w.ask(AskHold{Key: wk("held"), Reason: "look"})
	w.ask(AskKeep{Key: wk("kept"), Reason: "mine"})
	w.ask(AskStop{})
	v := w.view()
	v.Standing = w.s
	p := MakePlan(v, w.p, w.now.Add(time.Hour), "", w.now)
	if len(p.Blocks) != 0 || p.Stay != 2 || !slices.Equal(p.MayDie(), []fleet.Key{wk("free")}) {
		t.Fatalf("blocks %q, %d stay, may die %v", p.Blocks, p.Stay, p.MayDie())
	}
	v.Standing = State{}
	if p := MakePlan(v, w.p, w.now.Add(time.Hour), "", w.now); len(p.Blocks) != 1 || len(p.MayDie()) != 3 {
		t.Fatalf("of another's: blocks %q, may die %v", p.Blocks, p.MayDie())
	}
}

func TestPlace(t *testing.T) {
	target := func(id string, change func(*fleet.HostView)) fleet.HostView {
		v := fleet.HostView{Host: fleet.Host{ID: fleet.HostID(id), Labels: map[string]string{"pool": "a"}},
			Summary: fleet.Read(fleet.Summary{Classes: map[fleet.Class]int{fleet.Stuck: 3}}, "s", noon, 0)}
		if change != nil {
			change(&v)
		}
		return v
	}
	cases := []struct {
		name    string
		targets []fleet.HostView
		inbound map[fleet.HostID]int
		tried   fleet.HostID
		want    fleet.HostID
		why     string
	}{
		{"nobody", nil, nil, "", "", "no other host"},
		{"itself", []fleet.HostView{target("prod/h1", nil)}, nil, "", "", "no other host"},
		{"another pool", []fleet.HostView{target("prod/x", func(v *fleet.HostView) { v.Host.Labels = nil })}, nil, "", "", "pool none, wanted a"},
		{"held", []fleet.HostView{target("prod/x", func(v *fleet.HostView) { v.Summary.Value.Holds.Cordon = &fleet.Hold{} })}, nil, "", "", "held"},
		{"flagged", []fleet.HostView{target("prod/x", func(v *fleet.HostView) { v.Host.Draining = true })}, nil, "", "", "plane"},
		{"unreachable", []fleet.HostView{target("prod/x", func(v *fleet.HostView) { v.Unreachable = noon })}, nil, "", "", "can't be read"},
		{"never read", []fleet.HostView{target("prod/x", func(v *fleet.HostView) { v.Summary.Status = fleet.Unknown })}, nil, "", "", "can't be read"},
		{"full", []fleet.HostView{target("prod/x", nil)}, map[fleet.HostID]int{"prod/x": 2}, "", "", "as many moves"},
		{"fewest moves", []fleet.HostView{target("prod/x", nil), target("prod/y", nil)}, map[fleet.HostID]int{"prod/x": 1}, "", "prod/y", ""},
		{"fewest workloads", []fleet.HostView{target("prod/x", nil), target("prod/y", func(v *fleet.HostView) { v.Summary.Value.Classes = nil })}, nil, "", "prod/y", ""},
		{"by name", []fleet.HostView{target("prod/y", nil), target("prod/x", nil)}, nil, "", "prod/x", ""},
		{"not where it failed", []fleet.HostView{target("prod/x", nil), target("prod/y", nil)}, nil, "prod/x", "prod/y", ""},
		{"where it failed, if it must", []fleet.HostView{target("prod/x", nil)}, nil, "prod/x", "prod/x", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inbound := map[fleet.HostID][]Found{}
			for id, n := range c.inbound {
				inbound[id] = make([]Found, n)
			}
			d := &decider{p: DefaultPolicy(), inbound: inbound, v: View{Targets: c.targets,
				Source: fleet.HostView{Host: fleet.Host{ID: "prod/h1", Labels: map[string]string{"pool": "a"}}}}}
			got, why := d.place(Item{Target: c.tried})
			if got != c.want || !strings.Contains(why.Args["why"], c.why) {
				t.Fatalf("%q %q", got, why)
			}
		})
	}
}

package tui

import (
	"fmt"
	"time"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
)

// now is the moment of every fixture, by both clocks.
var now = time.Date(2026, 11, 29, 14, 25, 59, 0, time.UTC)

func ago(d time.Duration) time.Time   { return now.Add(-d) }
func hence(d time.Duration) time.Time { return now.Add(d) }

const (
	gpu041 = fleet.HostID("prod/gpu-041")
	gpu046 = fleet.HostID("prod/gpu-046")
)

func wl(kind, id string) fleet.Key { return fleet.Key{Kind: kind, ID: id} }

func pid(n int) fleet.Run { return fleet.Run{Boot: "b1", PID: n, Start: uint64(n) * 10} }

// host is a host that was read a second ago.
func host(name string, classes [6]int, gpus [2]int, holds fleet.Holds, cordon fleet.CordonState) fleet.HostView {
	id := fleet.HostID("prod/" + name)
	n := map[fleet.Class]int{}
	for i, c := range fleet.Classes {
		n[c] = classes[i]
	}
	facts := fleet.Facts{
		Generation: 7, At: ago(time.Second), Machine: "m-" + name, Boot: "b1", Holds: holds,
		Processes: fleet.Read([]fleet.Process{}, "/proc", ago(time.Second), 0),
		Workloads: fleet.Read([]fleet.Workload{}, "manifests", ago(time.Second), 0),
		Netns:     fleet.Read([]fleet.Resource{}, "/run/netns", ago(time.Second), 0),
		Loops:     fleet.Read([]fleet.Resource{}, "/sys/block", ago(time.Second), 0),
		Dirs:      fleet.Read([]fleet.Resource{}, "/var/lib/vms", ago(time.Second), 0),
		GPUs:      fleet.ReadNotApplicable[[]fleet.GPU]("nvml", ago(time.Second), "no NVIDIA device"),
	}
	return fleet.HostView{
		Host: fleet.Host{ID: id, Address: name, Instance: "i-0f31" + name[len(name)-2:], Heartbeat: ago(3 * time.Second),
			Labels: map[string]string{"pool": "h200-a", "rack": "r12"}, Draining: holds.Any()},
		Claims:  fleet.Read([]fleet.Claim{}, "plane prod", ago(2*time.Second), 0),
		Facts:   fleet.Read(facts, "ebbd", ago(time.Second), 0),
		Summary: fleet.Read(fleet.Summary{At: ago(time.Second), Machine: "m-" + name, Holds: holds, Classes: n, GPUs: gpus}, "ebbd", ago(time.Second), 0),
		Cordon:  cordon, Stable: true,
	}
}

func cordonHold(who, why string, since time.Duration) *fleet.Hold {
	return &fleet.Hold{Kind: fleet.CordonHold, Who: who, Why: why, Since: ago(since)}
}

func drainHold(id string) *fleet.Hold {
	return &fleet.Hold{Kind: fleet.DrainHold, Who: "mira", Drain: id, Since: ago(21 * time.Minute), Deadline: hence(24*time.Minute + 10*time.Second)}
}

func item(class fleet.Class, k fleet.Key, owner string, n int, change func(*drain.Item)) drain.Item {
	it := drain.Item{FoundAt: ago(21 * time.Minute), Found: drain.Found{Key: k, Run: pid(n), Runs: []fleet.Run{pid(n)}, Class: class,
		Owner: owner, Verdict: fleet.Agreed, Phase: fleet.Running, Rule: "rule " + string(class), Budget: drain.DefaultPolicy().Defaults[class]}}
	if change != nil {
		change(&it)
	}
	return it
}

// drain041 is the drain of gpu-041, with all five classes.
func drain041() drain.State {
	s := drain.State{Drain: "d-31", Host: gpu041, Machine: "m-gpu-041", Boot: "b1", Phase: drain.Draining, For: fleet.ForKernel, Reason: "CVE-2026-1183",
		By: drain.Actor{Name: "mira"}, Started: ago(21 * time.Minute), Since: ago(20 * time.Minute), Deadline: hence(24*time.Minute + 10*time.Second),
		Epoch: 1, Driver: "bastion-2", First: true, Items: map[fleet.Key]drain.Item{}}
	add := func(it drain.Item) { s.Items[it.Key] = it }
	add(item(fleet.Ephemeral, wl("job", "ci-88213"), "ci-team", 101, func(i *drain.Item) {
		i.Expires, i.Reason = hence(3*time.Minute+40*time.Second), fleet.Because(drain.WaitExpires, "at", "2026-11-29T14:29:39Z")
	}))
	add(item(fleet.Ephemeral, wl("notebook", "nb-short-4"), "lena", 102, func(i *drain.Item) {
		i.Expires, i.Reason = hence(9*time.Minute+5*time.Second), fleet.Because(drain.WaitExpires, "at", "2026-11-29T14:35:04Z")
	}))
	add(item(fleet.Stateless, wl("container", "web-7"), "search", 103, func(i *drain.Item) {
		i.FirstAct, i.StartedAt, i.Target, i.Step = ago(72*time.Second), ago(60*time.Second), "prod/gpu-044", drain.StepHealth
		i.Reason = fleet.Because(drain.WaitHealth, "target", "gpu-044")
	}))
	add(item(fleet.Stateless, wl("container", "vllm-mistral"), "inference", 104, func(i *drain.Item) {
		i.FirstAct, i.RetryAt, i.Fails, i.Step, i.Late = ago(6*time.Minute), ago(4*time.Second), 2, drain.StepStart, true
		i.Reason = fleet.Because(drain.WaitFailed, "step", "start", "detail", "exit 1: no space left on device")
	}))
	add(item(fleet.Stateless, wl("container", "web-6"), "search", 105, func(i *drain.Item) {
		i.End, i.EndBy, i.EndAt = drain.LeftHost, "lever", ago(time.Second)
	}))
	add(item(fleet.Pausable, wl("vm", "nb-lena-12"), "lena", 106, func(i *drain.Item) {
		i.Reason = fleet.Because(drain.WaitNoStrategy, "class", "pausable")
	}))
	add(item(fleet.Pausable, wl("vm", "nb-kim-3"), "kim", 110, func(i *drain.Item) {
		i.FirstAct, i.Target, i.Step, i.Lever = ago(110*time.Second), "prod/gpu-044", drain.StepRestore, "vm"
		i.Move = drain.Move{Lever: "vm", Class: fleet.Pausable, Steps: drain.WayOf(fleet.Pausable), Says: "1.2 of 3.1 GiB",
			Begun: map[drain.Step]time.Time{drain.StepSnapshot: ago(110 * time.Second), drain.StepShip: ago(90 * time.Second), drain.StepRestore: ago(20 * time.Second)},
			Done:  map[drain.Step]time.Time{drain.StepSnapshot: ago(95 * time.Second), drain.StepShip: ago(22 * time.Second)}}
		i.Reason = fleet.Because(drain.WaitRunning, "lever", "vm", "step", "restore", "detail", "1.2 of 3.1 GiB")
	}))
	add(item(fleet.Stateless, wl("container", "web-9"), "search", 111, func(i *drain.Item) {
		i.Reason = fleet.Because(drain.WaitNoRoom, "what", "GPUs", "wants", "4", "has", "2", "host", "gpu-047")
	}))
	add(item(fleet.Durable, wl("db", "pg-orders"), "payments", 107, func(i *drain.Item) {
		i.Held, i.Reason = true, fleet.Because(drain.WaitHeld, "why", "standby is 4.1 GiB behind", "by", "mira")
	}))
	add(item(fleet.Stuck, wl("job", "etl-legacy"), "data", 108, func(i *drain.Item) {
		i.MayDie, i.NoticeAt, i.Accepted, i.TermAt, i.Step = true, ago(6*time.Minute), true, ago(5*time.Minute), drain.StepTerm
		i.Reason = fleet.Because(drain.WaitGrace, "until", "2026-11-29T14:30:59Z")
	}))
	add(item(fleet.Unclassified, fleet.Key{Kind: "process", ID: "41177:411770"}, "", 41177, func(i *drain.Item) {
		i.Verdict, i.Rule, i.Reason = fleet.Unattributed, "", fleet.Because(drain.WaitUnclassified, "verdict", "unattributed")
	}))
	add(item(fleet.Ephemeral, wl("job", "ci-88190"), "ci-team", 109, func(i *drain.Item) {
		i.End, i.EndBy, i.EndAt = drain.Lost, "it vanished, and its owner did not say so", ago(8*time.Minute)
	}))
	s.Lost = []drain.LostItem{{Key: wl("job", "ci-88190"), Owner: "ci-team", How: "it vanished, and its owner did not say so", At: ago(8 * time.Minute)}}
	s.MayDie = map[fleet.Key]bool{wl("job", "etl-legacy"): true}
	return s
}

// drain046 has emptied its host; a leak is in the way.
func drain046() drain.State {
	return drain.State{Drain: "d-32", Host: gpu046, Machine: "m-gpu-046", Boot: "b1", Phase: drain.Verifying, By: drain.Actor{Name: "mira"},
		Started: ago(50 * time.Minute), Since: ago(time.Minute), Deadline: hence(10 * time.Minute), Driver: "bastion-2", First: true,
		Items: map[fleet.Key]drain.Item{wl("vm", "vm-9"): item(fleet.Ephemeral, wl("vm", "vm-9"), "ci-team", 9, func(i *drain.Item) {
			i.End, i.EndBy, i.EndAt = drain.LeftHost, "ttl", ago(5*time.Minute)
		})},
		Issues: []fleet.Issue{leakIssue}}
}

var (
	leakKey   = fleet.Key{Kind: "netns", ID: "ns-7f3a"}
	leak      = fleet.Resource{Key: leakKey, Identity: "ino 4026532871", Owner: wl("vm", "vm-9"), Detail: "10.7.0.4/30", Since: ago(2 * time.Minute)}
	leakIssue = fleet.Issue{Check: fleet.CheckLeaks, Key: leakKey, Detail: "10.7.0.4/30, its owner vm/vm-9 is not here", Acceptable: true}
)

// fixture is a fleet in which everything is to be seen.
func fixture() feed.Frame {
	h41 := host("gpu-041", [6]int{2, 2, 1, 1, 1, 1}, [2]int{6, 8}, fleet.Holds{Cordon: cordonHold("mira", "CVE-2026-1183", 24*time.Minute), Drain: drainHold("d-31")}, fleet.Cordoned)
	h41.Findings = findings041()
	h46 := host("gpu-046", [6]int{}, [2]int{0, 8}, fleet.Holds{Cordon: cordonHold("mira", "CVE-2026-1183", 55*time.Minute), Drain: drainHold("d-32")}, fleet.Cordoned)
	h46.Findings = []fleet.Finding{{Key: leakKey, Verdict: fleet.Leak, Since: leak.Since, Resource: &leak,
		Evidence: []fleet.Evidence{{Source: "/run/netns", Says: "ns-7f3a, no process in it", At: ago(time.Second)}}}}
	h46.Facts.Value.Accepted = []fleet.Accepted{{Key: fleet.Key{Kind: "loop", ID: "loop7"}, Who: "lena", Reason: "goes with the machine", At: ago(9 * time.Minute)}}
	h17 := host("gpu-017", [6]int{}, [2]int{0, 8}, fleet.Holds{Cordon: cordonHold("ops", "looks slow", 74*time.Hour)}, fleet.Cordoned)
	db := host("db-03", [6]int{0, 0, 0, 3, 0, 0}, [2]int{}, fleet.Holds{}, fleet.Uncordoned)
	db.Unreachable, db.Problem = ago(4*time.Minute), "ssh: connection refused"
	db.Facts.At, db.Summary.At = ago(4*time.Minute), ago(4*time.Minute)
	db.Host.Heartbeat = ago(9 * time.Second)
	h44 := host("gpu-044", [6]int{4, 9, 2, 0, 0, 0}, [2]int{7, 8}, fleet.Holds{}, fleet.Uncordoned)
	h44.Findings = findings041()[:3]
	hosts := []fleet.HostView{db, h17, h41,
		host("gpu-042", [6]int{3, 1, 0, 0, 0, 0}, [2]int{4, 8}, fleet.Holds{Cordon: cordonHold("lena", "on a hunch", 12*time.Second)}, fleet.Cordoning),
		host("gpu-043", [6]int{0, 5, 0, 0, 0, 0}, [2]int{5, 8}, fleet.Holds{Cordon: cordonHold("lena", "on a hunch", 2*time.Minute)}, fleet.HostOnly),
		h44,
		host("gpu-045", [6]int{1, 12, 0, 1, 0, 2}, [2]int{8, 8}, fleet.Holds{}, fleet.Uncordoned),
		h46}
	for i := 47; i < 57; i++ {
		h := host(fmt.Sprintf("gpu-0%d", i), [6]int{i % 5, i % 7, i % 2, 0, 0, 0}, [2]int{i % 9, 8}, fleet.Holds{}, fleet.Uncordoned)
		if i > 52 {
			h.Host.Labels = map[string]string{"pool": "h100-b", "rack": "r14"}
		}
		hosts = append(hosts, h)
	}
	return feed.Frame{
		At: now, Made: now,
		Snapshot: fleet.Snapshot{Seq: 9, At: now, Hosts: hosts, Planes: []fleet.ProbeStatus{{Name: "prod", Status: fleet.OK, At: ago(2 * time.Second)}}},
		Drains:   map[fleet.HostID]drain.State{gpu041: drain041(), gpu046: drain046()},
		Events:   events(),
		Words:    said(events()),
		Journal:  fleet.ProbeStatus{Name: "journal", Status: fleet.OK, At: ago(time.Second)},
		Policy:   drain.DefaultPolicy(),
		Config:   feed.Config{Operator: "mira", Terminator: "cloudctl instances terminate {instance}", Version: "test"},
	}
}

func findings041() []fleet.Finding {
	proc := fleet.Process{Run: pid(41177), Comm: "python3", Exe: "/usr/bin/python3", UID: 1001, Started: ago(40 * time.Minute)}
	claim := func(k fleet.Key) *fleet.Claim {
		return &fleet.Claim{Key: k, Host: gpu041, Phase: fleet.Running, Status: "RUNNING", Owner: "search"}
	}
	agreed := func(k fleet.Key, owner string, c fleet.Class, n int) fleet.Finding {
		return fleet.Finding{Key: k, Verdict: fleet.Agreed, Class: c, Owner: owner, Since: ago(3 * time.Hour), Claim: claim(k),
			Workload: &fleet.Workload{Key: k, Rule: "manifest", Class: c, Phase: fleet.Running, Run: pid(n), GPUs: make([]string, n%4), Start: "start", Health: "health"},
			Evidence: []fleet.Evidence{{Source: "plane prod", Says: "running"}, {Source: "manifests", Says: fmt.Sprintf("pid %d", n)}}}
	}
	return []fleet.Finding{
		agreed(wl("container", "web-7"), "search", fleet.Stateless, 103),
		agreed(wl("job", "ci-88213"), "ci-team", fleet.Ephemeral, 101),
		agreed(wl("db", "pg-orders"), "payments", fleet.Durable, 107),
		{Key: proc.Key(), Verdict: fleet.Unattributed, Since: proc.Started, Process: &proc,
			Evidence: []fleet.Evidence{{Source: "/proc/41177/stat", Says: "python3 runs, and no rule recognises it", At: ago(time.Second)}}},
		{Key: wl("vm", "vm-gone-3"), Verdict: fleet.Ghost, Owner: "lena", Since: ago(11 * time.Minute), Claim: claim(wl("vm", "vm-gone-3")),
			Evidence: []fleet.Evidence{{Source: "plane prod", Says: "RUNNING since 14:15", At: ago(2 * time.Second)}, {Source: "workloads", Says: "not there"}}},
		{Key: wl("loop", "loop3"), Verdict: fleet.UnknownV, Evidence: []fleet.Evidence{{Source: "/sys/block/loop3", Says: "its backing file can't be read"}}},
	}
}

func events() []drain.Event {
	var out []drain.Event
	add := func(before time.Duration, h fleet.HostID, by string, b drain.Body) {
		e, err := drain.NewEvent(h, fmt.Sprintf("e%d", len(out)+1), "d-31", 1, drain.Actor{Name: by, Console: "bastion-2"}, b)
		if err != nil {
			panic(err)
		}
		e.Seq, e.Num, e.At = uint64(len(out)+1), uint64(len(out)+1), ago(before)
		out = append(out, e)
	}
	k := wl("job", "etl-legacy")
	add(24*time.Minute, gpu041, "mira", drain.RecCordon{Reason: "CVE-2026-1183"})
	add(24*time.Minute, gpu041, "mira", drain.RecCordoned{State: fleet.Cordoned, Proved: []string{"flag", "host", "eligibility"}})
	add(21*time.Minute, gpu041, "mira", drain.AskStart{Deadline: hence(24 * time.Minute), For: fleet.ForKernel, Reason: "CVE-2026-1183", MayDie: []fleet.Key{k}})
	add(20*time.Minute, gpu041, "bastion-2", drain.DriveTook{Driver: "bastion-2"})
	add(20*time.Minute, gpu041, "bastion-2", drain.DrivePhase{Phase: drain.Draining})
	add(12*time.Minute, gpu041, "mira", drain.AskHandover{To: "lena", Note: "pg-orders: its standby catches up at about 14:40, then promote"})
	add(8*time.Minute, gpu041, "bastion-2", drain.DriveEnded{Ends: []drain.Ended{{Key: wl("job", "ci-88190"), End: drain.Lost, By: "it vanished, and its owner did not say so"}}})
	add(5*time.Minute, gpu041, "bastion-2", drain.DriveIntent{Act: drain.Act{ID: "d-31/job/etl-legacy/term/1", Kind: drain.ActSignal, Key: k, Signal: "TERM", Named: "plan"}})
	add(5*time.Minute, gpu041, "bastion-2", drain.DriveOutcome{Act: "d-31/job/etl-legacy/term/1", Key: k, Result: drain.Done})
	add(time.Minute, gpu046, "bastion-2", drain.DrivePhase{Phase: drain.Verifying, Issues: []fleet.Issue{leakIssue}})
	add(time.Second, gpu041, "bastion-2", drain.DriveEnded{Ends: []drain.Ended{{Key: wl("container", "web-6"), End: drain.LeftHost, By: "lever"}}})
	return out
}

// said are the words left for the next shift.
func said(events []drain.Event) []drain.Event {
	var out []drain.Event
	for _, e := range events {
		if e.Kind == (drain.AskHandover{}).Kind() {
			out = append(out, e)
		}
	}
	return out
}

// plan041 is what a drain of gpu-044 would do.
func fakePlan(h fleet.HostID, r feed.Request) drain.Plan {
	f := func(c fleet.Class, k fleet.Key, owner string) drain.Found {
		return drain.Found{Key: k, Class: c, Owner: owner, Rule: "rule " + string(c), Budget: drain.DefaultPolicy().Defaults[c]}
	}
	die := f(fleet.Stuck, wl("job", "etl-legacy"), "data")
	die.MayDie = true
	return drain.Plan{Host: h, Made: now, Deadline: now.Add(r.Deadline), For: r.For, Items: []drain.PlanItem{
		{Found: f(fleet.Ephemeral, wl("job", "ci-88213"), "ci-team"), Strategy: "let it expire", GoneBy: hence(4 * time.Minute)},
		{Found: f(fleet.Stateless, wl("container", "web-7"), "search"), Strategy: "start elsewhere, flip, stop", Target: "prod/gpu-044", GoneBy: hence(20 * time.Minute)},
		{Found: f(fleet.Durable, wl("db", "pg-orders"), "payments"), Strategy: "fence, archive, promote, repoint", Reason: fleet.Because(drain.WaitNoStrategy, "class", "durable")},
		{Found: die, Strategy: "notice, TERM, grace, TERM, KILL", GoneBy: hence(12 * time.Minute)},
	}}
}

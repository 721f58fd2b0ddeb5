package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ebb/fleet"
)

var t0 = time.Date(2026, 11, 29, 17, 0, 0, 0, time.UTC)

const host = fleet.HostID("prod/gpu-041")

func vm(id string) fleet.Key  { return fleet.Key{Kind: "sandbox", ID: id} }
func dir(id string) fleet.Key { return fleet.Key{Kind: "dir", ID: id} }

func claim(id string, p fleet.Phase) fleet.Claim {
	return fleet.Claim{Key: vm(id), Host: host, Phase: p, Class: fleet.Ephemeral, Owner: "search"}
}

func work(id string, pid int) fleet.Workload {
	run := fleet.Run{Boot: "b", PID: pid, Start: uint64(pid) * 10}
	return fleet.Workload{Key: vm(id), Phase: fleet.Running, Run: run, Runs: []fleet.Run{run}}
}

func proc(pid int, comm string) fleet.Process {
	return fleet.Process{Run: fleet.Run{Boot: "b", PID: pid, Start: uint64(pid) * 10}, PPID: 1, Comm: comm, State: "S"}
}

func claims(cs ...fleet.Claim) fleet.Reading[[]fleet.Claim] {
	return fleet.Read(cs, "plane prod", t0, 0)
}

// scene is an input in which everything answered and nothing is there.
func scene() Input {
	return Input{
		Host: fleet.Host{ID: host}, Before: claims(), After: claims(), Now: t0,
		Facts: fleet.Read(fleet.Facts{
			Processes: fleet.Read([]fleet.Process{}, "/proc", t0, 0), Workloads: fleet.Read([]fleet.Workload{}, "rules", t0, 0),
			Netns: fleet.Read([]fleet.Resource{}, "/run/netns", t0, 0), Loops: fleet.Read([]fleet.Resource{}, "/sys/block", t0, 0),
			Dirs: fleet.Read([]fleet.Resource{}, "/var/lib/vms", t0, 0), GPUs: fleet.ReadNotApplicable[[]fleet.GPU]("/proc/driver", t0, "no GPU"),
		}, "agent", t0, 0),
	}
}

func (in *Input) claim(cs ...fleet.Claim)   { in.Before, in.After = claims(cs...), claims(cs...) }
func (in *Input) run(ws ...fleet.Workload)  { in.Facts.Value.Workloads.Value = ws }
func (in *Input) dirs(rs ...fleet.Resource) { in.Facts.Value.Dirs.Value = rs }
func (in *Input) procs(ps ...fleet.Process) { in.Facts.Value.Processes.Value = ps }

func TestVerdicts(t *testing.T) {
	leftover := fleet.Resource{Key: dir("/v/a"), Identity: "8:1:7", Owner: vm("a")}
	resting := work("a", 0)
	resting.Phase, resting.Run, resting.Runs = fleet.AtRest, fleet.Run{}, nil
	failed := fleet.ReadFailed[[]fleet.Claim]("plane prod", t0, 0, fmt.Errorf("timeout"))
	for _, tc := range []struct {
		name string
		set  func(*Input)
		want string // "verdict key: a part of the evidence", one for each finding
	}{
		{"nothing", func(*Input) {}, ""},
		{"agreed", func(in *Input) { in.claim(claim("a", fleet.Running)); in.run(work("a", 7)) }, "agreed sandbox/a: process 7"},
		{"at rest, seen as a workload", func(in *Input) { in.claim(claim("a", fleet.AtRest)); in.run(resting) }, "at_rest sandbox/a: at rest"},
		{"at rest, seen as a directory", func(in *Input) { in.claim(claim("a", fleet.AtRest)); in.dirs(leftover) }, "at_rest sandbox/a: dir//v/a, 8:1:7"},
		{"at rest, state deleted", func(in *Input) {
			in.claim(claim("a", fleet.AtRest))
			gone := leftover
			gone.Deleted = true
			in.dirs(gone)
		}, "ghost sandbox/a: state is missing"},
		{"at rest, state missing", func(in *Input) { in.claim(claim("a", fleet.AtRest)) }, "ghost sandbox/a: state is missing"},
		{"at rest, directories unread", func(in *Input) {
			in.claim(claim("a", fleet.AtRest))
			in.Facts.Value.Dirs.Status = fleet.Failed
		}, "unknown sandbox/a: dirs failed"},
		{"at rest, workloads unread", func(in *Input) {
			in.claim(claim("a", fleet.AtRest))
			in.dirs(leftover)
			in.Facts.Value.Workloads.Status = fleet.Failed
		}, "unknown sandbox/a: workloads failed"},
		{"at rest, and a process of it runs", func(in *Input) {
			in.claim(claim("a", fleet.AtRest))
			in.dirs(leftover)
			p := proc(7, "fc")
			p.Owner = vm("a")
			in.procs(p)
		}, "unknown sandbox/a: process 7 is its own"},
		{"ghost", func(in *Input) { in.claim(claim("a", fleet.Running)) }, "ghost sandbox/a: not among the workloads"},
		{"ghost with what it left", func(in *Input) { in.claim(claim("a", fleet.Running)); in.dirs(leftover) }, "ghost sandbox/a: dir//v/a"},
		{"orphan", func(in *Input) { in.run(work("a", 7)) }, "orphan sandbox/a: no claim"},
		{"orphan of a claim that is gone", func(in *Input) { in.claim(claim("a", fleet.Gone)); in.run(work("a", 7)) }, "orphan sandbox/a: no claim"},
		{"orphan claimed elsewhere", func(in *Input) {
			other := claim("a", fleet.Running)
			other.Host = "prod/gpu-042"
			in.claim(other)
			in.run(work("a", 7))
		}, "orphan sandbox/a: claimed on prod/gpu-042"},
		{"kept", func(in *Input) {
			w := work("a", 7)
			w.Kept = "kind sandbox"
			in.run(w)
		}, "agreed sandbox/a: keep rule kind sandbox"},
		{"kept, beside another of its name", func(in *Input) {
			w, other := work("a", 7), work("a", 8)
			w.Kept = "kind sandbox"
			in.run(w, other)
			c := claim("a", fleet.Running)
			c.Run = other.Run
			in.claim(c)
		}, "agreed sandbox/a: keep rule kind sandbox; agreed sandbox/a: process 8"},
		{"leak", func(in *Input) { in.dirs(leftover) }, "leak dir//v/a: owner sandbox/a is not here, and not claimed"},
		{"leak of a claim that is gone", func(in *Input) { in.claim(claim("a", fleet.Gone)); in.dirs(leftover) }, "leak dir//v/a: not here"},
		{"left by what is claimed elsewhere", func(in *Input) {
			other := claim("a", fleet.AtRest)
			other.Host = "prod/gpu-042"
			in.claim(other)
			in.dirs(leftover)
		}, "unattributed dir//v/a: claimed on prod/gpu-042"},
		{"in use", func(in *Input) {
			used := leftover
			used.Users = []fleet.Run{{PID: 9}}
			in.dirs(used)
		}, "unattributed dir//v/a: process 9 uses it"},
		{"of nobody", func(in *Input) { in.dirs(fleet.Resource{Key: dir("/v/x")}) }, "unattributed dir//v/x: no rule"},
		{"the host's own", func(in *Input) { in.dirs(fleet.Resource{Key: dir("/v/x"), System: "rule"}) }, ""},
		{"owned by list", func(in *Input) {
			w := work("a", 7)
			w.Owns = []fleet.Key{dir("/v/x")}
			in.claim(claim("a", fleet.Running))
			in.run(w)
			in.dirs(fleet.Resource{Key: dir("/v/x"), Identity: "8:1:9"})
		}, "agreed sandbox/a: dir//v/x, 8:1:9"},
		{"its directory is being made", func(in *Input) {
			in.dirs(leftover)
			in.Facts.Value.Tickets = []fleet.Ticket{{ID: "t1", Key: vm("a")}}
		}, "unknown dir//v/a: ticket t1"},
		{"placed and being made", func(in *Input) {
			in.claim(claim("a", fleet.Running))
			in.Facts.Value.Tickets = []fleet.Ticket{{ID: "t1", Key: vm("a")}}
		}, "unknown sandbox/a: ticket t1"},
		{"unattributed", func(in *Input) { in.procs(proc(30, "python3")) }, "unattributed process/30:300: no rule"},
		{"system and kept processes", func(in *Input) {
			a, b := proc(30, "sshd"), proc(31, "dcgm")
			a.System, b.Kept = "unit ssh.service", "exe dcgm"
			in.procs(a, b)
		}, ""},
		{"own process", func(in *Input) {
			p := proc(7, "fc")
			p.Owner = vm("a")
			in.procs(p)
			in.claim(claim("a", fleet.Running))
			in.run(work("a", 7))
		}, "agreed sandbox/a: process 7"},
		{"process of an owner that is not there", func(in *Input) {
			p := proc(7, "fc")
			p.Owner = vm("a")
			in.procs(p)
		}, "unattributed process/7:70: neither claimed nor"},
		{"ghost with a process", func(in *Input) {
			p := proc(7, "fc")
			p.Owner = vm("a")
			in.procs(p)
			in.claim(claim("a", fleet.Running))
		}, "unknown sandbox/a: process 7 is its own"},
		{"zombie", func(in *Input) {
			z := proc(31, "sleep")
			z.State, z.PPID = "Z", 30
			in.procs(z, proc(30, "sh"))
		}, "unattributed process/30:300: 1 of its children ended"},
		{"zombie of the host's own", func(in *Input) {
			z := proc(31, "sleep")
			z.State = "Z"
			in.procs(z)
		}, "unattributed process/31:310: no rule"},
		{"claims failed", func(in *Input) {
			in.claim(claim("a", fleet.Running))
			in.run(work("a", 7), work("b", 8))
			in.dirs(fleet.Resource{Key: dir("/v/c"), Owner: vm("c")})
			in.After = failed
		}, "unknown sandbox/a: timeout; unknown dir//v/c: timeout; unknown sandbox/b: timeout"},
		{"claims read once", func(in *Input) {
			in.claim(claim("a", fleet.Running))
			in.run(work("a", 7), work("b", 8))
			in.Before = fleet.Reading[[]fleet.Claim]{}
		}, "unknown sandbox/a: first of two; unknown sandbox/b: first of two"},
		{"facts failed", func(in *Input) {
			in.claim(claim("a", fleet.Running))
			in.run(work("b", 8))
			in.Facts.Status, in.Facts.Error = fleet.Failed, "no route"
		}, "unknown sandbox/a: no route"},
		{"workloads unread", func(in *Input) {
			in.claim(claim("a", fleet.Running))
			in.dirs(fleet.Resource{Key: dir("/v/c"), Owner: vm("c")})
			in.procs(proc(30, "x"))
			in.Facts.Value.Workloads.Status = fleet.Unknown
		}, "unknown sandbox/a: workloads not read; unknown dir//v/c: workloads not read; unknown process/30:300: workloads not read"},
		{"processes do not apply", func(in *Input) {
			in.claim(claim("a", fleet.Running))
			in.Facts.Value.Processes.Status = fleet.NotApplicable
		}, "unknown sandbox/a: processes not applicable"},
		{"claim came", func(in *Input) {
			in.After = claims(claim("a", fleet.Running))
			in.run(work("a", 7))
		}, "unknown sandbox/a: there was no claim"},
		{"claim went", func(in *Input) {
			in.Before = claims(claim("a", fleet.Running))
			in.run(work("a", 7))
		}, "unknown sandbox/a: changed between two readings: was running"},
		{"claim went to rest", func(in *Input) {
			in.Before, in.After = claims(claim("a", fleet.Running)), claims(claim("a", fleet.AtRest))
			in.dirs(leftover)
		}, "unknown sandbox/a: was running"},
		{"two claims of one key", func(in *Input) {
			in.claim(claim("a", fleet.Gone), claim("a", fleet.Running), claim("a", fleet.Gone))
			in.run(work("a", 7))
		}, "agreed sandbox/a: running"},
		{"another incarnation", func(in *Input) {
			cl := claim("a", fleet.Running)
			cl.Run = fleet.Run{Boot: "b", PID: 7, Start: 71}
			in.claim(cl)
			in.run(work("a", 7))
		}, "ghost sandbox/a: another incarnation: claimed b:7:71; orphan sandbox/a: another incarnation"},
		{"same incarnation, told by uid", func(in *Input) {
			cl := claim("a", fleet.Running)
			cl.Run = fleet.Run{UID: "x"}
			in.claim(cl)
			in.run(work("a", 7))
		}, "agreed sandbox/a: running"},
		{"claimed at rest, runs", func(in *Input) { in.claim(claim("a", fleet.AtRest)); in.run(work("a", 7)) },
			"unknown sandbox/a: claimed at rest, found running"},
		{"claimed running, rests", func(in *Input) { in.claim(claim("a", fleet.Running)); in.run(resting) },
			"unknown sandbox/a: claimed running, found at rest"},
		{"a phase that is not known", func(in *Input) { in.claim(claim("a", "paused")) }, "unknown sandbox/a: phase of the claim"},
		{"two of one name", func(in *Input) { in.claim(claim("a", fleet.Running)); in.run(work("a", 7), work("a", 8)) },
			"agreed sandbox/a: process 7; unknown sandbox/a: another workload"},
		{"a claim on a thing", func(in *Input) {
			in.claim(fleet.Claim{Key: dir("/v/a"), Host: host, Phase: fleet.AtRest})
			in.dirs(leftover)
		}, "at_rest dir//v/a: 8:1:7"},
		{"self-claimed", func(in *Input) {
			in.SelfClaims, in.Before, in.After = true, failed, failed
			in.run(work("b", 7), resting)
			in.dirs(fleet.Resource{Key: dir("/v/c"), Owner: vm("c")})
		}, "at_rest sandbox/a: at rest; agreed sandbox/b: process 7; leak dir//v/c: not here"},
	} {
		in := scene()
		tc.set(&in)
		got := Reconcile(in).Findings
		var want []string
		if tc.want != "" {
			want = strings.Split(tc.want, "; ")
		}
		if !match(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, told(got), tc.want)
		}
		for _, f := range got {
			for _, e := range f.Evidence {
				if e.Source == "" || e.Says == "" || e.At.IsZero() {
					t.Errorf("%s: %s: evidence %+v", tc.name, f.Key, e)
				}
			}
			if len(f.Evidence) == 0 {
				t.Errorf("%s: %s without evidence", tc.name, f.Key)
			}
		}
	}
}

// match wants one finding for each text, whatever their order.
func match(got []fleet.Finding, want []string) bool {
	if len(got) != len(want) {
		return false
	}
	for _, w := range want {
		head, says, _ := strings.Cut(w, ": ")
		found := false
		for _, f := range got {
			found = found || fmt.Sprintf("%s %s", f.Verdict, f.Key) == head && strings.Contains(told([]fleet.Finding{f}), says)
		}
		if !found {
			return false
		}
	}
	return true
}

func told(fs []fleet.Finding) string {
	var all []string
	for _, f := range fs {
		text := fmt.Sprintf("%s %s:", f.Verdict, f.Key)
		for _, e := range f.Evidence {
			text += " [" + e.Says + "]"
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func TestFindingCarriesWhatItRestsOn(t *testing.T) {
	in := scene()
	cl, w := claim("a", fleet.Running), work("a", 7)
	cl.Class, w.Class, w.Owner, w.Started = fleet.Stateless, fleet.Stuck, "infra", t0.Add(-time.Hour)
	in.claim(cl)
	in.run(w)
	f := Reconcile(in).Findings[0]
	if f.Class != fleet.Stateless || f.Owner != "search" || !f.Since.Equal(w.Started) || f.Claim == nil || f.Workload == nil {
		t.Errorf("%+v", f)
	}
	in.Facts.Value.Workloads.Value[0].Run.PID = 99
	in.After.Value[0].Phase = fleet.Gone
	if f.Workload.Run.PID != 7 || f.Claim.Phase != fleet.Running {
		t.Error("the finding changes with its input")
	}
}

func TestStable(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(*Input)
		want bool
	}{
		{"still", func(*Input) {}, true},
		{"in order", func(in *Input) {
			in.Before.At, in.Before.Took = t0.Add(-2*time.Second), time.Second
			in.Facts.Took, in.After.At = time.Second, t0.Add(time.Second)
		}, true},
		{"facts before the claims had come", func(in *Input) { in.Before.Took = time.Second }, false},
		{"facts after the claims", func(in *Input) { in.Facts.Took = time.Second }, false},
		{"changed", func(in *Input) { in.Before = claims(claim("a", fleet.Running)) }, false},
		{"gone is not there", func(in *Input) { in.Before = claims(claim("a", fleet.Gone)) }, true},
		{"another host's", func(in *Input) {
			c := claim("a", fleet.Running)
			c.Host = "prod/x"
			in.Before = claims(c)
		}, true},
		{"one reading", func(in *Input) { in.Before.Status = fleet.Unknown }, false},
		{"plane silent", func(in *Input) { in.After.Status = fleet.Failed }, false},
		{"host silent", func(in *Input) { in.Facts.Status = fleet.Failed }, false},
		{"self-claimed", func(in *Input) { in.SelfClaims, in.After.Status = true, fleet.Unknown }, true},
		{"self-claimed, silent", func(in *Input) { in.SelfClaims, in.Facts.Status = true, fleet.Unknown }, false},
	} {
		in := scene()
		tc.set(&in)
		if got := Reconcile(in).Stable; got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

func TestOrderIsByClassThenKey(t *testing.T) {
	in := scene()
	a, b, c := claim("a", fleet.Running), claim("b", fleet.Running), claim("c", fleet.Running)
	a.Class, b.Class, c.Class = fleet.Stuck, fleet.Ephemeral, fleet.Ephemeral
	in.claim(a, c, b)
	in.procs(proc(3, "x"))
	var got []string
	for _, f := range Reconcile(in).Findings {
		got = append(got, f.Key.String())
	}
	if want := "sandbox/b sandbox/c sandbox/a process/3:30"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func BenchmarkReconcile(b *testing.B) {
	in := scene()
	var cs []fleet.Claim
	var ws []fleet.Workload
	for i := range 10_000 {
		cs = append(cs, claim(fmt.Sprint(i), fleet.Running))
		ws = append(ws, work(fmt.Sprint(i+1000), i+1))
	}
	in.claim(cs...)
	in.run(ws...)
	b.ReportAllocs()
	for b.Loop() {
		if n := len(Reconcile(in).Findings); n != 11_000 {
			b.Fatal(n)
		}
	}
}

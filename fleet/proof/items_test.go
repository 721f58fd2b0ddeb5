package proof

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ebb/fleet"
)

func proc(pid int, comm string) fleet.Process {
	return fleet.Process{Run: fleet.Run{Boot: "b1", PID: pid, Start: uint64(pid) * 10}, PPID: 1, Comm: comm, State: "S"}
}

func TestEmptyHostHasNoIssues(t *testing.T) {
	if got := Issues(emptyFacts()); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

func TestIssuesNameEverything(t *testing.T) {
	vm := fleet.Key{Kind: "sandbox", ID: "vm-1"}
	for _, tc := range []struct {
		name   string
		spoil  func(*fleet.Facts)
		check  string
		key    fleet.Key
		want   string
		accept bool
	}{
		{"unheld", func(f *fleet.Facts) { f.Unheld = true }, fleet.CheckHolds, fleet.Key{}, "no record", false},
		{"no cordon", func(f *fleet.Facts) { f.Holds.Cordon = nil }, fleet.CheckHolds, fleet.Key{}, "cordon", false},
		{"no drain", func(f *fleet.Facts) { f.Holds.Drain = nil }, fleet.CheckHolds, fleet.Key{}, "drain", false},
		{"process", func(f *fleet.Facts) { f.Processes.Value = append(f.Processes.Value, proc(4117, "python3")) },
			fleet.CheckLeft, fleet.Key{Kind: "process", ID: "4117:41170"}, "process 4117 (python3) runs", true},
		{"forged name", func(f *fleet.Facts) { f.Processes.Value = append(f.Processes.Value, proc(4117, "x\x1b[2J\n")) },
			fleet.CheckLeft, fleet.Key{Kind: "process", ID: "4117:41170"}, `("x\x1b[2J\n")`, true},
		{"process of an owner that is not listed", func(f *fleet.Facts) {
			p := proc(5, "fc")
			p.Owner, p.System = vm, "unit x"
			f.Processes.Value = append(f.Processes.Value, p)
		}, fleet.CheckLeft, fleet.Key{Kind: "process", ID: "5:50"}, "of sandbox/vm-1", true},
		{"running workload", func(f *fleet.Facts) {
			p := proc(5, "fc")
			p.Owner = vm
			f.Processes.Value = append(f.Processes.Value, p)
			f.Workloads.Value = []fleet.Workload{{Key: vm, Phase: fleet.Running}}
		}, fleet.CheckLeft, vm, "sandbox/vm-1 runs", true},
		{"workload at rest", func(f *fleet.Facts) { f.Workloads.Value = []fleet.Workload{{Key: vm, Phase: fleet.AtRest}} },
			fleet.CheckLeft, vm, "rests here", true},
		{"leak", func(f *fleet.Facts) {
			f.Dirs.Value = []fleet.Resource{{Key: fleet.Key{Kind: "dir", ID: "/v/vm-1"}, Owner: vm}}
		}, fleet.CheckLeaks, fleet.Key{Kind: "dir", ID: "/v/vm-1"}, "owner sandbox/vm-1 is not here", true},
		{"ownerless", func(f *fleet.Facts) { f.Loops.Value = []fleet.Resource{{Key: fleet.Key{Kind: "loop", ID: "loop3"}}} },
			fleet.CheckLeft, fleet.Key{Kind: "loop", ID: "loop3"}, "belongs to nothing", true},
		{"in use without its owner", func(f *fleet.Facts) {
			f.Netns.Value = []fleet.Resource{{Key: fleet.Key{Kind: "netns", ID: "ns-1"}, Owner: vm, Users: []fleet.Run{{PID: 9}}}}
		}, fleet.CheckLeft, fleet.Key{Kind: "netns", ID: "ns-1"}, "process 9 uses it", true},
		{"ticket", func(f *fleet.Facts) {
			f.Tickets = []fleet.Ticket{{ID: "t1", Op: fleet.OpClaim, Key: vm, Who: "placer"}, {ID: "t0", Closed: "done"}}
		}, fleet.CheckTickets, vm, "ticket t1", false},
		{"GPU held from outside the list", func(f *fleet.Facts) {
			f.GPUs = fleet.Read([]fleet.GPU{{UUID: "GPU-1", Holders: []fleet.Run{{Boot: "b1", PID: 77}}}}, "nvml", t0, 0)
		}, fleet.CheckLeft, fleet.Key{Kind: "gpu", ID: "GPU-1"}, "process 77", true},
	} {
		f := emptyFacts()
		tc.spoil(&f)
		got := Issues(f)
		if len(got) != 1 || got[0].Check != tc.check || got[0].Key != tc.key || got[0].Acceptable != tc.accept || !strings.Contains(got[0].Detail, tc.want) {
			t.Errorf("%s: %+v", tc.name, got)
		}
		if Digest(Items(f)) == Digest(Items(emptyFacts())) {
			t.Errorf("%s: the digest does not see it", tc.name)
		}
		f.Accepted = []fleet.Accepted{{Key: tc.key}}
		if got := Issues(f); (len(got) == 0) != tc.accept {
			t.Errorf("%s accepted: %+v", tc.name, got)
		}
	}
}

func TestWhatIsKeptOrTheHostsOwnIsLeftOut(t *testing.T) {
	f := emptyFacts()
	agent := fleet.Key{Kind: "service", ID: "exporter"}
	system := proc(9, "sshd")
	system.System = "unit ssh.service"
	kept := proc(10, "dcgm")
	kept.Kept = "exe dcgm"
	owned := proc(11, "exporter")
	owned.Owner = agent
	f.Processes.Value = append(f.Processes.Value, system, kept, owned)
	f.Workloads.Value = []fleet.Workload{{Key: agent, Phase: fleet.Running, Kept: "kind service", Owns: []fleet.Key{{Kind: "loop", ID: "loop1"}}}}
	f.Dirs.Value = []fleet.Resource{{Key: fleet.Key{Kind: "dir", ID: "/v/e"}, Owner: agent}}
	f.Loops.Value = []fleet.Resource{{Key: fleet.Key{Kind: "loop", ID: "loop1"}}}
	f.GPUs = fleet.Read([]fleet.GPU{{UUID: "GPU-1", Holders: []fleet.Run{kept.Run, system.Run}}}, "nvml", t0, 0)
	if got := Issues(f); len(got) > 0 {
		t.Errorf("%+v", got)
	}
	if got := Diff(Items(emptyFacts()), Items(f)); len(got) > 0 {
		t.Errorf("%q", got)
	}
	if got := KeptOf(f); len(got) != 2 || got[0].Name != "dcgm" || got[1].Key != agent {
		t.Errorf("kept: %+v", got)
	}
}

func TestZombieIsNamedByItsParentOnly(t *testing.T) {
	f := emptyFacts()
	parent, zombie := proc(20, "sh"), proc(21, "sleep")
	zombie.PPID, zombie.State = 20, "Z"
	f.Processes.Value = append(f.Processes.Value, zombie, parent)
	if got := Issues(f); len(got) != 1 || got[0].Key != parent.Key() {
		t.Errorf("%+v", got)
	}
	f.Accepted = []fleet.Accepted{{Key: parent.Key()}}
	if got := Issues(f); len(got) != 1 || got[0].Key != zombie.Key() {
		t.Errorf("an exception for the parent covers the child: %+v", got)
	}
	f = emptyFacts()
	zombie.PPID = 1
	f.Processes.Value = append(f.Processes.Value, zombie)
	if got := Issues(f); len(got) != 1 {
		t.Errorf("a zombie of the host's own process: %+v", got)
	}
}

func TestTheEpochIsNotInTheDigest(t *testing.T) {
	f, g := emptyFacts(), emptyFacts()
	g.Holds.Drain.Epoch++
	g.Sealed = "d1"
	g.At, g.Generation = t0.Add(time.Minute), 12
	g.Holds.Cordon.Since = t0.In(time.FixedZone("x", 3600))
	if Digest(Items(f)) != Digest(Items(g)) {
		t.Error(Diff(Items(f), Items(g)))
	}
	g.Holds.Drain.Who = "eve"
	if Digest(Items(f)) == Digest(Items(g)) {
		t.Error("who holds the host is not in the digest")
	}
}

func genItem() *rapid.Generator[Item] {
	word := rapid.StringMatching(`[a-c:,0-9]{0,4}`)
	return rapid.Custom(func(t *rapid.T) Item {
		return Item{word.Draw(t, "kind"), word.Draw(t, "id"), word.Draw(t, "identity"), word.Draw(t, "state")}
	})
}

func TestDigestIsInjectiveAndKnowsNoOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(genItem(), 0, 4).Draw(t, "a")
		b := rapid.OneOf(rapid.Permutation(a), rapid.SliceOfN(genItem(), 0, 4)).Draw(t, "b")
		x, y := slices.Clone(a), slices.Clone(b)
		slices.SortFunc(x, Item.compare)
		slices.SortFunc(y, Item.compare)
		same := slices.Equal(x, y)
		if (Digest(a) == Digest(b)) != same {
			t.Fatalf("digests of %q and %q", a, b)
		}
		if diff := Diff(a, b); (len(diff) == 0) != same {
			t.Fatalf("diff %q", diff)
		}
	})
}

func TestFieldsNeverShift(t *testing.T) {
	pairs := [][2]Item{
		{{"ab", "c", "", ""}, {"a", "bc", "", ""}},
		{{"a", "", "b", ""}, {"a", "b", "", ""}},
	}
	for _, p := range pairs {
		if Digest(p[:1]) == Digest(p[1:]) {
			t.Errorf("%q", p)
		}
	}
	if Digest(nil) == Digest([]Item{{}}) {
		t.Error("nothing and an empty item")
	}
	if fields("a", "b:1") == fields("a:1", "b") || fields("") == fields() {
		t.Error("joined fields shift")
	}
}

func TestDiffNames(t *testing.T) {
	base := func() fleet.Facts {
		f := emptyFacts()
		f.Processes.Value = append(f.Processes.Value, proc(30, "tail"))
		f.Workloads.Value = []fleet.Workload{{Key: fleet.Key{Kind: "sandbox", ID: "a"}, Phase: fleet.Running}}
		f.Dirs.Value = []fleet.Resource{{Key: fleet.Key{Kind: "dir", ID: "/v/a"}, Identity: "8:1:77"}}
		return f
	}
	for _, tc := range []struct {
		name   string
		change func(*fleet.Facts)
		want   []string
	}{
		{"nothing", func(*fleet.Facts) {}, nil},
		{"start", func(f *fleet.Facts) { f.Processes.Value = append(f.Processes.Value, proc(4117, "python3")) },
			[]string{"process 4117 (python3) started"}},
		{"end", func(f *fleet.Facts) { f.Processes.Value = f.Processes.Value[:1] }, []string{"process 30 (tail) ended"}},
		{"reused pid", func(f *fleet.Facts) { f.Processes.Value[1].Run.Start = 9 },
			[]string{"process 30 (tail) was replaced by another process of the same name"}},
		{"exec", func(f *fleet.Facts) { f.Processes.Value[1].Comm = "sh" }, []string{"process 30 (tail) changed from tail to sh"}},
		{"rest", func(f *fleet.Facts) { f.Workloads.Value[0].Phase = fleet.AtRest },
			[]string{"sandbox/a changed from running to at_rest"}},
		{"recreated dir", func(f *fleet.Facts) { f.Dirs.Value[0].Identity = "8:1:78" },
			[]string{"dir /v/a was replaced by another dir of the same name"}},
		{"lifted", func(f *fleet.Facts) { f.Holds.Cordon = nil }, []string{"the cordon hold was lifted"}},
		{"ticket", func(f *fleet.Facts) { f.Tickets = []fleet.Ticket{{ID: "t1", Key: fleet.Key{Kind: "sandbox", ID: "b"}}} },
			[]string{"ticket t1 for sandbox/b was opened"}},
		{"reboot", func(f *fleet.Facts) { f.Boot = "b2" }, []string{"the boot b1 is over", "the boot b2 began: the host was rebooted"}},
		{"blind", func(f *fleet.Facts) { f.Loops.Status = fleet.Failed }, []string{"the probe of loops no longer answers"}},
	} {
		after := base()
		tc.change(&after)
		if got := Diff(Items(base()), Items(after)); fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// An exception suppresses the issues of its own key that may be accepted, and
// no other.
func TestAcceptedSuppressesExactlyItsKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := emptyFacts()
		for i := range rapid.IntRange(0, 4).Draw(t, "processes") {
			f.Processes.Value = append(f.Processes.Value, proc(100+i, "x"))
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "dirs") {
			f.Dirs.Value = append(f.Dirs.Value, fleet.Resource{Key: fleet.Key{Kind: "dir", ID: fmt.Sprint(i)}})
		}
		if rapid.Bool().Draw(t, "ticket") {
			f.Tickets = []fleet.Ticket{{ID: "t", Key: fleet.Key{Kind: "dir", ID: "0"}}}
		}
		if rapid.Bool().Draw(t, "lifted") {
			f.Holds.Cordon = nil
		}
		before := Issues(f)
		ok := map[fleet.Key]bool{}
		for _, i := range before {
			if rapid.Bool().Draw(t, "accept") {
				ok[i.Key] = true
				f.Accepted = append(f.Accepted, fleet.Accepted{Key: i.Key})
			}
		}
		f.Accepted = append(f.Accepted, fleet.Accepted{Key: fleet.Key{Kind: "dir"}}, fleet.Accepted{})
		want := slices.DeleteFunc(slices.Clone(before), func(i fleet.Issue) bool { return i.Acceptable && ok[i.Key] })
		if got := Issues(f); !slices.Equal(got, want) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	})
}

package proof

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ebb/fleet"
)

var t0 = time.Date(2026, 11, 29, 17, 0, 0, 0, time.UTC)

// emptyFacts is a host that can be proved empty.
func emptyFacts() fleet.Facts {
	return fleet.Facts{
		Machine: "m1", Boot: "b1", At: t0,
		Holds: fleet.Holds{
			Cordon: &fleet.Hold{Kind: fleet.CordonHold, Who: "kim", Why: "on a hunch", Since: t0},
			Drain:  &fleet.Hold{Kind: fleet.DrainHold, Who: "kim", Since: t0, Drain: "d1", Epoch: 3, Deadline: t0.Add(time.Hour)},
		},
		Processes: fleet.Read([]fleet.Process{
			{Run: fleet.Run{Boot: "b1", PID: 1, Start: 2}, Comm: "init", System: "init"},
		}, "/proc", t0, 0),
		Workloads: fleet.Read([]fleet.Workload{}, "/proc", t0, 0),
		Netns:     fleet.Read([]fleet.Resource{{Key: fleet.Key{Kind: "netns", ID: "cni"}, System: "ebbd.toml"}}, "/run/netns", t0, 0),
		Loops:     fleet.Read([]fleet.Resource{}, "/sys/block", t0, 0),
		Dirs:      fleet.Read([]fleet.Resource{}, "/var/lib/vms", t0, 0),
		GPUs:      fleet.ReadNotApplicable[[]fleet.GPU]("/proc/driver/nvidia", t0, "no NVIDIA driver"),
	}
}

func document() Document {
	f := emptyFacts()
	items := Items(f)
	return Document{
		Version: Version, Host: "prod/gpu-041", Machine: f.Machine, Boot: f.Boot, Drain: "d1", Epoch: 3, Nonce: "n",
		Made: t0, Expires: t0.Add(Lifetime), MadeBoot: time.Hour,
		Holds: f.Holds, Probes: f.Probes(), Kept: KeptOf(f), Digest: Digest(items), Items: len(items),
		Agent: fleet.AgentInfo{Version: "0.1"}, HostKey: "SHA256:abc",
		Asserted: Asserted{Claims: ClaimsDigest(nil), ClaimsAt: t0, Verdicts: map[fleet.Verdict]int{fleet.Agreed: 0}},
	}
}

func TestDocumentSurvivesItsOwnForm(t *testing.T) {
	d := document()
	d.Lost = []string{"sandbox/a\xffb\x1b[31m\u202e"}
	d.Accepted = []fleet.Accepted{{Key: fleet.Key{Kind: "dir", ID: "/var/lib/vms/x"}, Reason: "\u2028 <&>", Who: "kim", At: t0.Local()}}
	raw, err := Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Marshal(back)
	if err != nil || !bytes.Equal(raw, again) {
		t.Fatalf("a second writing differs (%v):\n%s\n%s", err, raw, again)
	}
	if back.Host != d.Host || back.MadeBoot != d.MadeBoot || !back.Holds.Equal(d.Holds) || back.Digest != d.Digest {
		t.Errorf("read back %+v", back)
	}
}

func TestParseTakesOneFormOnly(t *testing.T) {
	raw, err := Marshal(document())
	if err != nil {
		t.Fatal(err)
	}
	good := string(raw)
	for _, tc := range []struct{ name, data, want string }{
		{"unknown field", strings.Replace(good, `"version"`, `"extra": 1, "version"`, 1), "unknown field"},
		{"trailing data", good + "{}", "after the end"},
		{"trailing space", good + " ", "canonical"},
		{"duplicate", strings.Replace(good, `"drain": "d1",`, `"drain": "d1", "drain": "d2",`, 1), `"drain" stands twice`},
		{"nested duplicate", strings.Replace(good, `"who": "kim",`, `"who": "kim", "who": "eve",`, 1), `"who" stands twice`},
		{"other case", strings.Replace(good, `"machine": "m1"`, `"Machine": "m1"`, 1), "canonical"},
		{"duplicate by case", strings.Replace(good, `"machine": "m1"`, `"machine": "m1", "MACHINE": "m2"`, 1), "canonical"},
		{"wrong type", strings.Replace(good, `"epoch": 3`, `"epoch": "3"`, 1), "epoch"},
		{"other version", strings.Replace(good, `"version": 1`, `"version": 2`, 1), "version 2"},
		{"not an object", "[]\n", "array"},
		{"empty", "", "EOF"},
		{"cut", good[:len(good)/2], "EOF"},
		{"deep", strings.Repeat("[", 100), "deep"},
	} {
		_, err := Parse([]byte(tc.data))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	raw, err := Marshal(document())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Parse(data)
		if err != nil {
			return
		}
		if again, err := encode(d); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("took %q, which is not its own form %q (%v)", data, again, err)
		}
		Check(d, Expect{Now: t0})
	})
}

func TestCheckTakesAGoodProof(t *testing.T) {
	full := Expect{Host: "prod/gpu-041", Machine: "m1", Boot: "b1", Drain: "d1", HostKey: "SHA256:abc"}
	onHost, onDesk := full, full
	onHost.BootNow = time.Hour + Lifetime
	onDesk.Now = t0.Add(Lifetime)
	for name, e := range map[string]Expect{"host": onHost, "desk": onDesk} {
		if got := Check(document(), e); len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	expect := Expect{Host: "prod/gpu-041", Machine: "m1", Boot: "b1", Drain: "d1", HostKey: "SHA256:abc", Now: t0.Add(time.Minute)}
	for _, tc := range []struct {
		name  string
		spoil func(*Document, *Expect)
		check string
		want  string
	}{
		{"old on the host", func(_ *Document, e *Expect) { e.BootNow = time.Hour + Lifetime + 1 }, fleet.CheckReach, "holds for 5m"},
		{"the host's boot clock wins", func(_ *Document, e *Expect) { e.BootNow = 3 * time.Hour }, fleet.CheckReach, "made 2h"},
		{"from the future on the host", func(_ *Document, e *Expect) { e.BootNow = time.Minute }, fleet.CheckReach, "future"},
		{"old on a desk", func(_ *Document, e *Expect) { e.Now = t0.Add(Lifetime + 1) }, fleet.CheckReach, "holds for"},
		{"from the future on a desk", func(_ *Document, e *Expect) { e.Now = t0.Add(-Skew - 1) }, fleet.CheckReach, "future"},
		{"no clock", func(_ *Document, e *Expect) { e.Now = time.Time{} }, fleet.CheckReach, "clock"},
		{"long life", func(d *Document, _ *Expect) { d.Expires = t0.Add(time.Hour) }, fleet.CheckReach, "longer"},
		{"no date", func(d *Document, _ *Expect) { d.Made = time.Time{} }, fleet.CheckReach, "when"},
		{"other host", func(_ *Document, e *Expect) { e.Host = "prod/gpu-042" }, fleet.CheckReach, "another host"},
		{"other machine", func(_ *Document, e *Expect) { e.Machine = "m2" }, fleet.CheckReach, "another machine"},
		{"other boot", func(_ *Document, e *Expect) { e.Boot = "b2" }, fleet.CheckReach, "another boot"},
		{"other key", func(_ *Document, e *Expect) { e.HostKey = "SHA256:x" }, fleet.CheckReach, "another host key"},
		{"other drain", func(_ *Document, e *Expect) { e.Drain = "d2" }, fleet.CheckHolds, "another drain"},
		{"nameless machine", func(d *Document, _ *Expect) { d.Machine = "" }, fleet.CheckReach, "names no machine"},
		{"scope", func(d *Document, _ *Expect) { d.Scope = "demo-1" }, fleet.CheckReach, "scope demo-1"},
		{"no cordon", func(d *Document, _ *Expect) { d.Holds.Cordon = nil }, fleet.CheckHolds, "cordon"},
		{"no drain", func(d *Document, _ *Expect) { d.Holds.Drain = nil }, fleet.CheckHolds, "drain hold"},
		{"held by another", func(d *Document, _ *Expect) { d.Holds.Drain.Drain = "d9" }, fleet.CheckHolds, "d9"},
		{"probe failed", func(d *Document, _ *Expect) { d.Probes[2].Status = fleet.Failed }, fleet.CheckProbes, "netns: failed"},
		{"probe missing", func(d *Document, _ *Expect) { d.Probes = d.Probes[:5] }, fleet.CheckProbes, "gpus: not in"},
		{"probe stale", func(d *Document, _ *Expect) { d.Probes[0].At = t0.Add(-time.Hour) }, fleet.CheckProbes, "last read 1h"},
		{"digest", func(d *Document, _ *Expect) { d.Digest = "none" }, fleet.CheckReach, "SHA-256"},
		{"ghost", func(d *Document, _ *Expect) {
			d.Asserted.Findings = []Finding{{fleet.Key{Kind: "sandbox", ID: "a"}, fleet.Ghost}}
		}, fleet.CheckClaims, "sandbox/a is a ghost"},
		{"version", func(d *Document, _ *Expect) { d.Version = 7 }, fleet.CheckReach, "version 7"},
	} {
		d, e := document(), expect
		tc.spoil(&d, &e)
		got := Check(d, e)
		if len(got) != 1 || got[0].Check != tc.check || !strings.Contains(got[0].Detail, tc.want) {
			t.Errorf("%s: %+v, want one issue %s with %q", tc.name, got, tc.check, tc.want)
		}
	}
	scoped := document()
	scoped.Scope = "demo-1"
	expect.Scoped = true
	if got := Check(scoped, expect); len(got) > 0 {
		t.Errorf("allowed scope: %+v", got)
	}
}

func TestAssertedIssues(t *testing.T) {
	key := func(id string) fleet.Key { return fleet.Key{Kind: "sandbox", ID: id} }
	a := Asserted{
		Claims: "x",
		Findings: []Finding{
			{key("ghost"), fleet.Ghost}, {key("orphan"), fleet.Orphan}, {key("leak"), fleet.Leak}, {key("nobody"), fleet.Unattributed},
			{key("dark"), fleet.UnknownV}, {key("fine"), fleet.Agreed}, {key("new"), "novel"},
		},
		Lost: []LostItem{{Key: key("lost"), How: "the host was rebooted"}},
	}
	var accepted []fleet.Accepted
	for _, id := range []string{"ghost", "orphan", "leak", "nobody", "dark", "new", "lost"} {
		accepted = append(accepted, fleet.Accepted{Key: key(id)})
	}
	if got := AssertedIssues(a, nil); len(got) != 7 {
		t.Errorf("want all seven named: %+v", got)
	}
	got := AssertedIssues(a, accepted)
	if len(got) != 2 || got[0].Key != key("dark") || got[1].Key != key("new") {
		t.Errorf("only what is not known stays: %+v", got)
	}
	if got := AssertedIssues(Asserted{}, nil); len(got) != 1 || got[0].Acceptable {
		t.Errorf("claims that were not read: %+v", got)
	}
	miscounted := Asserted{Claims: "x", Verdicts: map[fleet.Verdict]int{fleet.Ghost: 2, fleet.Agreed: 9}, Findings: []Finding{{key("ghost"), fleet.Ghost}}}
	if got := AssertedIssues(miscounted, accepted); len(got) != 1 || !strings.Contains(got[0].Detail, "2 counted as a ghost, 1 named") {
		t.Errorf("a count without its names: %+v", got)
	}
}

// Whatever a probe says but "ok" and "not applicable" is an issue that nobody
// can accept, and changes the digest.
func TestProbeThatDidNotAnswerAlwaysShutsTheGate(t *testing.T) {
	whole := Digest(Items(emptyFacts()))
	rapid.Check(t, func(t *rapid.T) {
		f := emptyFacts()
		status := rapid.OneOf(
			rapid.SampledFrom([]fleet.Status{fleet.Unknown, fleet.OK, fleet.Failed, fleet.NotApplicable}),
			rapid.Map(rapid.String(), func(s string) fleet.Status { return fleet.Status(s) }),
		)
		for i, set := range []*fleet.Status{
			&f.Processes.Status, &f.Workloads.Status, &f.Netns.Status, &f.Loops.Status, &f.Dirs.Status, &f.GPUs.Status,
		} {
			if rapid.Bool().Draw(t, "change") {
				*set = status.Draw(t, "status")
			}
			f.Accepted = append(f.Accepted, fleet.Accepted{Key: fleet.Key{Kind: "probe", ID: f.Probes()[i].Name}})
		}
		want := 0
		for _, p := range f.Probes() {
			if p.Status != fleet.OK && (p.Status != fleet.NotApplicable || p.Name == "processes") {
				want++
			}
		}
		got := Issues(f)
		if len(got) != want {
			t.Fatalf("%d of %d bad probes named: %+v", len(got), want, got)
		}
		for _, i := range got {
			if i.Check != fleet.CheckProbes || i.Acceptable {
				t.Fatalf("%+v", i)
			}
		}
		if (Digest(Items(f)) == whole) != (want == 0) {
			t.Fatalf("digest with %d bad probes", want)
		}
	})
}

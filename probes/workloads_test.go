package probes

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ebb/fleet"
)

func TestIDs(t *testing.T) {
	p := func(argv ...string) *proc {
		return &proc{details: details{argv: argv, exe: "/opt/fc", cgroup: "/system.slice/docker-4f2a.scope", env: map[string]string{"VM": "e1"}}}
	}
	for _, tt := range []struct {
		rule fleet.IDRule
		p    *proc
		want string
	}{
		{fleet.IDRule{After: "--id"}, p("fc", "--id", "vm0"), "vm0"},
		{fleet.IDRule{After: "--id"}, p("fc", "--id=vm0"), "vm0"},
		{fleet.IDRule{After: "--id"}, p("fc", "--id=a=b"), "a=b"},
		{fleet.IDRule{After: "--id"}, p("fc", "--identity", "vm0"), ""},
		{fleet.IDRule{After: "--id"}, p("fc", "--identity=vm0"), ""},
		{fleet.IDRule{After: "--id"}, p("fc", "--id"), ""},
		{fleet.IDRule{After: "--id"}, p("fc", "--id", "--verbose"), ""},
		{fleet.IDRule{After: "--id"}, p("fc", "--id", "vm0\n\x1b[31m"), "vm0\n\x1b[31m"},
		{fleet.IDRule{Prefix: "vm="}, p("fc", "xvm=1", "vm=2"), "2"},
		{fleet.IDRule{Prefix: "vm="}, p("fc", "vm="), ""},
		{fleet.IDRule{Cgroup: "docker-"}, p("fc"), "4f2a"},
		{fleet.IDRule{Cgroup: "crio-"}, p("fc"), ""},
		{fleet.IDRule{Cgroup: "ocker-"}, p("fc"), ""},
		{fleet.IDRule{Cgroup: "system.slice/docker-"}, p("fc"), "4f2a"},
		{fleet.IDRule{Env: "VM"}, p("fc"), "e1"},
		{fleet.IDRule{Env: "V"}, p("fc"), ""},
	} {
		if got, err := idOf(tt.rule, tt.p); err != nil || got != tt.want {
			t.Errorf("%+v of %q: got %q (%v), want %q", tt.rule, tt.p.argv, got, err, tt.want)
		}
	}
}

func TestReverse(t *testing.T) {
	for _, tt := range []struct {
		template, name, id string
		ok                 bool
	}{
		{"ns-{id}", "ns-vm0", "vm0", true},
		{"ns-{id}", "ns-", "", false},
		{"ns-{id}", "xns-vm0", "", false},
		{"{id}-ns-00", "vm0-ns-00", "vm0", true},
		{"{id}-ns-00", "vm0-ns-00-extra", "", false},
		{"/v/{id}/{id}.img", "/v/vm0/vm0.img", "vm0", true},
		{"/v/{id}/{id}.img", "/v/vm0/vm1.img", "", false},
		{"bridge", "bridge", "", false},
	} {
		if id, ok := reverse(tt.template, tt.name); ok != tt.ok || ok && id != tt.id {
			t.Errorf("%s of %s: %q %v", tt.template, tt.name, id, ok)
		}
	}
}

// What is read backwards expands to the same name, and only such names fit.
func TestReverseUndoesExpand(t *testing.T) {
	part := rapid.StringMatching(`[a-z-]{0,4}`)
	rapid.Check(t, func(t *rapid.T) {
		template := part.Draw(t, "before") + "{id}" + part.Draw(t, "after")
		id := rapid.StringMatching(`[a-z0-9-]{1,6}`).Draw(t, "id")
		name := strings.ReplaceAll(template, "{id}", id)
		if got, ok := reverse(template, name); !ok || got != id {
			t.Fatalf("%s of %s: %q %v", template, name, got, ok)
		}
		other := part.Draw(t, "other")
		if got, ok := reverse(template, other); ok && strings.ReplaceAll(template, "{id}", got) != other {
			t.Fatalf("%s of %s: %q", template, other, got)
		}
	})
}

func sandboxes() []fleet.WorkloadRule {
	return []fleet.WorkloadRule{{
		Name: "vm", Kind: "sandbox", Exe: "fc", ID: fleet.IDRule{After: "--id"}, Class: fleet.Ephemeral, Owner: "search", Grace: time.Minute,
		Owns: map[string]string{"netns": "ns-{id}", "dir": "/var/lib/vms/{id}"}, Labels: map[string]string{"a": "b"}, Stop: "vm-stop",
	}}
}

func TestRuleWorkload(t *testing.T) {
	tr := newTree(t)
	tr.process(fake{pid: 50, exe: "/opt/fc", argv: []string{"fc", "--id", "vm0"}})
	tr.process(fake{pid: 51, ppid: 50, exe: "/opt/helper"})
	tr.process(fake{pid: 52, ppid: 51, exe: "/usr/sbin/sshd"}) // in a workload, not the host's
	tr.process(fake{pid: 53, ppid: 1, exe: "/opt/fc", argv: []string{"fc", "--id", "vm0-extra"}})
	tr.process(fake{pid: 54, ppid: 1, session: 50, exe: "/opt/helper"}) // was given to process 1
	tr.process(fake{pid: 55, exe: "/opt/stray"})
	s := tr.scan(Config{Workloads: sandboxes()})
	got := byKey(t, s, "sandbox", "vm0")
	want := fleet.Workload{
		Key: fleet.Key{Kind: "sandbox", ID: "vm0"}, Rule: "vm", Phase: fleet.Running, Class: fleet.Ephemeral, Owner: "search", Grace: time.Minute,
		Run: byPID(t, s, 50).Run, Runs: got.Runs, Started: byPID(t, s, 50).Started, Labels: map[string]string{"a": "b"}, Stop: "vm-stop",
		Owns: []fleet.Key{{Kind: "dir", ID: "/var/lib/vms/vm0"}, {Kind: "netns", ID: "ns-vm0"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if p := pids(got.Runs); !slices.Equal(p, []int{50, 51, 52, 54}) {
		t.Errorf("runs %v", p)
	}
	if p := pids(byKey(t, s, "sandbox", "vm0-extra").Runs); !slices.Equal(p, []int{53}) {
		t.Errorf("runs of the longer name %v", p)
	}
	if p := byPID(t, s, 52); p.Owner != got.Key || p.System != "" {
		t.Errorf("sshd inside: %+v", p)
	}
	if p := byPID(t, s, 55); !p.Owner.IsZero() || p.System != "" || p.Kept != "" {
		t.Errorf("stray: %+v", p)
	}
}

// Two processes with one id are one workload with two runs, not one hidden.
func TestSameIDTwice(t *testing.T) {
	tr := newTree(t)
	tr.process(fake{pid: 50, start: 900, exe: "/opt/fc", argv: []string{"fc", "--id", "vm0"}})
	tr.process(fake{pid: 60, start: 100, exe: "/opt/fc", argv: []string{"fc", "--id", "vm0"}})
	w := byKey(t, tr.scan(Config{Workloads: sandboxes()}), "sandbox", "vm0")
	if w.Run.PID != 60 || !slices.Equal(pids(w.Runs), []int{60, 50}) {
		t.Errorf("main %v, runs %v", w.Run, w.Runs)
	}
}

func TestZombieIsNoWorkload(t *testing.T) {
	tr := newTree(t)
	tr.process(fake{pid: 50, exe: "/opt/fc", argv: []string{"fc", "--id", "vm0"}, state: "Z"})
	if got := need(t, tr.scan(Config{Workloads: sandboxes()}).Workloads); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestBadRules(t *testing.T) {
	for says, rule := range map[string]fleet.WorkloadRule{
		"in 0 ways": {Name: "r", Kind: "x", Exe: "fc"},
		"in 2 ways": {Name: "r", Kind: "x", ID: fleet.IDRule{After: "a", Prefix: "b"}},
		"kind":      {Name: "r", Kind: "a/b", ID: fleet.IDRule{After: "a"}},
	} {
		tr := newTree(t)
		s := tr.scan(Config{Workloads: []fleet.WorkloadRule{rule}})
		mustFail(t, s.Workloads, "rule r", says)
		if byPID(t, s, 1).System != "init" {
			t.Error("process 1 is no longer known")
		}
	}
}

func TestEnvironmentIsNeededOnlyByItsRule(t *testing.T) {
	tr := newTree(t)
	rules := []fleet.WorkloadRule{{Kind: "job", Exe: "job", ID: fleet.IDRule{Env: "JOB"}}}
	tr.process(fake{pid: 50, exe: "/opt/job", environ: []string{"SECRET=x", "JOB=42"}})
	tr.process(fake{pid: 51, exe: "/opt/other"})
	os.Remove(tr.path("proc/51/environ"))
	byKey(t, tr.scan(Config{Workloads: rules}), "job", "42")
	os.Remove(tr.path("proc/50/environ"))
	mustFail(t, tr.scan(Config{Workloads: rules}).Workloads, "process 50", "environ")
}

func TestFirecrackerPreset(t *testing.T) {
	tr := newTree(t)
	tr.process(fake{pid: 50, exe: "/srv/jail/firecracker", argv: []string{"firecracker", "--id", "i-1", "--api-sock", "/x"}})
	w := byKey(t, tr.scan(Config{Presets: []string{PresetFirecracker}}), "sandbox", "i-1")
	if fmt.Sprint(w.Owns) != "[netns/ns-i-1 tap/tap-i-1]" || w.Rule != PresetFirecracker {
		t.Errorf("got %+v", w)
	}
}

func manifests() Config {
	return Config{Presets: []string{PresetManifest}, ManifestDirs: []string{"/run/jobs"}, Workloads: sandboxes()}
}

// pidFile writes a pid file as of a time.
func (tr tree) pidFile(name, content string, at time.Time) {
	tr.Helper()
	tr.write(name, content)
	if err := os.Chtimes(tr.path(name), at, at); err != nil {
		tr.Fatal(err)
	}
}

func TestManifest(t *testing.T) {
	tr := newTree(t)
	tr.write("run/jobs/web.toml", `id = "web-7"
kind = "service"
class = "stateless"
owner = "search"
ttl = "2h"
grace = "3m"
pidfile = "/run/web-7.pid"
start = "web-start"
health = "web-health"
gpus = ["GPU-z"]
labels = { app = "vllm" }
owns = { netns = "ns-{id}" }
`)
	tr.process(fake{pid: 50, start: 600 * 100, exe: "/opt/web"})
	tr.process(fake{pid: 51, ppid: 50, exe: "/opt/web"})
	tr.pidFile("run/web-7.pid", "50\n", booted.Add(600*time.Second))
	s := tr.scan(manifests())
	got := byKey(t, s, "service", "web-7")
	started := booted.Add(600 * time.Second)
	want := fleet.Workload{
		Key: fleet.Key{Kind: "service", ID: "web-7"}, Rule: "manifest", Phase: fleet.Running, Declared: true, Class: fleet.Stateless, Owner: "search",
		Run: byPID(t, s, 50).Run, Runs: got.Runs, Grace: 3 * time.Minute, Expires: got.Expires, Started: got.Started,
		Owns: []fleet.Key{{Kind: "netns", ID: "ns-web-7"}}, GPUs: []string{"GPU-z"}, Labels: map[string]string{"app": "vllm"}, Start: "web-start", Health: "web-health",
	}
	if !reflect.DeepEqual(got, want) || !got.Started.Equal(started) || !got.Expires.Equal(started.Add(2*time.Hour)) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !slices.Equal(pids(got.Runs), []int{50, 51}) {
		t.Errorf("runs %v", got.Runs)
	}
}

// A manifest that is removed takes the workload away, and not its process: that
// is told with the same Run, as nobody's and not as the host's own.
func TestManifestRemovedLeavesTheProcess(t *testing.T) {
	tr := newTree(t)
	tr.write("run/jobs/web.toml", "id = \"web-7\"\nkind = \"service\"\npidfile = \"/run/web-7.pid\"\n")
	tr.process(fake{pid: 50, start: 600 * 100, exe: "/opt/web"})
	tr.pidFile("run/web-7.pid", "50\n", booted.Add(600*time.Second))
	run := byKey(t, tr.scan(manifests()), "service", "web-7").Run
	if err := os.Remove(tr.path("run/jobs/web.toml")); err != nil {
		t.Fatal(err)
	}
	s := tr.scan(manifests())
	if got := need(t, s.Workloads); len(got) != 0 {
		t.Errorf("workloads %+v", got)
	}
	if p := byPID(t, s, 50); p.Run != run || run.PID != 50 || !p.Owner.IsZero() || p.System != "" || p.Kept != "" {
		t.Errorf("run %v, process %+v", run, p)
	}
}

func TestManifestPhases(t *testing.T) {
	const doc = "id = \"vm0\"\nkind = \"sandbox\"\npidfile = \"/run/vm0.pid\"\nrest = \"/var/lib/vms/vm0/snap\"\n"
	at := func(pid int, start time.Duration) fake {
		return fake{pid: pid, start: uint64(start / (time.Second / ticks)), exe: "/opt/any"}
	}
	for name, tt := range map[string]struct {
		set  func(tree)
		want fleet.Phase
		pid  int
	}{
		"no pid file":        {func(tree) {}, fleet.Gone, 0},
		"no pid file, state": {func(tr tree) { tr.write("var/lib/vms/vm0/snap", "") }, fleet.AtRest, 0},
		"pid file of nobody": {func(tr tree) { tr.pidFile("run/vm0.pid", "50", now) }, fleet.Gone, 0},
		"running":            {func(tr tree) { tr.pidFile("run/vm0.pid", " 50\n", now); tr.process(at(50, time.Minute)) }, fleet.Running, 50},
		"running, state": {func(tr tree) {
			tr.write("var/lib/vms/vm0/snap", "")
			tr.pidFile("run/vm0.pid", "50", now)
			tr.process(at(50, time.Minute))
		}, fleet.Running, 50},
		"started within the slack": {func(tr tree) {
			tr.pidFile("run/vm0.pid", "50", booted.Add(time.Minute))
			tr.process(at(50, time.Minute+pidSlack))
		}, fleet.Running, 50},
		"pid used again": {func(tr tree) {
			tr.pidFile("run/vm0.pid", "50", booted.Add(time.Minute))
			tr.process(at(50, time.Minute+pidSlack+time.Second))
		}, fleet.Gone, 0},
		"zombie":                     {func(tr tree) { tr.pidFile("run/vm0.pid", "50", now); f := at(50, 1); f.state = "Z"; tr.process(f) }, fleet.Gone, 0},
		"found by a rule":            {func(tr tree) { tr.process(fake{pid: 60, exe: "/opt/fc", argv: []string{"fc", "--id", "vm0"}}) }, fleet.Running, 60},
		"names process 1":            {func(tr tree) { tr.pidFile("run/vm0.pid", "1", now) }, fleet.Gone, 0},
		"rule finds another's state": {func(tr tree) { tr.process(fake{pid: 60, exe: "/opt/fc", argv: []string{"fc", "--id", "vm01"}}) }, fleet.Gone, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t)
			tr.write("run/jobs/vm0.toml", doc)
			tt.set(tr)
			w := byKey(t, tr.scan(manifests()), "sandbox", "vm0")
			if w.Phase != tt.want || w.Run.PID != tt.pid || !w.Declared {
				t.Errorf("got %+v", w)
			}
			if tt.pid == 60 && (w.Class != fleet.Ephemeral || len(w.Owns) != 2) {
				t.Errorf("what the rule says is missing: %+v", w)
			}
		})
	}
}

// A manifest that can't be understood hides a workload: the reading fails and
// names the file.
func TestBadManifests(t *testing.T) {
	const good = "id = \"a\"\nkind = \"b\"\n"
	for says, doc := range map[string]string{
		"line 2":        "id = \"a\"\nkind = \n",
		"no id":         "kind = \"b\"\n",
		`kind ""`:       "id = \"a\"\n",
		`kind "x/y"`:    "id = \"a\"\nkind = \"x/y\"\n",
		`class "heavy"`: good + "class = \"heavy\"\n",
		`ttl "soon"`:    good + "ttl = \"soon\"\n",
		`grace "-1s"`:   good + "grace = \"-1s\"\n",
		"expire":        good + "expire = 2026-11-29T17:30:00Z\n",
		"pid file":      good + "pidfile = \"/run/bad.pid\"\n",
		"is also what":  "id = \"twin\"\nkind = \"b\"\n",
		"larger than":   good + "# " + strings.Repeat("x", maxManifest),
		"line 1":        "\xff\xfe",
	} {
		t.Run(says, func(t *testing.T) {
			tr := newTree(t)
			tr.write("run/bad.pid", "")
			tr.write("run/jobs/a.toml", "id = \"twin\"\nkind = \"b\"\n")
			tr.write("run/jobs/x.toml", doc)
			s := tr.scan(manifests())
			mustFail(t, s.Workloads, "x.toml", says)
			need(t, s.Processes)
			need(t, s.Dirs)
		})
	}
	tr := newTree(t)
	os.MkdirAll(tr.path("run/jobs/d.toml"), 0o755)
	mustFail(t, tr.scan(manifests()).Workloads, "d.toml")
}

func TestManifestDirs(t *testing.T) {
	tr := newTree(t)
	if got := need(t, tr.scan(manifests()).Workloads); len(got) != 0 {
		t.Errorf("no directory: %v", got)
	}
	tr.write("run/jobs/.hidden.toml", "garbage")
	tr.write("run/jobs/x.toml.tmp", "garbage")
	if got := need(t, tr.scan(manifests()).Workloads); len(got) != 0 {
		t.Errorf("temporary files: %v", got)
	}
	os.RemoveAll(tr.path("run/jobs"))
	tr.write("run/jobs", "a file")
	mustFail(t, tr.scan(manifests()).Workloads, "run/jobs")
}

func TestUnits(t *testing.T) {
	tr := newTree(t)
	web := "/system.slice/web.service"
	tr.process(fake{pid: 50, exe: "/opt/web", cgroup: web})
	tr.process(fake{pid: 51, ppid: 50, exe: "/opt/web", cgroup: web + "/sub"})
	tr.process(fake{pid: 52, ppid: 1, session: 99, exe: "/opt/forked", cgroup: web})
	tr.process(fake{pid: 60, exe: "/usr/sbin/cron", cgroup: "/system.slice/cron.service"})
	tr.process(fake{pid: 61, exe: "/usr/bin/bash", cgroup: "/user.slice/user-0.slice/session-3.scope"})
	tr.process(fake{pid: 70, exe: "/opt/vmd", cgroup: "/system.slice/vmd.service"})
	tr.process(fake{pid: 71, ppid: 70, exe: "/opt/fc", argv: []string{"fc", "--id", "vm0"}, cgroup: "/system.slice/vmd.service"})
	tr.process(fake{pid: 72, ppid: 70, exe: "/opt/fc", argv: []string{"fc", "--id", "vm1"}, cgroup: "/system.slice/vmd.service"})
	tr.process(fake{pid: 80, exe: "/opt/fc", argv: []string{"fc", "--id", "vm2"}, cgroup: "/machine.slice/vm2.scope"})
	tr.process(fake{pid: 81, ppid: 1, exe: "/opt/virtiofsd", cgroup: "/machine.slice/vm2.scope"})
	s := tr.scan(Config{Presets: []string{PresetSystemd}, Workloads: sandboxes()})
	if got := keys(s); fmt.Sprint(got) != "[sandbox/vm0 sandbox/vm1 sandbox/vm2 unit/vmd.service unit/web.service]" {
		t.Fatalf("workloads %v", got)
	}
	for id, want := range map[string][]int{"web.service": {50, 51, 52}, "vmd.service": {70}} {
		if w := byKey(t, s, "unit", id); !slices.Equal(pids(w.Runs), want) {
			t.Errorf("%s: %v", id, w.Runs)
		}
	}
	if w := byKey(t, s, "sandbox", "vm2"); !slices.Equal(pids(w.Runs), []int{80, 81}) {
		t.Errorf("vm2: %v", w.Runs)
	}
	for pid, want := range map[int]string{60: "unit cron.service", 61: "", 70: ""} {
		if p := byPID(t, s, pid); p.System != want {
			t.Errorf("%d: system %q, want %q", pid, p.System, want)
		}
	}
	// Without the preset the daemon is nobody's: it does not belong to a VM of its own.
	s = tr.scan(Config{Workloads: sandboxes()})
	if p := byPID(t, s, 70); !p.Owner.IsZero() {
		t.Errorf("the daemon belongs to %v", p.Owner)
	}
}

func TestDockerPreset(t *testing.T) {
	tr := newTree(t)
	tr.process(fake{pid: 40, exe: "/usr/bin/dockerd", cgroup: "/system.slice/docker.service"})
	tr.process(fake{pid: 50, ppid: 40, exe: "/app", cgroup: "/system.slice/docker-4f2a.scope"})
	tr.process(fake{pid: 51, ppid: 40, exe: "/usr/sbin/sshd", cgroup: "/system.slice/docker-4f2a.scope", pidns: 1}) // docker exec
	tr.process(fake{pid: 60, ppid: 40, exe: "/app", cgroup: "/docker/77ab/init"})
	s := tr.scan(Config{Presets: []string{PresetDocker, PresetSystemd}})
	if got := keys(s); fmt.Sprint(got) != "[container/4f2a container/77ab unit/docker.service]" {
		t.Fatalf("workloads %v", got)
	}
	if w := byKey(t, s, "container", "4f2a"); w.Run.PID != 50 || !slices.Equal(pids(w.Runs), []int{50, 51}) {
		t.Errorf("got %+v", w)
	}
}

func TestUnknownPreset(t *testing.T) {
	mustFail(t, newTree(t).scan(Config{Presets: []string{"podmen"}}).Workloads, "podmen")
}

func TestKeep(t *testing.T) {
	tr := newTree(t)
	tr.process(fake{pid: 50, exe: "/opt/fc", argv: []string{"fc", "--id", "warm-1"}})
	tr.process(fake{pid: 51, ppid: 50, exe: "/opt/x"})
	tr.process(fake{pid: 52, exe: "/opt/fc", argv: []string{"fc", "--id", "vm1"}})
	tr.process(fake{pid: 60, exe: "/opt/plugin"})
	tr.process(fake{pid: 61, exe: "/opt/plugin2"})
	tr.process(fake{pid: 62, exe: "/opt/any", cgroup: "/system.slice/kubelet.service"})
	tr.process(fake{pid: 63, exe: "/opt/plugin", argv: []string{"fc", "--id", "vm2"}})
	s := tr.scan(Config{Workloads: sandboxes(), Keep: []fleet.KeepRule{{Kind: "sandbox", ID: "warm-*"}, {Exe: "plugin"}, {Unit: "kubelet"}, {}}})
	for pid, want := range map[int]string{50: "kind sandbox id warm-*", 51: "kind sandbox id warm-*", 52: "", 60: "exe plugin", 61: "", 62: "unit kubelet", 63: "", 1: ""} {
		if p := byPID(t, s, pid); p.Kept != want {
			t.Errorf("%d: kept %q, want %q", pid, p.Kept, want)
		}
	}
	if w := byKey(t, s, "sandbox", "warm-1"); w.Kept == "" {
		t.Error("the workload is not kept")
	}
}

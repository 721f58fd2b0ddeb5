package probes

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ebb/fleet"
)

func TestNetnsPlaceholders(t *testing.T) {
	tr := newTree(t)
	tr.write("run/netns/ns-vm0", "")
	tr.write("run/netns/ns-vm0-extra", "")
	tr.write("run/netns/cni-1", "")
	tr.write("run/netns/other", "")
	s := tr.scan(Config{Workloads: sandboxes(), System: fleet.SystemRules{Netns: []string{"cni-*"}}})
	for name, want := range map[string]struct{ owner, system string }{
		"ns-vm0": {"sandbox/vm0", ""}, "ns-vm0-extra": {"sandbox/vm0-extra", ""}, "cni-1": {"/", "rule cni-*"}, "other": {"/", ""},
	} {
		r := resource(t, s.Netns, name)
		if r.Owner.String() != want.owner || r.System != want.system || !strings.HasPrefix(r.Detail, "placeholder") || r.Identity == "" {
			t.Errorf("%+v", r)
		}
	}
	before := resource(t, s.Netns, "other").Identity
	os.Rename(tr.path("run/netns/cni-1"), tr.path("run/netns/other")) // another file of the same name
	if after := resource(t, tr.scan(Config{}).Netns, "other").Identity; after == before {
		t.Errorf("another file has the same identity %s", after)
	}
}

func TestNetnsAbsent(t *testing.T) {
	tr := newTree(t)
	if got := need(t, tr.scan(Config{}).Netns); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	tr.write("run/netns", "a file")
	mustFail(t, tr.scan(Config{}).Netns, "run/netns")
	os.Remove(tr.path("run/netns"))
	os.Symlink("loop", tr.path("run/netns"))
	os.Symlink("netns", tr.path("run/loop"))
	mustFail(t, tr.scan(Config{}).Netns, "run/netns")
}

// A dangling link is found missing by open but is there in the listing.
func TestNetnsDanglingLink(t *testing.T) {
	tr := newTree(t)
	os.Symlink("nowhere", tr.path("run/netns"))
	mustFail(t, tr.scan(Config{}).Netns, "is there but can't be found")
}

// Old systems keep names in /var/run; a link out of the root is another host's.
func TestNetnsVarRun(t *testing.T) {
	tr := newTree(t)
	tr.write("run/netns/a", "")
	tr.write("var/run/netns/b", "")
	if got := need(t, tr.scan(Config{}).Netns); len(got) != 2 {
		t.Errorf("got %+v", got)
	}
	os.RemoveAll(tr.path("var/run"))
	elsewhere := t.TempDir()
	os.MkdirAll(elsewhere+"/netns/foreign", 0o755)
	os.Symlink(elsewhere, tr.path("var/run"))
	if got := need(t, tr.scan(Config{}).Netns); len(got) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestNetnsUnnamed(t *testing.T) {
	tr := newTree(t)
	tr.process(fake{pid: 50, exe: "/opt/fc", argv: []string{"fc", "--id", "vm0"}, netns: 71})
	tr.process(fake{pid: 51, ppid: 50, exe: "/opt/x", netns: 71})
	tr.process(fake{pid: 60, exe: "/opt/stray", netns: 72})
	tr.process(fake{pid: 70, exe: "/usr/lib/polkitd", cgroup: "/system.slice/polkit.service", netns: 73})
	s := tr.scan(Config{Workloads: sandboxes()})
	if got := need(t, s.Netns); len(got) != 3 {
		t.Fatalf("got %+v", got)
	}
	r := resource(t, s.Netns, "net:[71]")
	if r.Owner.ID != "vm0" || !slices.Equal(pids(r.Users), []int{50, 51}) || r.Identity != "net:[71]" {
		t.Errorf("%+v", r)
	}
	if r := resource(t, s.Netns, "net:[72]"); !r.Owner.IsZero() || r.System != "" {
		t.Errorf("%+v", r)
	}
	if r := resource(t, s.Netns, "net:[73]"); r.System != "unit polkit.service" {
		t.Errorf("%+v", r)
	}
}

// Members of a namespace that a workload owns belong to it, if it runs.
func TestNetnsMembers(t *testing.T) {
	rules := sandboxes()
	build := func(runs bool) (*world, *proc) {
		member := &proc{stat: stat{pid: 60}, details: details{netns: 71}}
		one := &proc{stat: stat{pid: 1}, details: details{netns: hostNet}}
		tab := &table{procs: []*proc{one, member}, byPID: map[int]*proc{1: one, 60: member}, host: map[uint64]bool{hostNet: true}}
		if runs {
			main := &proc{stat: stat{pid: 50}, details: details{argv: []string{"fc", "--id", "vm0"}, netns: hostNet}}
			tab.procs, tab.byPID[50] = []*proc{one, main, member}, main
		}
		return &world{table: tab, rules: rules, netns: []nsEntry{{name: "ns-vm0", inode: 71}, {name: "ns-host", inode: hostNet}}}, member
	}
	w, member := build(true)
	if err := w.attribute(); err != nil || member.Owner.ID != "vm0" {
		t.Errorf("owner %v, %v", member.Owner, err)
	}
	if r := w.namedNetns(w.netns[1]); r.System != "host namespace" || len(r.Users) != 0 {
		t.Errorf("a name of the host's own namespace: %+v", r)
	}
	w, member = build(false)
	if err := w.attribute(); err != nil || !member.Owner.IsZero() {
		t.Errorf("a process left in the namespace of what is gone belongs to %v (%v)", member.Owner, err)
	}
	if r := w.namedNetns(w.netns[0]); r.Owner.ID != "vm0" || len(r.Users) != 1 {
		t.Errorf("%+v", r)
	}
}

func (tr tree) loop(name, file, seq string) {
	dir := "sys/block/" + name + "/"
	tr.write(dir+"dev", "7:"+strings.TrimPrefix(name, "loop")+"\n")
	if seq != "" {
		tr.write(dir+"diskseq", seq+"\n")
	}
	tr.write(dir+"loop/offset", "0\n")
	tr.write(dir+"loop/backing_file", file+"\n")
}

func TestLoops(t *testing.T) {
	tr := newTree(t)
	vm0 := tr.path("var/lib/vms/vm0/disk.img")
	tr.write("var/lib/vms/vm0/disk.img", "")
	tr.write("var/lib/odd (deleted)", "")
	tr.loop("loop0", vm0, "17")
	tr.loop("loop1", tr.path("img/vm1.img")+" (deleted)", "18")
	tr.loop("loop2", "/other/host.img", "19")
	tr.loop("loop3", tr.path("var/lib/odd (deleted)"), "20")
	tr.loop("loop4", "/lab/mine.img", "")
	tr.loop("loop6", "/lab2/another-labs.img", "21")
	tr.write("sys/block/loop5/dev", "7:5\n") // no file attached
	tr.write("sys/block/vda/dev", "254:1\n")
	tr.write("sys/block/loop0/loop0p1/dev", "259:7\n")
	tr.write("sys/block/loop0/holders/dm-0", "")
	tr.write("proc/1/mountinfo", "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n40 22 7:1 / /mnt/a\\040b rw - ext4 /dev/loop1 rw\n41 22 259:7 / /mnt/p rw - ext4 /dev/loop0p1 rw\n")
	rules := []fleet.WorkloadRule{{Kind: "sandbox", Exe: "fc", ID: fleet.IDRule{After: "--id"},
		Owns: map[string]string{"dir": tr.path("var/lib/vms/{id}"), "loop": tr.path("img/{id}.img")}}}
	s := tr.scan(Config{Workloads: rules, LoopPrefix: []string{"/lab"}, System: fleet.SystemRules{Loops: []string{"/lab/*.img"}}})
	list := need(t, s.Loops)
	if len(list) != 4 {
		t.Fatalf("got %+v", list)
	}
	for name, want := range map[string]fleet.Resource{
		"loop0": {Identity: "7:0 seq 17", Owner: fleet.Key{Kind: "sandbox", ID: "vm0"}, Detail: vm0 + ", mounted on /mnt/p, held by dm-0"},
		"loop1": {Identity: "7:1 seq 18", Owner: fleet.Key{Kind: "sandbox", ID: "vm1"}, Deleted: true, Detail: tr.path("img/vm1.img") + " (deleted), mounted on /mnt/a b"},
		"loop3": {Identity: "7:3 seq 20", Detail: tr.path("var/lib/odd (deleted)")},
		"loop4": {Identity: "7:4 file deleted offset 0", Detail: "/lab/mine.img", System: "rule /lab/*.img"},
	} {
		want.Key = fleet.Key{Kind: "loop", ID: name}
		got := resource(t, s.Loops, name)
		if name == "loop4" {
			got.Identity = want.Identity // the file is not there to be looked at
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
}

func TestLoopsUnknown(t *testing.T) {
	tr := newTree(t)
	os.RemoveAll(tr.path("sys/block"))
	if s := tr.scan(Config{}); s.Loops.Status != fleet.NotApplicable || !strings.Contains(s.Loops.Error, "sys/block") {
		t.Errorf("got %+v", s.Loops)
	}
	tr.write("proc/devices", "Block devices:\n  7 loop\n")
	mustFail(t, tr.scan(Config{}).Loops, "sys/block")

	tr = newTree(t)
	tr.loop("loop0", tr.path("x"), "1")
	os.Remove(tr.path("sys/block/loop0/dev"))
	mustFail(t, tr.scan(Config{}).Loops, "loop0/dev")
	tr.loop("loop0", tr.path("x"), "1")
	tr.write("proc/1/mountinfo", "half\n")
	if r := resource(t, tr.scan(Config{}).Loops, "loop0"); !strings.Contains(r.Detail, "mounts are not known") {
		t.Errorf("%+v", r)
	}
	os.RemoveAll(tr.path("sys/block/loop0/loop/backing_file"))
	os.MkdirAll(tr.path("sys/block/loop0/loop/backing_file"), 0o755)
	mustFail(t, tr.scan(Config{}).Loops, "backing_file")
}

func TestDirs(t *testing.T) {
	tr := newTree(t)
	tr.write("var/lib/vms/vm-0/disk", "")
	tr.write("var/lib/vms/vm-0-extra/disk", "")
	tr.write("var/lib/vms/vm-", "")
	tr.write("var/lib/vms/other/x", "")
	tr.write("var/lib/vms/lost+found/x", "")
	tr.write("var/lib/vms/vm-file", "")
	tr.write("srv/jobs/"+AsidePrefix+"old/x", "")
	tr.write("srv/jobs/j\xff\n1/x", "")
	cfg := Config{Dirs: []fleet.DirRule{{Path: "/var/lib/vms", Kind: "sandbox", Prefix: "vm-"}, {Path: "/srv/jobs", Kind: "job"}, {Path: "/srv/jobs", Kind: "twice"}}}
	s := tr.scan(cfg)
	var got []string
	for _, r := range need(t, s.Dirs) {
		got = append(got, fmt.Sprintf("%q of %q", r.Key.ID, r.Owner))
		if r.Identity == "" || r.Since.IsZero() || time.Since(r.Since) > time.Hour {
			t.Errorf("%+v", r)
		}
	}
	want := []string{`"/srv/jobs/.ebb-old" of "/"`, `"/srv/jobs/j\\xff\n1" of "job/j\\xff\n1"`, `"/var/lib/vms/vm-0" of "sandbox/0"`, `"/var/lib/vms/vm-0-extra" of "sandbox/0-extra"`, `"/var/lib/vms/vm-file" of "sandbox/file"`}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if r := resource(t, s.Dirs, "/var/lib/vms/vm-file"); !strings.HasPrefix(r.Detail, "not a directory") {
		t.Errorf("%+v", r)
	}
	id := resource(t, s.Dirs, "/var/lib/vms/vm-0").Identity
	tr.write("var/lib/vms/vm-0/more", "")
	os.Rename(tr.path("var/lib/vms/vm-0"), tr.path("var/lib/vms/.ebb-vm-0"))
	if moved, err := DirIdentity(tr.path("var/lib/vms/.ebb-vm-0")); err != nil || moved != id {
		t.Errorf("identity %s, before %s (%v)", moved, id, err)
	}
}

func TestDirsMissing(t *testing.T) {
	tr := newTree(t)
	tr.write("var/lib/.keep", "")
	if got := need(t, tr.scan(Config{Dirs: []fleet.DirRule{{Path: "/var/lib/vms", Kind: "x"}}}).Dirs); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	mustFail(t, tr.scan(Config{Dirs: []fleet.DirRule{{Path: "/mnt/none/vms", Kind: "x"}}}).Dirs, "/mnt/none/vms")
	tr.write("var/lib/vms", "a file")
	mustFail(t, tr.scan(Config{Dirs: []fleet.DirRule{{Path: "/var/lib/vms", Kind: "x"}}}).Dirs, "/var/lib/vms")
}

// script writes an executable that stands for a helper.
func (tr tree) script(name, body string) string {
	tr.write(name, "#!/bin/sh\n"+body)
	if err := os.Chmod(tr.path(name), 0o755); err != nil {
		tr.Fatal(err)
	}
	return tr.path(name)
}

const nvmlDoc = `{"driver":"550","devices":[{"uuid":"GPU-b","index":1,"name":"H100","util":-1},{"uuid":"GPU-a","index":0,"name":"H100","util":97,"holders":[51,4000],"errors":2}]}`

func TestGPUs(t *testing.T) {
	tr := newTree(t)
	if s := tr.scan(Config{}); s.GPUs.Status != fleet.NotApplicable || !strings.Contains(s.GPUs.Error, "proc/driver/nvidia") {
		t.Errorf("got %+v", s.GPUs)
	}
	tr.write("dev/nvidia0", "")
	tr.process(fake{pid: 50, exe: "/opt/fc", argv: []string{"fc", "--id", "vm0"}})
	tr.process(fake{pid: 51, ppid: 50, exe: "/opt/python"})
	good := tr.script("good", "echo '"+nvmlDoc+"'")
	smi := tr.script("smi", `[ "$*" = "-q -x" ] || exit 9
cat <<'END'
`+smiDoc+"\nEND\n")
	bad := map[string]string{
		"killed by NVML": tr.script("crash", "exit 127"),
		"no library":     tr.script("nolib", `echo '{"devices":null,"error":"no library"}'; exit 3`),
		"garbage":        tr.script("garbage", "echo hello"),
		"not installed":  tr.path("missing"),
		"half":           tr.script("half", `echo '{"devices":[{"uuid":'`),
	}
	s := tr.scan(Config{NVML: good, SMI: tr.path("none"), Workloads: sandboxes()})
	list := need(t, s.GPUs)
	if len(list) != 2 || list[0].UUID != "GPU-a" || list[0].Util != 97 || list[0].Errors != 2 || list[1].Util != 0 || s.GPUs.Source != "good" {
		t.Errorf("got %+v", s.GPUs)
	}
	want := []fleet.Run{byPID(t, s, 51).Run, {Boot: bootID, PID: 4000}}
	if !slices.Equal(list[0].Holders, want) {
		t.Errorf("holders %v, want %v", list[0].Holders, want)
	}
	if w := byKey(t, s, "sandbox", "vm0"); !slices.Equal(w.GPUs, []string{"GPU-a"}) {
		t.Errorf("the workload holds %v", w.GPUs)
	}
	for name, helper := range bad {
		s := tr.scan(Config{NVML: helper, SMI: smi})
		if list := need(t, s.GPUs); len(list) != 2 || !strings.HasSuffix(s.GPUs.Source, "-q -x") {
			t.Errorf("%s: %+v", name, s.GPUs)
		}
		mustFail(t, tr.scan(Config{NVML: helper, SMI: tr.path("none")}).GPUs, "none")
	}
	mustFail(t, tr.scan(Config{NVML: bad["no library"], SMI: bad["garbage"]}).GPUs, "no library", "garbage")
	if s := tr.scan(Config{SMI: smi}); len(need(t, s.GPUs)) != 2 {
		t.Errorf("without a helper: %+v", s.GPUs)
	}
}

// A helper that hangs is killed in time for nvidia-smi to answer; one whose
// child keeps the pipe open does not hold anything up either.
func TestGPUHelperHangs(t *testing.T) {
	tr := newTree(t)
	tr.write("proc/driver/nvidia/version", "")
	smi := tr.script("smi", "cat <<'END'\n"+smiDoc+"\nEND\n")
	hang := tr.script("hang", "exec sleep 60")
	p := tr.prober(Config{NVML: hang, SMI: smi, Timeout: 2 * time.Second})
	if s := p.Scan(context.Background(), now); len(need(t, s.GPUs)) != 2 {
		t.Errorf("got %+v", s.GPUs)
	}
	p = tr.prober(Config{SMI: hang, Timeout: 100 * time.Millisecond})
	s := p.Scan(context.Background(), now)
	mustFail(t, s.GPUs, "hang", "timed out")
	need(t, s.Processes)
}

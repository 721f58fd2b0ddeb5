package probes

import (
	"testing"

	"ebb/fleet"
)

func TestSystem(t *testing.T) {
	const session = "/user.slice/user-0.slice/session-3.scope"
	tr := newTree(t)
	for _, f := range []fake{
		{pid: 2, ppid: 0, comm: "kthreadd", flags: flagKernel},
		{pid: 3, ppid: 2, comm: "kworker/0:0", flags: flagKernel},
		{pid: 4, ppid: 2, exe: "/opt/child-of-2"}, // in a pid namespace process 2 is anybody
		{pid: 10, exe: "/usr/sbin/sshd", cgroup: "/system.slice/ssh.service"},
		{pid: 11, ppid: 10, exe: "/usr/sbin/sshd", cgroup: session},
		{pid: 12, ppid: 11, exe: "/usr/bin/bash", cgroup: session},
		{pid: 13, ppid: 12, exe: "/opt/tool", cgroup: session},
		{pid: 14, ppid: 1, exe: "/opt/left-running", cgroup: session},
		{pid: 15, ppid: 1, exe: "/opt/left-running", cgroup: "/system.slice/ssh.service"}, // without PAM it stays there
		{pid: 16, ppid: 12, comm: "zombie", state: "Z"},
		{pid: 20, exe: "/opt/app/sshd"},
		{pid: 21, ppid: 20, exe: "/bin/sh"},
		{pid: 22, exe: "/usr/sbin/sshd", pidns: 5}, // of a container
		{pid: 23, ppid: 22, exe: "/bin/sh", pidns: 5},
		{pid: 24, exe: "/usr/sbin/cron", cgroup: "/system.slice/docker-4f.scope"},
		{pid: 25, comm: "sshd"}, // its executable may not be read
		{pid: 30, exe: "/usr/sbin/cron"},
		{pid: 31, exe: "/opt/backup", cgroup: "/system.slice/cron.service"},
		{pid: 32, exe: "/usr/lib/systemd/systemd", cgroup: "/user.slice/user-0.slice/user@0.service/init.scope"},
		{pid: 33, exe: "/opt/mine", cgroup: "/user.slice/user-0.slice/user@0.service/app.slice/ssh.service"},
		{pid: 34, exe: "/opt/box", cgroup: "/system.slice/systemd-nspawn@b.service"},
		{pid: 35, exe: "/opt/box", cgroup: "/machine.slice/b.scope/system.slice/cron.service"},
		{pid: 36, exe: "/sbin/agetty", cgroup: "/system.slice/system-getty.slice/getty@tty1.service"},
		{pid: 40, exe: "/usr/bin/ebbd", argv: []string{"ebbd", "serve"}},
		{pid: 41, exe: "/usr/bin/ebbd", argv: []string{"ebbd", "--x", "dial-stdio", "--role", "cordon"}},
		{pid: 42, exe: "/usr/bin/ebbd", argv: []string{"ebbd", "workload"}},
	} {
		tr.process(f)
	}
	s := tr.scan(Config{Self: []string{"/usr/bin/ebbd"}})
	for pid, want := range map[int]string{
		1: "init", 2: "kernel", 3: "kernel", 4: "",
		10: "exe sshd", 11: "exe sshd", 12: "login", 13: "login", 14: "", 15: "", 16: "login",
		20: "", 21: "", 22: "", 23: "", 24: "", 25: "",
		30: "exe cron", 31: "unit cron.service", 32: "unit user@0.service/init.scope", 33: "", 34: "", 35: "", 36: "exe agetty",
		40: "agent", 41: "agent", 42: "",
	} {
		if p := byPID(t, s, pid); p.System != want {
			t.Errorf("%d %s: system %q, want %q", pid, p.Exe, p.System, want)
		}
	}
}

// In a light container process 1 is sshd: what was given to it is no login.
func TestSshdAsProcessOne(t *testing.T) {
	tr := newTree(t)
	tr.process(fake{pid: 1, exe: "/usr/sbin/sshd"})
	tr.process(fake{pid: 2, ppid: 1, exe: "/usr/sbin/sshd"})
	tr.process(fake{pid: 3, ppid: 2, exe: "/bin/bash"})
	tr.process(fake{pid: 4, ppid: 1, exe: "/opt/orphan"})
	s := tr.scan(Config{})
	for pid, want := range map[int]string{1: "init", 2: "exe sshd", 3: "login", 4: ""} {
		if p := byPID(t, s, pid); p.System != want {
			t.Errorf("%d: system %q, want %q", pid, p.System, want)
		}
	}
}

// A rule for workloads wins over the lists, but not over kernel and process 1.
func TestWorkloadsWinOverSystem(t *testing.T) {
	tr := newTree(t)
	rule := fleet.WorkloadRule{Kind: "x", ID: fleet.IDRule{After: "--id"}}
	tr.process(fake{pid: 1, exe: "/sbin/init", argv: []string{"init", "--id", "one"}})
	tr.process(fake{pid: 2, comm: "k", flags: flagKernel, argv: []string{"k", "--id", "two"}})
	tr.process(fake{pid: 10, exe: "/usr/sbin/cron", argv: []string{"cron", "--id", "ten"}, cgroup: "/system.slice/cron.service"})
	s := tr.scan(Config{Workloads: []fleet.WorkloadRule{rule}})
	if got := keys(s); len(got) != 1 || got[0] != "x/ten" {
		t.Errorf("workloads %v", got)
	}
	if p := byPID(t, s, 10); p.System != "" || p.Owner.ID != "ten" {
		t.Errorf("got %+v", p)
	}
}

func TestOwnSystemLists(t *testing.T) {
	tr := newTree(t)
	tr.process(fake{pid: 10, exe: "/opt/agents/collector"})
	tr.process(fake{pid: 11, exe: "/usr/bin/mon"})
	tr.process(fake{pid: 12, exe: "/opt/mon"})
	tr.process(fake{pid: 13, exe: "/x", cgroup: "/system.slice/site-agent.service"})
	tr.process(fake{pid: 14, exe: "/usr/sbin/cron"})
	s := tr.scan(Config{System: fleet.SystemRules{Units: []string{"site-*"}, Exes: []string{"/opt/agents/*", "mon"}}})
	for pid, want := range map[int]string{10: "exe collector", 11: "exe mon", 12: "", 13: "unit site-agent.service", 14: ""} {
		if p := byPID(t, s, pid); p.System != want {
			t.Errorf("%d: system %q, want %q", pid, p.System, want)
		}
	}
}

// Parents are read one after the other, so a table may hold a cycle.
func TestCycleOfParents(t *testing.T) {
	tr := newTree(t)
	tr.process(fake{pid: 10, ppid: 11, exe: "/opt/a"})
	tr.process(fake{pid: 11, ppid: 10, exe: "/opt/b"})
	tr.process(fake{pid: 12, ppid: 12, exe: "/opt/c"})
	if p := byPID(t, tr.scan(Config{Workloads: sandboxes()}), 11); p.System != "" {
		t.Errorf("system %q", p.System)
	}
}

// What the agent itself starts to look at the host is no workload.
func TestAgentsChildren(t *testing.T) {
	r := newSystemRules(fleet.SystemRules{}, nil, []string{"nvidia-smi", "ebbd-nvml"}, 100)
	for _, tt := range []struct {
		p    proc
		want bool
	}{
		{proc{stat: stat{pid: 101, ppid: 100}, details: details{exe: "/usr/bin/nvidia-smi"}}, true},
		{proc{stat: stat{pid: 101, ppid: 100, image: image{forked: true}}, details: details{exe: "/usr/bin/ebbd"}}, true},
		{proc{stat: stat{pid: 101, ppid: 100}, details: details{exe: "/opt/web-start"}}, false},
		{proc{stat: stat{pid: 101, ppid: 7}, details: details{exe: "/usr/bin/nvidia-smi"}}, false},
		{proc{stat: stat{pid: 101, ppid: 7, image: image{forked: true}}}, false},
	} {
		if got := r.agent(&tt.p); got != tt.want {
			t.Errorf("%+v: %v", tt.p, got)
		}
	}
}

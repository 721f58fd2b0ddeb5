package probes

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ebb/fleet"
)

// drawTable makes any table: parents may be missing, later, or form a cycle.
func drawTable(t *rapid.T) *table {
	n := rapid.IntRange(1, 14).Draw(t, "processes")
	tab := &table{boot: bootID, byPID: map[int]*proc{}, host: map[uint64]bool{hostNet: true}}
	ids := rapid.SampledFrom([]string{"", "", "a", "a-b", "b"})
	for pid := 1; pid <= n; pid++ {
		s := stat{pid: pid, ppid: rapid.IntRange(0, n+1).Draw(t, "parent"), session: rapid.IntRange(0, n).Draw(t, "session"),
			start: rapid.Uint64Range(1, 50).Draw(t, "start"), state: rapid.SampledFrom([]byte("SSSZ")).Draw(t, "state")}
		if rapid.IntRange(0, 5).Draw(t, "kernel") == 0 {
			s.flags = flagKernel
		}
		d := details{
			exe:    rapid.SampledFrom([]string{"/opt/fc", "/usr/sbin/sshd", "/opt/sshd", "/usr/sbin/cron"}).Draw(t, "exe"),
			cgroup: rapid.SampledFrom([]string{"/", "/system.slice/cron.service", "/system.slice/web.service", "/system.slice/web.service/x", "/user.slice/session-1.scope"}).Draw(t, "cgroup"),
			netns:  rapid.SampledFrom([]uint64{hostNet, 71, 72}).Draw(t, "netns"),
		}
		if id := ids.Draw(t, "id"); id != "" {
			d.argv = []string{"fc", "--id", id}
		}
		tab.add(cached{stat: s, details: d, mine: true})
	}
	for _, p := range tab.procs {
		p.unit, p.unitPath = unitOf(p.cgroup, "")
	}
	return tab
}

// Whatever the table: a process is a workload's, the host's own, or nobody's,
// never two of these; workloads and processes agree on who belongs to whom; and
// nothing that a rule names is taken for the host's.
func TestAttribution(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			table: drawTable(t), rules: sandboxes(), units: rapid.Bool().Draw(t, "units"),
			system: newSystemRules(fleet.SystemRules{}, nil, nil, 0),
			netns:  []nsEntry{{name: "ns-a", inode: 71}, {name: "ns-a-b", inode: 72}},
			keep:   []fleet.KeepRule{{Kind: "sandbox", ID: "b"}},
		}
		if err := w.attribute(); err != nil {
			t.Fatal(err)
		}
		members := make(map[string]int)
		for _, k := range w.workloads {
			v := k.value(nil)
			if len(v.Runs) == 0 || v.Runs[0] != v.Run || v.Phase != fleet.Running {
				t.Fatalf("%v: main %v, runs %v, %s", v.Key, v.Run, v.Runs, v.Phase)
			}
			for _, run := range v.Runs {
				members[fmt.Sprint(v.Key, run)]++
				if p := w.table.byPID[run.PID]; p.Owner != v.Key || p.Kept != v.Kept {
					t.Fatalf("process %d of %v belongs to %v", run.PID, v.Key, p.Owner)
				}
			}
		}
		for _, p := range w.table.procs {
			if !p.Owner.IsZero() && (p.System != "" || members[fmt.Sprint(p.Owner, p.Run)] != 1) {
				t.Fatalf("process %d: owner %v, system %q, listed %d times", p.pid, p.Owner, p.System, members[fmt.Sprint(p.Owner, p.Run)])
			}
			if (p.kernel() || p.pid == 1) != slices.Contains([]string{"kernel", "init"}, p.System) {
				t.Fatalf("process %d: system %q", p.pid, p.System)
			}
			if p.System == "" && !p.zombie() && len(p.argv) > 0 && p.Owner != (fleet.Key{Kind: "sandbox", ID: p.argv[2]}) {
				t.Fatalf("process %d says --id %s and belongs to %v", p.pid, p.argv[2], p.Owner)
			}
			if p.System != "" && p.exe == "/opt/sshd" && p.System != "login" && p.unit != "cron.service" && !p.kernel() && p.pid != 1 {
				t.Fatalf("process %d is the host's own by a name: %q", p.pid, p.System)
			}
		}
	})
}

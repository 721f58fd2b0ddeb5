package probes

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"ebb/fleet"
)

// systemDirs is where the host's own executables live. A workload that calls
// itself sshd lives elsewhere.
var systemDirs = []string{"/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/", "/lib/systemd/", "/usr/lib/", "/usr/libexec/"}

// gateExes let people in; what descends from them is a login.
var gateExes = []string{"sshd", "sshd-session", "dropbear", "login", "agetty", "getty", "mgetty"}

// gateUnits hold both the daemon that lets people in and, where PAM does not
// move them out, whatever people left running. So belonging to such a unit
// makes nothing the host's own.
var gateUnits = []string{"ssh.service", "sshd.service", "ssh@*.service", "sshd@*.service", "dropbear.service",
	"getty@*.service", "serial-getty@*.service", "console-getty.service", "container-getty@*.service", "session-*.scope"}

// userUnits are the units of a user's own manager that count as the host's.
// Only these: a user may name a unit as they like.
var userUnits = []string{"init.scope", "dbus.service", "dbus-broker.service"}

// agentVerbs are the commands of the agent's executable that are the agent. The
// same file may also be what a demo's workloads run.
var agentVerbs = []string{"serve", "dial-stdio", "admit", "facts"}

type systemRules struct {
	fleet.SystemRules
	self    []string
	helpers []string
	pid     int
}

func newSystemRules(r fleet.SystemRules, self, helpers []string, pid int) systemRules {
	def := fleet.DefaultSystem()
	if r.Units == nil {
		r.Units = def.Units
	}
	if r.Exes == nil {
		r.Exes = def.Exes
	}
	if r.Loops == nil {
		r.Loops = def.Loops
	}
	return systemRules{SystemRules: r, self: self, helpers: helpers, pid: pid}
}

// fixed are the processes that are the host's own whatever rules say. The
// kernel's flag decides, not "child of process 2": inside a pid namespace
// process 2 is anybody.
func (r systemRules) fixed(p *proc) string {
	switch {
	case p.kernel():
		return "kernel"
	case p.pid == 1:
		return "init"
	case r.pid != 0 && p.pid == r.pid:
		return "agent"
	}
	return ""
}

// why says why a process that belongs to no workload is the host's own; empty
// if it is not.
func (r systemRules) why(p *proc, t *table) string {
	if why := r.fixed(p); why != "" {
		return why
	}
	if r.agent(p) {
		return "agent"
	}
	if r.unit(p.unit) {
		return "unit " + p.unit
	}
	if name := r.exe(p, t); name != "" {
		return "exe " + name
	}
	if r.login(p, t) {
		return "login"
	}
	return ""
}

// agent reports whether a process is the agent, or what the agent runs to look
// at the host: a child that has not yet executed anything, or a helper.
func (r systemRules) agent(p *proc) bool {
	if r.pid != 0 && p.ppid == r.pid && (p.image.forked || slices.Contains(r.helpers, filepath.Base(p.exe))) {
		return true
	}
	return slices.Contains(r.self, p.exe) && slices.ContainsFunc(p.argv, func(arg string) bool {
		return slices.Contains(agentVerbs, arg)
	})
}

// unit reports whether everything in a unit is the host's own.
func (r systemRules) unit(unit string) bool {
	if unit == "" || matchUnit(gateUnits, unit) {
		return false
	}
	if _, nested, ok := strings.Cut(unit, "/"); ok {
		return matchUnit(userUnits, nested)
	}
	return matchUnit(r.Units, unit)
}

// exe returns the base name of an executable that is the host's own. It must
// lie where the host keeps them, run in the host's own pid namespace, and not
// be in a unit that is somebody's: a container has an /usr/sbin/sshd too. A
// rule with a slash names a path instead.
func (r systemRules) exe(p *proc, t *table) string {
	if p.exe == "" || p.unit != "" && !matchUnit(gateUnits, p.unit) {
		return ""
	}
	if p.pidns != t.pidns {
		return ""
	}
	base := filepath.Base(p.exe)
	for _, glob := range r.Exes {
		if strings.Contains(glob, "/") {
			if ok, _ := path.Match(glob, p.exe); ok {
				return base
			}
		} else if ok, _ := path.Match(glob, base); ok && trusted(p.exe) {
			return base
		}
	}
	return ""
}

func trusted(exe string) bool {
	return slices.ContainsFunc(systemDirs, func(dir string) bool { return strings.HasPrefix(exe, dir) })
}

// login reports whether a process descends from one that lets people in. What
// they left running has been given to process 1 and is nobody's login any more.
// Process 1 itself is no gate, though in a container it may be sshd.
func (r systemRules) login(p *proc, t *table) bool {
	for hops := 0; hops < maxHops; hops++ {
		parent := t.byPID[p.ppid]
		if parent == nil || parent.pid == 1 || parent == p {
			return false
		}
		if slices.Contains(gateExes, filepath.Base(parent.exe)) && r.exe(parent, t) != "" {
			return true
		}
		p = parent
	}
	return false
}

// maxHops bounds walks to the root: parents are read one after the other, so
// that a table may hold a cycle that never existed.
const maxHops = 1 << 12

// matchUnit compares with and without ".service", as people write units.
func matchUnit(globs []string, unit string) bool {
	short := strings.TrimSuffix(unit, ".service")
	return slices.ContainsFunc(globs, func(glob string) bool {
		whole, _ := path.Match(glob, unit)
		bare, _ := path.Match(glob, short)
		return whole || bare
	})
}

// matchGlob reports which glob matches a name.
func matchGlob(globs []string, name string) (string, bool) {
	for _, glob := range globs {
		if ok, _ := path.Match(glob, name); ok {
			return glob, true
		}
	}
	return "", false
}

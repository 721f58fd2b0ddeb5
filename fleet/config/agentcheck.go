package config

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ebb/fleet"
)

// The file as it is written, before it is known to mean something.
type rawAgent struct {
	Preset    []string      `toml:"preset"`
	Workload  []rawWorkload `toml:"workload"`
	Command   []rawCommand  `toml:"command"`
	Keep      []rawKeep     `toml:"keep"`
	System    rawSystem     `toml:"system"`
	Dir       []rawDir      `toml:"dir"`
	Manifests []string      `toml:"manifests"`
	Caps      Caps          `toml:"caps"`
	Offer     fleet.Offer   `toml:"offer"`
	Roles     map[string]struct {
		Group string `toml:"group"`
		Mode  string `toml:"mode"`
	} `toml:"roles"`
	StateDir   string   `toml:"state_dir"`
	RunDir     string   `toml:"run_dir"`
	HostKeys   []string `toml:"host_keys"`
	NVML       string   `toml:"nvml"`
	LoopPrefix string   `toml:"loop_prefix"`
	CleanGap   string   `toml:"clean_gap"`
}

type rawWorkload struct {
	Name  string `toml:"name"`
	Kind  string `toml:"kind"`
	Exe   string `toml:"exe"`
	Token string `toml:"token"`
	ID    struct {
		After  string `toml:"after"`
		Prefix string `toml:"prefix"`
		Cgroup string `toml:"cgroup"`
		Env    string `toml:"env"`
	} `toml:"id"`
	Owns   map[string]string `toml:"owns"`
	Class  string            `toml:"class"`
	Owner  string            `toml:"owner"`
	Labels map[string]string `toml:"labels"`
	Grace  string            `toml:"grace"`
	Start  string            `toml:"start"`
	Health string            `toml:"health"`
	Stop   string            `toml:"stop"`
	Needs  fleet.Needs       `toml:"needs"`
}

type rawCommand struct {
	Name    string   `toml:"name"`
	Run     []string `toml:"run"`
	Timeout string   `toml:"timeout"`
	User    string   `toml:"user"`
}

type rawKeep struct {
	Kind string `toml:"kind"`
	ID   string `toml:"id"`
	Exe  string `toml:"exe"`
	Unit string `toml:"unit"`
}

type rawSystem struct {
	Units   []string `toml:"units"`
	Exes    []string `toml:"exes"`
	Netns   []string `toml:"netns"`
	Loops   []string `toml:"loops"`
	Replace bool     `toml:"replace"`
}

type rawDir struct {
	Path   string `toml:"path"`
	Kind   string `toml:"kind"`
	Prefix string `toml:"prefix"`
}

func (s *source) agent(raw rawAgent) (Agent, error) {
	a := DefaultAgent()
	a.Path, a.Presets, a.NVML, a.LoopPrefix = s.file, raw.Preset, raw.NVML, raw.LoopPrefix
	for i, p := range raw.Preset {
		s.oneOf(fmt.Sprintf("preset[%d]", i), p, presets)
	}
	a.Commands = s.commands(raw.Command)
	for i, w := range raw.Workload {
		a.Workloads = append(a.Workloads, s.workload(fmt.Sprintf("workload[%d]", i), w, a.Commands))
	}
	a.Keep = s.keeps(raw.Keep)
	a.System = s.system(raw.System, a.System)
	for i, d := range raw.Dir {
		at := fmt.Sprintf("dir[%d]", i)
		s.absolute(at+".path", d.Path)
		s.glob(at+".path", d.Path)
		s.kind(at+".kind", d.Kind)
		a.Dirs = append(a.Dirs, fleet.DirRule(d))
	}
	a.Manifests = raw.Manifests
	for i, m := range raw.Manifests {
		s.absolute(fmt.Sprintf("manifests[%d]", i), m)
	}
	if slices.Contains(raw.Preset, "manifest") && len(raw.Manifests) == 0 {
		s.add("preset", "\"manifest\" needs manifests = [DIRECTORY…]")
	}
	a.Caps = s.caps(raw.Caps)
	a.Offer = s.offer(raw.Offer)
	s.roles(raw, &a)
	s.paths(raw, &a)
	a.CleanGap = s.duration("clean_gap", raw.CleanGap, a.CleanGap)
	if err := s.failed(); err != nil {
		return Agent{}, err
	}
	return a, nil
}

func (s *source) commands(raw []rawCommand) map[string]Command {
	seen, out := map[string]bool{}, make(map[string]Command, len(raw))
	for i, c := range raw {
		at := fmt.Sprintf("command[%d]", i)
		if s.word(at+".name", c.Name, "a command's name") {
			s.unique(seen, at+".name", c.Name, "command")
		}
		if len(c.Run) == 0 {
			s.add(at+".run", "is missing: an absolute path and its arguments")
		} else {
			s.absolute(at+".run[0]", c.Run[0])
		}
		for j, arg := range c.Run {
			if strings.Contains(arg, "{id}") || strings.Contains(arg, "{kind}") {
				s.add(fmt.Sprintf("%s.run[%d]", at, j), "nothing is filled in here; the command finds EBB_KIND and EBB_ID in its environment")
			}
		}
		out[c.Name] = Command{Run: c.Run, Timeout: s.duration(at+".timeout", c.Timeout, time.Minute), User: c.User}
	}
	return out
}

// resources are kinds of things; a workload of the same kind would share keys
// with them.
var resources = []string{"netns", "tap", "dir", "loop"}

func (s *source) kind(path, kind string) {
	if s.word(path, kind, "the kind of workload") && slices.Contains(append(resources, "process", "gpu", "probe"), kind) {
		s.add(path, "%q is not a kind of workload", kind)
	}
}

func (s *source) workload(at string, r rawWorkload, commands map[string]Command) fleet.WorkloadRule {
	w := fleet.WorkloadRule{
		Name: r.Name, Kind: r.Kind, Exe: r.Exe, Token: r.Token, ID: fleet.IDRule(r.ID), Owns: r.Owns,
		Class: fleet.Class(r.Class), Owner: r.Owner, Labels: r.Labels,
		Grace: s.duration(at+".grace", r.Grace, 0), Start: r.Start, Health: r.Health, Stop: r.Stop, Needs: r.Needs,
	}
	s.kind(at+".kind", r.Kind)
	if strings.Contains(r.Exe, "/") {
		s.add(at+".exe", "%q: want the base name of the executable", r.Exe)
	}
	set := 0
	for _, v := range []string{r.ID.After, r.ID.Prefix, r.ID.Cgroup, r.ID.Env} {
		if v != "" {
			set++
		}
	}
	if set != 1 {
		s.add(at+".id", "want exactly one of after, prefix, cgroup, env")
	}
	if r.Exe == "" && r.Token == "" && r.ID.Cgroup == "" {
		s.add(at, "matches every process: name an exe, a token or a cgroup")
	}
	if r.Class != "" {
		s.oneOf(at+".class", r.Class, classNames)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Owns)) {
		path := at + ".owns." + kind
		s.oneOf(path, kind, resources)
		if s.placeholders(path, r.Owns[kind], "{id}") == 0 {
			s.add(path, "%q has no {id}: every workload would own the same", r.Owns[kind])
		}
		if kind == "dir" || kind == "loop" {
			s.absolute(path, r.Owns[kind])
		}
	}
	for _, c := range []struct{ key, name string }{{".start", r.Start}, {".health", r.Health}, {".stop", r.Stop}} {
		if _, ok := commands[c.name]; c.name != "" && !ok {
			s.add(at+c.key, "there is no [[command]] %q", c.name)
		}
	}
	return w
}

func (s *source) keeps(raw []rawKeep) []fleet.KeepRule {
	var out []fleet.KeepRule
	for i, k := range raw {
		at := fmt.Sprintf("keep[%d]", i)
		if k == (rawKeep{}) {
			s.add(at, "would keep everything: name a kind, id, exe or unit")
		}
		if k.ID != "" && k.Kind == "" {
			s.add(at+".id", "without a kind")
		}
		s.glob(at+".id", k.ID)
		s.glob(at+".exe", k.Exe)
		s.glob(at+".unit", k.Unit)
		out = append(out, fleet.KeepRule(k))
	}
	return out
}

func (s *source) system(r rawSystem, defaults fleet.SystemRules) fleet.SystemRules {
	for _, l := range []struct {
		key   string
		globs []string
	}{{"units", r.Units}, {"exes", r.Exes}, {"netns", r.Netns}, {"loops", r.Loops}} {
		s.globs("system."+l.key, l.globs)
		for i, g := range l.globs {
			if strings.Trim(g, "*") == "" && g != "" {
				s.add(fmt.Sprintf("system.%s[%d]", l.key, i), "%q would hide everything", g)
			}
		}
	}
	own := fleet.SystemRules{Units: r.Units, Exes: r.Exes, Netns: r.Netns, Loops: r.Loops}
	if r.Replace {
		// Empty, not nil: a list that was replaced by nothing is not to be made up for.
		for _, l := range []*[]string{&own.Units, &own.Exes, &own.Netns, &own.Loops} {
			*l = append([]string{}, *l...)
		}
		return own
	}
	return fleet.SystemRules{
		Units: append(defaults.Units, own.Units...), Exes: append(defaults.Exes, own.Exes...),
		Netns: append(defaults.Netns, own.Netns...), Loops: append(defaults.Loops, own.Loops...),
	}
}

func (s *source) caps(c Caps) Caps {
	for key, n := range map[string]int{"claim": c.Claim, "move_in": c.MoveIn, "total": c.Total} {
		if n < 0 {
			s.add("caps."+key, "%d: want 0 (no bound) or more", n)
		}
	}
	for kind, n := range c.Kind {
		if n < 1 {
			s.add("caps.kind."+kind, "%d: want at least 1", n)
		}
	}
	return c
}

func (s *source) roles(raw rawAgent, a *Agent) {
	for name, r := range raw.Roles {
		at := "roles." + name
		s.oneOf(at, name, roles)
		mode, err := strconv.ParseUint(r.Mode, 8, 32)
		switch {
		case r.Mode == "":
			mode = 0o660
		case err != nil || mode&^0o777 != 0 || mode == 0:
			s.add(at+".mode", "%q is not a file mode (as in \"0660\")", r.Mode)
		case mode&0o007 != 0 && (name == "operate" || name == "terminate"):
			s.add(at+".mode", "%q would let anyone %s", r.Mode, name)
		}
		a.Roles[name] = Access{Group: r.Group, Mode: fs.FileMode(mode)}
	}
}

func (s *source) paths(raw rawAgent, a *Agent) {
	for _, p := range []struct {
		key, value string
		to         *string
	}{
		{"state_dir", raw.StateDir, &a.StateDir}, {"run_dir", raw.RunDir, &a.RunDir},
		{"nvml", raw.NVML, &a.NVML}, {"loop_prefix", raw.LoopPrefix, &a.LoopPrefix},
	} {
		if p.value != "" {
			s.absolute(p.key, p.value)
			*p.to = filepath.Clean(p.value)
		}
	}
	if len(raw.HostKeys) > 0 {
		a.HostKeys = raw.HostKeys
	}
	for i, g := range raw.HostKeys {
		at := fmt.Sprintf("host_keys[%d]", i)
		s.absolute(at, g)
		s.glob(at, g)
	}
}

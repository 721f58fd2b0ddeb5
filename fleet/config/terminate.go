package config

import (
	"fmt"
	"strings"

	"ebb/fleet"
)

// Terminate says how a host ends: by a command beside the console, by powering
// off, or by releasing it, which only records who took it. Type is empty where
// the file names no terminator.
type Terminate struct {
	Type string // "command", "poweroff", "release"
	Run  []string
}

var terminatePlaceholders = []string{"{instance}", "{host}", "{id}", "{pool}"}

func (s *source) terminate(kind string, run []string) Terminate {
	t := Terminate{Type: kind, Run: run}
	if kind == "" && len(run) > 0 {
		t.Type = "command"
	}
	if kind != "" {
		s.oneOf("terminate.type", kind, []string{"command", "poweroff", "release"})
	}
	if t.Type != "command" {
		if len(run) > 0 && kind != "" {
			s.add("terminate.run", "a terminator of type %s runs nothing", kind)
		}
		return t
	}
	if len(run) == 0 || run[0] == "" {
		s.add("terminate.run", "is missing: the command and its arguments")
		return t
	}
	named := 0
	for i, arg := range run {
		at := fmt.Sprintf("terminate.run[%d]", i)
		n := s.placeholders(at, arg, terminatePlaceholders...)
		if i == 0 && n > 0 {
			s.add(at, "the command itself can't be a placeholder")
		}
		named += n
	}
	if named == 0 {
		s.add("terminate.run", "names no host: use {instance}, or {id} where the provider has no other")
	}
	return t
}

// Argv fills in the placeholders for one host. It refuses where one has nothing
// to stand for, and values that the command could take for an option.
func (t Terminate) Argv(h fleet.Host) ([]string, error) {
	values := map[string]string{
		"{instance}": h.Instance, "{host}": string(h.ID), "{id}": h.ID.Name(), "{pool}": h.Pool(),
	}
	argv := make([]string, len(t.Run))
	for i, arg := range t.Run {
		var bad error
		argv[i] = placeholder().ReplaceAllStringFunc(arg, func(name string) string {
			v, known := values[name]
			switch {
			case !known:
				bad = fmt.Errorf("terminate %s: placeholder %s is not known", h.ID, name)
			case v == "":
				bad = fmt.Errorf("terminate %s: there is no value for %s", h.ID, name)
			case strings.HasPrefix(v, "-") && strings.HasPrefix(arg, name), strings.ContainsAny(v, "\x00\n"):
				bad = fmt.Errorf("terminate %s: %s is %q, which can't be an argument", h.ID, name, v)
			}
			return v
		})
		if bad != nil {
			return nil, bad
		}
	}
	return argv, nil
}

package probes

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ebb/fleet"
)

// firecrackerRule is the preset "firecracker": a microVM with the id that its
// jailer gave it, and the resources named after it as its examples name them.
func firecrackerRule() fleet.WorkloadRule {
	return fleet.WorkloadRule{
		Name: PresetFirecracker, Kind: "sandbox", Exe: "firecracker", ID: fleet.IDRule{After: "--id"},
		Owns: map[string]string{"netns": "ns-{id}", "tap": "tap-{id}"},
	}
}

// dockerRules are the preset "docker": a container is what is in its cgroup,
// which is a scope where systemd keeps the tree, and docker/ID where it doesn't.
func dockerRules() []fleet.WorkloadRule {
	return []fleet.WorkloadRule{
		{Name: PresetDocker, Kind: "container", ID: fleet.IDRule{Cgroup: "docker-"}},
		{Name: PresetDocker, Kind: "container", ID: fleet.IDRule{Cgroup: "docker/"}},
	}
}

// checkPresets refuses a preset that is not known here: what it was to find
// would go unnoticed.
func checkPresets(presets []string) error {
	for _, p := range presets {
		switch p {
		case PresetManifest, PresetFirecracker, PresetSystemd, PresetDocker:
		default:
			return fmt.Errorf("preset %q is not known", p)
		}
	}
	return nil
}

// checkRules says what is wrong with rules that can't be followed.
func checkRules(rules []fleet.WorkloadRule) error {
	for i, r := range rules {
		name := cmp.Or(r.Name, fmt.Sprintf("%d (%s)", i+1, r.Kind))
		set := 0
		for _, s := range []string{r.ID.After, r.ID.Prefix, r.ID.Cgroup, r.ID.Env} {
			if s != "" {
				set++
			}
		}
		switch {
		case r.Kind == "" || strings.Contains(r.Kind, "/"):
			return fmt.Errorf("workload rule %s: kind %q", name, r.Kind)
		case set != 1:
			return fmt.Errorf("workload rule %s: says in %d ways where the id stands, want one", name, set)
		}
	}
	return nil
}

// envNames are the environment variables that rules name.
func envNames(rules []fleet.WorkloadRule) map[string]bool {
	names := make(map[string]bool)
	for _, r := range rules {
		if r.ID.Env != "" {
			names[r.ID.Env] = true
		}
	}
	return names
}

// recognise returns the first rule that a process fits, and the id it has by it.
func recognise(rules []fleet.WorkloadRule, p *proc) (rule *fleet.WorkloadRule, id string, err error) {
	for i := range rules {
		r := &rules[i]
		if !fits(r, p) {
			continue
		}
		id, err := idOf(r.ID, p)
		if err != nil {
			return nil, "", err
		}
		if id != "" {
			return r, id, nil
		}
	}
	return nil, "", nil
}

func fits(r *fleet.WorkloadRule, p *proc) bool {
	if r.Exe != "" && filepath.Base(p.exe) != r.Exe && (len(p.argv) == 0 || filepath.Base(p.argv[0]) != r.Exe) {
		return false
	}
	return r.Token == "" || slices.Contains(p.argv, r.Token)
}

// idOf finds the id of a process that fits a rule. Tokens are whole: an id is
// never cut out of a longer one.
func idOf(r fleet.IDRule, p *proc) (string, error) {
	switch {
	case r.After != "":
		return argAfter(p.argv, r.After), nil
	case r.Prefix != "":
		return argPrefixed(p.argv, r.Prefix), nil
	case r.Cgroup != "":
		return elementPrefixed(p.cgroup, r.Cgroup), nil
	case p.envErr != nil:
		return "", fmt.Errorf("process %d: environment: %w", p.pid, p.envErr)
	default:
		return p.env[r.Env], nil
	}
}

// argAfter takes the value of an option, as "--id X" or "--id=X". What follows
// it and is itself an option is no value.
func argAfter(argv []string, option string) string {
	for i, arg := range argv {
		if arg == option && i+1 < len(argv) && !strings.HasPrefix(argv[i+1], "-") {
			return argv[i+1]
		}
		if value, ok := strings.CutPrefix(arg, option+"="); ok && value != "" {
			return value
		}
	}
	return ""
}

func argPrefixed(argv []string, prefix string) string {
	for _, arg := range argv {
		if rest, ok := strings.CutPrefix(arg, prefix); ok && rest != "" {
			return rest
		}
	}
	return ""
}

// elementPrefixed takes what follows a prefix that stands at the beginning of a
// path element, to the element's end. The prefix may span elements: "docker/".
func elementPrefixed(cgroup, prefix string) string {
	for i := strings.IndexByte(cgroup, '/'); i >= 0; {
		rest, ok := strings.CutPrefix(cgroup[i+1:], prefix)
		id, _, _ := strings.Cut(rest, "/")
		id = strings.TrimSuffix(strings.TrimSuffix(id, ".scope"), ".service")
		if ok && id != "" {
			return id
		}
		next := strings.IndexByte(cgroup[i+1:], '/')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return ""
}

// owned expands the templates of what a workload owns, in order.
func owned(templates map[string]string, id string) []fleet.Key {
	var keys []fleet.Key
	for kind, template := range templates {
		keys = append(keys, fleet.Key{Kind: kind, ID: strings.ReplaceAll(template, "{id}", id)})
	}
	slices.SortFunc(keys, fleet.Key.Compare)
	return keys
}

// reverse reads a name backwards through a template: whose would it be? The
// whole name must fit, and the id comes out the same wherever it stands.
func reverse(template, name string) (id string, ok bool) {
	before, rest, found := strings.Cut(template, "{id}")
	if !found {
		return "", false
	}
	after, _, more := strings.Cut(rest, "{id}")
	id, ok = strings.CutPrefix(name, before)
	if !ok {
		return "", false
	}
	if !more {
		id, ok = strings.CutSuffix(id, after)
		return id, ok && id != ""
	}
	// With the id in two places, its end is where expanding gives the name.
	for end := 1; end <= len(id); end++ {
		if strings.ReplaceAll(template, "{id}", id[:end]) == name {
			return id[:end], true
		}
	}
	return "", false
}

// ownerByTemplate finds whose a resource would be by the rules, whether that
// workload runs or not. Of several templates that fit, the one that says most
// counts.
func ownerByTemplate(rules []fleet.WorkloadRule, kind, name string) fleet.Key {
	var owner fleet.Key
	best := -1
	for _, r := range rules {
		id, ok := reverse(r.Owns[kind], name)
		if literal := len(r.Owns[kind]); ok && literal > best {
			owner, best = fleet.Key{Kind: r.Kind, ID: id}, literal
		}
	}
	return owner
}

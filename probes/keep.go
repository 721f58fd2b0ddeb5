package probes

import (
	"path/filepath"
	"strings"

	"ebb/fleet"
)

// applyKeep marks what may stay: workloads with all their processes, and
// processes that no rule recognises.
func (w *world) applyKeep() {
	for _, k := range w.workloads {
		k.Kept = keptWorkload(w.keep, k)
	}
	for _, p := range w.table.procs {
		if k := w.workloads[p.Owner]; k != nil {
			p.Kept = k.Kept
		} else if p.System == "" {
			p.Kept = keptProcess(w.keep, p)
		}
	}
}

// keptWorkload returns the rule that keeps a workload; all fields that a rule
// sets must fit.
func keptWorkload(rules []fleet.KeepRule, k *work) string {
	for _, r := range rules {
		fits := r != fleet.KeepRule{}
		fits = fits && (r.Kind == "" || r.Kind == k.Key.Kind)
		fits = fits && (r.ID == "" || globs(r.ID, k.Key.ID))
		fits = fits && (r.Unit == "" || k.main != nil && matchUnit([]string{r.Unit}, k.main.unit))
		fits = fits && (r.Exe == "" || k.Rule == PresetSystemd && k.main != nil && keepsExe(r.Exe, k.main.exe))
		if fits {
			return keepName(r)
		}
	}
	return ""
}

func keptProcess(rules []fleet.KeepRule, p *proc) string {
	for _, r := range rules {
		if r.Kind != "" || r.ID != "" || r.Exe == "" && r.Unit == "" {
			continue
		}
		if (r.Unit == "" || matchUnit([]string{r.Unit}, p.unit)) && (r.Exe == "" || keepsExe(r.Exe, p.exe)) {
			return keepName(r)
		}
	}
	return ""
}

// keepsExe compares base names, or paths where the rule has a slash.
func keepsExe(rule, exe string) bool {
	if exe == "" {
		return false
	}
	if strings.Contains(rule, "/") {
		return globs(rule, exe)
	}
	return globs(rule, filepath.Base(exe))
}

func globs(glob, name string) bool {
	_, ok := matchGlob([]string{glob}, name)
	return ok
}

// keepName shows a rule as one would say it.
func keepName(r fleet.KeepRule) string {
	var words []string
	for _, f := range [][2]string{{"kind", r.Kind}, {"id", r.ID}, {"exe", r.Exe}, {"unit", r.Unit}} {
		if f[1] != "" {
			words = append(words, f[0]+" "+f[1])
		}
	}
	return strings.Join(words, " ")
}

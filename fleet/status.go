package fleet

import "strings"

// phases are the words by which control planes call what a workload does.
var phases = map[string]Phase{
	"running": Running, "starting": Running, "active": Running, "pending": Running, "creating": Running,
	"ready": Running, "resuming": Running, "stopping": Running, "terminating": Running, "draining": Running,
	"hibernated": AtRest, "archived": AtRest, "stopped": AtRest, "paused": AtRest, "suspended": AtRest,
	"sleeping": AtRest, "at_rest": AtRest,
	"gone": Gone, "deleted": Gone, "terminated": Gone, "failed": Gone, "completed": Gone, "finished": Gone,
	"expired": Gone, "destroyed": Gone,
}

// PhaseOf turns a plane's own word into a phase, whatever its case. A word that
// nobody knows is taken as running: of the three that is the one on which
// nothing is removed. ok reports whether the word was known.
func PhaseOf(status string) (phase Phase, ok bool) {
	phase, ok = phases[strings.ToLower(strings.TrimSpace(status))]
	if !ok {
		return Running, false
	}
	return phase, true
}

package words

import (
	"fmt"
	"strings"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// The names under which a theme keeps the sign and the style of a state. They
// are those of package themes; a test keeps them equal.
const (
	stServing     = "serving"
	stCordoned    = "cordoned"
	stCordoning   = "cordoning"
	stDraining    = "draining"
	stEmpty       = "empty"
	stUnreachable = "unreachable"
	stLost        = "lost"
	stNeedsYou    = "needs-you"
	stHostOnly    = "host-only"
	stPlaneOnly   = "plane-only"
	stTerminated  = "terminated"
)

// State says what a host is doing: role names its sign and style, word is
// written beside it. The first that holds wins: a host that was terminated is not
// looked for, and an unreachable one is that and nothing else, since all else is
// only what was last known. s is the host's newest drain, or nil.
func State(v *fleet.HostView, s *drain.State) (role, word string) {
	holds, _, known := v.Holds()
	switch {
	case Terminated(v, s) != "":
		return stTerminated, "terminated"
	case Terminating(s) != "":
		return stTerminated, "terminating"
	case !v.Unreachable.IsZero():
		return stUnreachable, "unreachable"
	case !known:
		return "", "not read yet"
	}
	if s != nil && s.Drain != "" && !s.Undone {
		if role, word := drainState(*s); role != "" {
			return role, word
		}
	}
	if holds.Drain != nil {
		return stDraining, "drain elsewhere"
	}
	return cordonState(v, holds)
}

// AfterEmpty is the way from an empty host to its end, by the keys of the console.
const AfterEmpty = "the gate (4) verifies and terminates"

// OnGate answers a key of that way where it does not work yet.
func OnGate(key string) string { return key + " works on the gate: 4" }

// Terminated says when a host was terminated, and by whom; "" for one that was
// not. A machine that took its name since, and answers, is another one.
func Terminated(v *fleet.HostView, s *drain.State) string {
	if s == nil || s.Terminated.IsZero() {
		return ""
	}
	if f := &v.Facts; f.Status == fleet.OK && f.Value.Machine != "" && s.Machine != "" && f.Value.Machine != s.Machine {
		return ""
	}
	return join(" by ", "terminated "+HM(s.Terminated), nameOf(s.TerminatedBy))
}

// Terminating says since when a host is being terminated, and by whom: an intent
// without an outcome. That nobody can reach it is what was to be expected. "" where
// none is.
func Terminating(s *drain.State) string {
	if s == nil || s.Terminating.At.IsZero() || !s.Terminated.IsZero() {
		return ""
	}
	return join(" by ", "terminating since "+HMS(s.Terminating.At), nameOf(s.Terminating.By))
}

// TerminateLimit is how long a terminator may take before somebody has to look.
const TerminateLimit = 15 * time.Minute

// StuckTerminating reports whether a terminate has had no outcome for too long:
// nobody runs it again, so a person decides.
func StuckTerminating(s *drain.State, clock time.Time) bool {
	return Terminating(s) != "" && clock.Sub(s.Terminating.At) > TerminateLimit
}

// StillLeft is how many of a drain's workloads have still to leave, of all, wherever it
// is said. Before the first look at the host nothing is counted.
func StillLeft(s drain.State) string {
	if !s.First {
		return "not counted yet"
	}
	c := s.Count()
	return fmt.Sprintf("%d/%d left", c.Left, c.Total)
}

func drainState(s drain.State) (role, word string) {
	c := s.Count()
	lost := 0
	for _, l := range s.Lost {
		if _, ok := s.Accepted[l.Key]; !ok {
			lost++
		}
	}
	switch {
	case s.Person || s.NeedsPerson():
		return stNeedsYou, "needs you"
	case s.Phase == drain.DeadlineReached:
		return stNeedsYou, "deadline"
	case s.Phase == drain.Stopped:
		return stCordoned, "drain stopped"
	case lost > 0 && c.Left == 0:
		return stLost, "lost"
	case s.Phase == drain.Empty:
		return stEmpty, "empty"
	case s.Phase == drain.Parked:
		return stCordoned, "parked"
	case s.Phase == drain.Verifying:
		return stDraining, "verifying"
	case s.Phase == drain.Planned, s.Phase == drain.Cordoning:
		return stCordoning, "cordoning"
	case s.Phase == drain.Draining:
		return stDraining, "draining"
	}
	return "", ""
}

// ParkedHere names what a drain has parked on a host, and what is being brought back
// or could not be, also once its hold has been lifted; person says that somebody has
// to look. "" where nothing is.
func ParkedHere(s drain.State) (text string, person bool) {
	var stuck, back, rest []fleet.Key
	for _, k := range s.Resumable(fleet.Key{}) {
		switch it := s.Items[k]; {
		case it.Resume.IsZero() && !it.Move.Resuming():
			rest = append(rest, k)
		case drain.NeedsPerson(it.Reason.Code):
			stuck = append(stuck, k)
		default:
			back = append(back, k)
		}
	}
	var parts []string
	for _, p := range []struct {
		what string
		keys []fleet.Key
	}{{"not resumed", stuck}, {"resuming", back}, {"parked", rest}} {
		if len(p.keys) > 0 {
			parts = append(parts, p.what+": "+Keys(p.keys))
		}
	}
	return strings.Join(parts, "; "), len(stuck) > 0
}

// BringsBack says by which key what is parked on a host comes back.
const BringsBack = "R resumes it"

func cordonState(v *fleet.HostView, h fleet.Holds) (role, word string) {
	switch v.Cordon {
	case fleet.Cordoning:
		return stCordoning, "cordoning"
	case fleet.Cordoned:
		return stCordoned, "cordoned"
	case fleet.HostOnly:
		return stHostOnly, "host only"
	case fleet.PlaneOnly:
		return stPlaneOnly, "plane only"
	}
	switch {
	case h.Cordon != nil:
		return stHostOnly, "host only"
	case v.Host.Draining:
		return stPlaneOnly, "plane only"
	}
	return stServing, "serving"
}

package wire

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"ebb/fleet"
)

// ErrMissed says that a change does not follow the facts it was applied to: at
// least one was missed, and everything has to be read again.
var ErrMissed = errors.New("a change was missed")

// Diff returns what turns a into b. Applying it gives every section the time of
// its reading, or b.At where the reading is younger: never a younger one than
// the truth. Machine, boot, host name and agent do not change in an agent's
// life and are not compared.
func Diff(a, b fleet.Facts) Patch {
	p := difference(a, b)
	// A section that was not read again would otherwise be moved on to b.At.
	p.Workloads, p.WorkloadsBy = keepAge(b.Workloads, b.At, workloadKey, p.Workloads, p.WorkloadsBy)
	p.Netns, p.NetnsBy = keepAge(b.Netns, b.At, resourceKey, p.Netns, p.NetnsBy)
	p.Loops, p.LoopsBy = keepAge(b.Loops, b.At, resourceKey, p.Loops, p.LoopsBy)
	p.Dirs, p.DirsBy = keepAge(b.Dirs, b.At, resourceKey, p.Dirs, p.DirsBy)
	if older(b.GPUs, b.At) {
		p.GPUs = &b.GPUs
	}
	if older(b.Processes, b.At) {
		s := fleet.Probe("processes", b.Processes)
		p.Status = &s
	}
	return p
}

// Differs reports whether a and b say anything different, apart from times of
// reading.
func Differs(a, b fleet.Facts) bool {
	return a.Machine != b.Machine || a.Boot != b.Boot || a.Hostname != b.Hostname || !difference(a, b).IsZero()
}

// IsZero reports whether the patch changes nothing.
func (p Patch) IsZero() bool {
	return len(p.Set) == 0 && len(p.Gone) == 0 && p.Status == nil && p.Workloads == nil && p.WorkloadsBy == nil &&
		p.Netns == nil && p.NetnsBy == nil && p.Loops == nil && p.LoopsBy == nil && p.Dirs == nil && p.DirsBy == nil &&
		p.GPUs == nil && p.State == nil
}

// Whole is the patch without deltas, for whoever does not know them; b is what it
// leads to.
func (p Patch) Whole(b fleet.Facts) Patch {
	if p.WorkloadsBy != nil {
		p.Workloads, p.WorkloadsBy = &b.Workloads, nil
	}
	if p.NetnsBy != nil {
		p.Netns, p.NetnsBy = &b.Netns, nil
	}
	if p.LoopsBy != nil {
		p.Loops, p.LoopsBy = &b.Loops, nil
	}
	if p.DirsBy != nil {
		p.Dirs, p.DirsBy = &b.Dirs, nil
	}
	return p
}

// StateOf takes from facts what the agent itself decides.
func StateOf(f fleet.Facts) State {
	return State{Holds: f.Holds, Unheld: f.Unheld, Sealed: f.Sealed, Tickets: f.Tickets, Accepted: f.Accepted}
}

func difference(a, b fleet.Facts) Patch {
	var p Patch
	p.Set, p.Gone = diffProcesses(a.Processes.Value, b.Processes.Value)
	if !sameStatus(a.Processes, b.Processes) {
		s := fleet.Probe("processes", b.Processes)
		p.Status = &s
	}
	p.Workloads, p.WorkloadsBy = section(a.Workloads, b.Workloads, workloadKey)
	p.Netns, p.NetnsBy = section(a.Netns, b.Netns, resourceKey)
	p.Loops, p.LoopsBy = section(a.Loops, b.Loops, resourceKey)
	p.Dirs, p.DirsBy = section(a.Dirs, b.Dirs, resourceKey)
	if !sameReading(a.GPUs, b.GPUs) {
		p.GPUs = &b.GPUs
	}
	if s := StateOf(b); !sameValue(StateOf(a), s) {
		p.State = &s
	}
	return p
}

func diffProcesses(a, b []fleet.Process) (set []fleet.Process, gone []fleet.Run) {
	before := make(map[fleet.Run]fleet.Process, len(a))
	for _, p := range a {
		before[p.Run] = p
	}
	for _, p := range b {
		old, ok := before[p.Run]
		if !ok || !sameProcess(old, p) {
			set = append(set, p)
		}
		delete(before, p.Run)
	}
	for run := range before {
		gone = append(gone, run)
	}
	slices.SortFunc(gone, compareRuns)
	return set, gone
}

func sameProcess(a, b fleet.Process) bool {
	if !a.Started.Equal(b.Started) {
		return false
	}
	a.Started, b.Started = time.Time{}, time.Time{}
	return a == b
}

func sameStatus[T any](a, b fleet.Reading[T]) bool {
	return a.Status == b.Status && a.Source == b.Source && a.Error == b.Error
}

func sameReading[T any](a, b fleet.Reading[[]T]) bool {
	return sameStatus(a, b) && len(a.Value) == len(b.Value) && (len(a.Value) == 0 || sameValue(a.Value, b.Value))
}

// sameValue is deep equality in which times are compared as instants, and nil
// equals empty: a value that has been through JSON equals the original.
func sameValue(a, b any) bool { return sameDeep(reflect.ValueOf(a), reflect.ValueOf(b)) }

func sameDeep(a, b reflect.Value) bool {
	if t, ok := a.Interface().(time.Time); ok {
		return t.Equal(b.Interface().(time.Time))
	}
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if !sameDeep(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !sameDeep(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return sameDeep(a.Elem(), b.Elem())
	case reflect.Map:
		if a.Len() != b.Len() {
			return false
		}
		for it := a.MapRange(); it.Next(); {
			if v := b.MapIndex(it.Key()); !v.IsValid() || !sameDeep(it.Value(), v) {
				return false
			}
		}
		return true
	default:
		return a.Interface() == b.Interface()
	}
}

func older[T any](r fleet.Reading[T], at time.Time) bool {
	return r.Status != fleet.Unknown && r.At.Before(at)
}

// Apply returns the facts after a change. It never alters f; a change that does
// not follow f is ErrMissed.
func Apply(f fleet.Facts, c Change) (fleet.Facts, error) {
	if c.Full != nil {
		return *c.Full, nil
	}
	if c.Since != f.Generation || f.Generation == 0 {
		return f, fmt.Errorf("%w: have generation %d, the change follows %d", ErrMissed, f.Generation, c.Since)
	}
	f.Generation, f.At = c.Generation, c.At
	var p Patch
	if c.Patch != nil {
		p = *c.Patch
	}
	f.Processes = applyProcesses(f.Processes, p, c.At)
	f.Workloads = applyDelta(applyReading(f.Workloads, p.Workloads, c.At), p.WorkloadsBy, workloadKey)
	f.Netns = applyDelta(applyReading(f.Netns, p.Netns, c.At), p.NetnsBy, resourceKey)
	f.Loops = applyDelta(applyReading(f.Loops, p.Loops, c.At), p.LoopsBy, resourceKey)
	f.Dirs = applyDelta(applyReading(f.Dirs, p.Dirs, c.At), p.DirsBy, resourceKey)
	f.GPUs = applyReading(f.GPUs, p.GPUs, c.At)
	if s := p.State; s != nil {
		f.Holds, f.Unheld, f.Sealed, f.Tickets, f.Accepted = s.Holds, s.Unheld, s.Sealed, s.Tickets, s.Accepted
	}
	return f, nil
}

func applyReading[T any](old fleet.Reading[T], next *fleet.Reading[T], at time.Time) fleet.Reading[T] {
	if next != nil {
		return *next
	}
	if old.Status != fleet.Unknown {
		old.At = at
	}
	return old
}

func applyProcesses(r fleet.Reading[[]fleet.Process], p Patch, at time.Time) fleet.Reading[[]fleet.Process] {
	if s := p.Status; s != nil {
		r.Status, r.Source, r.At, r.Took, r.Error = s.Status, s.Source, s.At, s.Took, s.Error
	} else if r.Status != fleet.Unknown {
		r.At = at
	}
	if len(p.Set) == 0 && len(p.Gone) == 0 {
		return r
	}
	drop := make(map[fleet.Run]bool, len(p.Gone)+len(p.Set))
	for _, run := range p.Gone {
		drop[run] = true
	}
	for _, proc := range p.Set {
		drop[proc.Run] = true
	}
	next := make([]fleet.Process, 0, len(r.Value)+len(p.Set))
	for _, proc := range r.Value {
		if !drop[proc.Run] {
			next = append(next, proc)
		}
	}
	next = append(next, p.Set...)
	SortProcesses(next)
	r.Value = next
	return r
}

// SortProcesses puts processes into the order in which facts carry them.
func SortProcesses(ps []fleet.Process) {
	slices.SortFunc(ps, func(a, b fleet.Process) int { return compareRuns(a.Run, b.Run) })
}

func compareRuns(a, b fleet.Run) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Boot, b.Boot), cmp.Compare(a.UID, b.UID))
}

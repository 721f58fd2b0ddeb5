package keys

import (
	"fmt"
	"slices"

	"charm.land/bubbles/v2/key"
)

// Group is a titled part of the help.
type Group struct {
	Title    string
	Bindings []key.Binding
}

// Own lists the bindings of one scope alone, in the order they are shown.
func (m Map) Own(s Scope) []key.Binding {
	switch s {
	case Global:
		g := m.Global
		return append(slices.Clone(g.Screen[:]), g.Command, g.Filter, g.Help, g.Back, g.Mark, g.Copy, g.Quit,
			g.Up, g.Down, g.PageUp, g.PageDown, g.Home, g.End)
	case Fleet:
		k := m.Fleet
		return []key.Binding{k.Cordon, k.Uncordon, k.Drain, k.Open, k.NextNeedsYou, k.Sort, k.Group, k.Details, k.Undrain, k.Resume, k.CordonWhy, k.Reverse}
	case Board:
		k := m.Board
		return []key.Binding{k.Escalate, k.MoreTime, k.Class, k.Hold, k.Keep, k.Retry, k.Park, k.Ship, k.Resume, k.TargetGone,
			k.Extend, k.Stop, k.Undrain, k.HandOver, k.Drain, k.NextNeedsYou, k.Diff, k.Details, k.PrevClass, k.NextClass}
	case Diff:
		return []key.Binding{m.Diff.Clean, m.Diff.Evidence, m.Diff.NextNeedsYou}
	case Gate:
		k := m.Gate
		return []key.Binding{k.Verify, k.Terminate, k.Accept, k.Clean, k.Look}
	case Plan:
		return []key.Binding{m.Plan.Drain, m.Plan.Until, m.Plan.Details}
	case Handover:
		return []key.Binding{m.Handover.Accept, m.Handover.Write, m.Handover.Open}
	case Log:
		k := m.Log
		return []key.Binding{k.Follow, k.Details, k.Replay}
	case Replay:
		k := m.Replay
		return []key.Binding{k.Pause, k.Faster, k.Slower, k.Step, k.Before, k.Person, k.Time, k.Begin, k.End, k.Leave}
	case Dialog:
		k := m.Dialog
		return []key.Binding{k.Yes, k.No, k.Enter, k.Cancel}
	case Input:
		k := m.Input
		return []key.Binding{k.Apply, k.Complete, k.Cancel}
	}
	return nil
}

// Active lists the bindings that work in a scope: its own and, unless it is
// exclusive, the global ones.
func (m Map) Active(s Scope) []key.Binding {
	if s.Exclusive() || s == Global {
		return m.Own(s)
	}
	return append(m.Own(s), m.Own(Global)...)
}

// Line lists what fits on the one line of help under a screen: the way to the
// rest first, then the screen's own keys, then the way back.
func (m Map) Line(s Scope) []key.Binding {
	if s.Exclusive() {
		return m.Own(s)
	}
	line := append([]key.Binding{m.Global.Help, m.Global.Mark}, m.Own(s)...)
	return append(line, m.Global.Filter, m.Global.Back)
}

// Help is the full help of a scope, in groups.
func (m Map) Help(s Scope) []Group {
	if s.Exclusive() {
		return []Group{{string(s), m.Own(s)}}
	}
	g := m.Global
	groups := []Group{
		{"move", []key.Binding{g.Up, g.Down, g.PageUp, g.PageDown, g.Home, g.End}},
		{"everywhere", []key.Binding{g.Filter, g.Command, g.Mark, g.Copy, g.Help, g.Back, g.Quit}},
		{"screens", slices.Clone(g.Screen[:])},
	}
	if own := m.Own(s); s != Global && len(own) > 0 {
		if s == Board {
			own = m.sentences()
		}
		groups = append([]Group{{string(s), own}}, groups...)
	}
	return groups
}

// sentences are the keys of the board with what each means for a workload, where
// one word on the line at the foot says too little.
func (m Map) sentences() []key.Binding {
	k := m.Board
	say := map[string]string{}
	for _, s := range []struct {
		b    key.Binding
		text string
	}{
		{k.Escalate, "escalate: end this one, its name typed: notice, TERM, grace, KILL"},
		{k.MoreTime, "more time: its grace, or its move, may take longer"},
		{k.Class, "class: say how it leaves (the letters below)"},
		{k.Hold, "hold: leave it alone from now on; r ends that"},
		{k.Keep, "keep: it may stay, the gate names it; r ends that"},
		{k.Retry, "retry: take it up again: held, kept or failed"},
		{k.Park, "park: keep it at rest on this host, for R to bring back"},
		{k.Ship, "ship: restore it elsewhere, whatever its rule says"},
		{k.Resume, "resume: bring back what is parked here; the drain ends"},
		{k.TargetGone, "target gone: where it was begun anew is gone for good"},
		{k.Extend, "extend: move the deadline of the whole drain"},
		{k.Stop, "stop: the drain ends here; both holds stay"},
		{k.Undrain, "undrain: the drain ends and its hold is lifted"},
		{k.HandOver, "hand over: leave word for whoever goes on"},
		{k.Drain, "drain: begin one, or take up what nobody drives"},
		{k.NextNeedsYou, "go to the next that needs you"},
		{k.Diff, "diff: what is claimed against what runs"},
		{k.Details, "details: all that is known of it"},
		{k.PrevClass, "the class before"},
		{k.NextClass, "the class after"},
	} {
		say[s.b.Help().Key] = s.text
	}
	out := m.Own(Board)
	for i, b := range out {
		if text, ok := say[b.Help().Key]; ok {
			out[i] = key.NewBinding(key.WithKeys(b.Keys()...), key.WithHelp(b.Help().Key, text))
		}
	}
	return out
}

// Collisions describes each key that would mean two things in one scope.
func (m Map) Collisions() []string {
	var out []string
	for _, s := range append(Screens(), Global, Dialog, Input) {
		by := map[string]string{}
		for _, b := range m.Active(s) {
			for _, k := range b.Keys() {
				if other, ok := by[k]; ok {
					out = append(out, fmt.Sprintf("%s: %q is both %q and %q", s, k, other, b.Help().Desc))
				}
				by[k] = b.Help().Desc
			}
		}
	}
	return out
}

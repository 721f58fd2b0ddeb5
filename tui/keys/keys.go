// Package keys holds every key binding of the console, each with its help
// beside it.
//
// Bindings belong to a scope. The global ones work on every screen; a screen
// adds its own; a dialog and a line of input take all keys to themselves. Inside
// what is active at a time, one key means one thing: a test keeps that. The
// package only names keys, it acts on none.
package keys

import "charm.land/bubbles/v2/key"

// Scope is a place where keys have a meaning.
type Scope string

// The scopes. Dialog and Input are exclusive: global keys do not work there.
const (
	Global   Scope = "global"
	Fleet    Scope = "fleet"
	Board    Scope = "board"
	Diff     Scope = "diff"
	Gate     Scope = "gate"
	Plan     Scope = "plan"
	Handover Scope = "handover"
	Log      Scope = "log"
	Replay   Scope = "replay" // on top of every screen, while a journal is played again
	Dialog   Scope = "dialog"
	Input    Scope = "input"
)

// Screens lists the scopes that are screens, in the order of the keys 1 to 7.
func Screens() []Scope {
	return []Scope{Fleet, Board, Diff, Gate, Plan, Handover, Log}
}

// Exclusive says whether a scope keeps the global keys out.
func (s Scope) Exclusive() bool { return s == Dialog || s == Input }

// GlobalKeys work on every screen.
type GlobalKeys struct {
	Screen  [7]key.Binding // in the order of [Screens]
	Command key.Binding
	Filter  key.Binding
	Help    key.Binding
	Back    key.Binding
	Mark    key.Binding
	Copy    key.Binding
	Quit    key.Binding

	Up, Down, PageUp, PageDown, Home, End key.Binding
}

// FleetKeys are those of the screen of all hosts.
type FleetKeys struct {
	Cordon, CordonWhy, Uncordon, Drain, Undrain, Resume, Open, Sort, Reverse, Group, NextNeedsYou, Details key.Binding
}

// BoardKeys are those of one host's drain.
type BoardKeys struct {
	Escalate, MoreTime, Class, Hold, Keep, Retry, Park, Ship, Resume, TargetGone              key.Binding
	Extend, Stop, Undrain, HandOver, Drain, NextNeedsYou, Diff, Details, PrevClass, NextClass key.Binding
}

// DiffKeys are those of the comparison of claims and facts.
type DiffKeys struct{ Clean, Evidence, NextNeedsYou key.Binding }

// GateKeys are those of the way to termination.
type GateKeys struct{ Verify, Terminate, Accept, Clean, Look key.Binding }

// PlanKeys are those of what a drain would do.
type PlanKeys struct{ Drain, Until, Details key.Binding }

// HandoverKeys are those of the page between two shifts.
type HandoverKeys struct{ Accept, Write, Open key.Binding }

// LogKeys are those of the journal.
type LogKeys struct{ Follow, Details, Replay key.Binding }

// ReplayKeys work on every screen while a journal is played again.
type ReplayKeys struct{ Pause, Faster, Slower, Step, Before, Person, Begin, End, Time, Leave key.Binding }

// DialogKeys are those of a question.
type DialogKeys struct{ Yes, No, Enter, Cancel key.Binding }

// InputKeys are those of a line that is being typed.
type InputKeys struct{ Apply, Complete, Cancel key.Binding }

// Map is all bindings.
type Map struct {
	Global   GlobalKeys
	Fleet    FleetKeys
	Board    BoardKeys
	Diff     DiffKeys
	Gate     GateKeys
	Plan     PlanKeys
	Handover HandoverKeys
	Log      LogKeys
	Replay   ReplayKeys
	Dialog   DialogKeys
	Input    InputKeys
}

// bind makes a binding whose help shows its first key.
func bind(help string, keys ...string) key.Binding {
	return bindAs(keys[0], help, keys...)
}

// bindAs makes a binding that is shown as something else than its first key.
func bindAs(shown, help string, keys ...string) key.Binding {
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(shown, help))
}

// Default is the map the console starts with.
func Default() Map {
	return Map{
		Global: globalKeys(),
		Fleet: FleetKeys{
			Cordon:    bind("cordon", "c"),
			CordonWhy: bind("cordon, saying why", "C"),
			Uncordon:  bind("uncordon", "u"),
			Drain:     bind("drain", "d"),
			Undrain:   bind("undrain", "U"), // u is uncordon
			Resume:    bind("resume what is parked", "R"),
			Open:      bind("open the board", "enter"),
			Sort:      bind("sort", "s"),
			Reverse:   bind("sort the other way round", "S"),
			Group:     bind("group", "p"),

			NextNeedsYou: bind("next that needs you", "tab"),
			Details:      bind("all about it", "i"),
		},
		Board: BoardKeys{
			Escalate:     bind("escalate", "e"),
			MoreTime:     bind("more time", "m"),
			Class:        bind("class", "c"),
			Hold:         bind("hold", "h"),
			Keep:         bind("keep", "K"), // k is up
			Retry:        bind("retry", "r"),
			Park:         bind("park", "p"),
			Ship:         bind("ship", "S"), // s is stop
			Resume:       bind("resume", "R"),
			TargetGone:   bind("target gone", "T"),
			Extend:       bind("extend", "x"),
			Stop:         bind("stop", "s"),
			Undrain:      bind("undrain", "U"),
			HandOver:     bind("hand over", "H"),
			Drain:        bind("drain", "d"),
			NextNeedsYou: bind("next that needs you", "tab"),
			Diff:         bind("diff", "D"),
			Details:      bind("details", "enter"),
			PrevClass:    bind("class before", "left"),
			NextClass:    bind("class after", "right"),
		},
		Diff: DiffKeys{
			Clean:    bind("clean", "c"),
			Evidence: bind("evidence", "enter"),

			NextNeedsYou: bind("next to explain", "tab"),
		},
		Gate: GateKeys{
			Verify:    bind("verify", "v"),
			Terminate: bind("terminate", "t"),
			Accept:    bind("accept", "a"),
			Clean:     bind("clean", "c"),
			Look:      bind("look", "enter"),
		},
		Plan: PlanKeys{
			Drain:   bind("drain", "d"),
			Until:   bind("another deadline", "x"),
			Details: bind("details", "enter"),
		},
		Handover: HandoverKeys{
			Accept: bind("accept: take it over", "a"),
			Write:  bind("write a word", "w"),
			Open:   bind("open the board", "enter"),
		},
		Log: LogKeys{
			Follow:  bind("follow", "f"),
			Details: bind("details", "enter"),
			Replay:  bind("replay", "R"),
		},
		Replay: ReplayKeys{
			Pause:  bind("pause, go on", "space"),
			Faster: bind("faster", "+", "="),
			Slower: bind("slower", "-"),
			Step:   bind("one event", "."),
			Before: bind("one back", ","),
			Person: bind("next that needs a person", "n"),
			Begin:  bind("begin", "<"),
			End:    bind("end", ">"),
			Time:   bind("to a time", "@"),
			Leave:  bind("leave the replay", "q", "ctrl+c"),
		},
		Dialog: DialogKeys{
			Yes:    bind("yes", "y"),
			No:     bind("no", "n"),
			Enter:  bind("answer", "enter"),
			Cancel: bindAs("esc", "cancel", "esc", "ctrl+c"),
		},
		Input: InputKeys{
			Apply:    bind("apply", "enter"),
			Complete: bind("complete", "tab"),
			Cancel:   bindAs("esc", "cancel", "esc", "ctrl+c"),
		},
	}
}

func globalKeys() GlobalKeys {
	g := GlobalKeys{
		Command:  bind("command", ":"),
		Filter:   bind("filter", "/"),
		Help:     bind("keys", "?"),
		Back:     bind("back", "esc"),
		Mark:     bind("mark", "space"),
		Copy:     bind("copy", "y"),
		Quit:     bind("quit", "q", "ctrl+c"),
		Up:       bindAs("k/up", "up", "k", "up"),
		Down:     bindAs("j/down", "down", "j", "down"),
		PageUp:   bindAs("pgup", "page up", "pgup", "ctrl+b"),
		PageDown: bindAs("pgdn", "page down", "pgdown", "ctrl+f"),
		Home:     bindAs("g/home", "first", "g", "home"),
		End:      bindAs("G/end", "last", "G", "end"),
	}
	for i, s := range Screens() {
		g.Screen[i] = bind(string(s), string(rune('1'+i)))
	}
	return g
}

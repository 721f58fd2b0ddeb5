package keys

import (
	"reflect"
	"strings"
	"testing"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
)

func TestNoCollisions(t *testing.T) {
	for _, c := range Default().Collisions() {
		t.Error(c)
	}
}

func TestCollisionsAreFound(t *testing.T) {
	m := Default()
	m.Board.Keep = key.NewBinding(key.WithKeys("k"), key.WithHelp("k", "keep"))
	got := m.Collisions()
	if len(got) != 1 || !strings.Contains(got[0], `board: "k"`) {
		t.Errorf("keep on k: collisions %v", got)
	}
}

// A binding that is in the map but in no list would work and be in no help.
func TestEveryBindingIsListed(t *testing.T) {
	m := Default()
	v := reflect.ValueOf(m)
	for i, scope := range []Scope{Global, Fleet, Board, Diff, Gate, Plan, Handover, Log, Replay, Dialog, Input} {
		part := v.Field(i)
		if got := strings.ToLower(v.Type().Field(i).Name); got != string(scope) {
			t.Fatalf("field %d is %s, want %s", i, got, scope)
		}
		n := 0
		for _, f := range part.Fields() {
			if f.Kind() == reflect.Array {
				n += f.Len()
				continue
			}
			n++
		}
		own := m.Own(scope)
		if len(own) != n {
			t.Errorf("%s lists %d of %d bindings", scope, len(own), n)
		}
		for _, b := range own {
			if h := b.Help(); h.Key == "" || h.Desc == "" || len(b.Keys()) == 0 {
				t.Errorf("%s: a binding has no key or help: %+v", scope, h)
			}
		}
	}
	if m.Own("nowhere") != nil {
		t.Error("a scope that is none has bindings")
	}
}

// The help must not promise fewer keys than work.
func TestHelpShowsAllThatIsActive(t *testing.T) {
	m := Default()
	for _, s := range append(Screens(), Dialog, Input) {
		n := 0
		for _, g := range m.Help(s) {
			n += len(g.Bindings)
		}
		if n != len(m.Active(s)) {
			t.Errorf("%s: help has %d bindings of %d", s, n, len(m.Active(s)))
		}
	}
}

// The names of keys are those Bubble Tea gives.
func TestNamesMatchKeystrokes(t *testing.T) {
	m := Default()
	for _, tc := range []struct {
		press tea.KeyPressMsg
		want  key.Binding
	}{
		{tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}, m.Global.Mark},
		{tea.KeyPressMsg{Code: tea.KeyEscape}, m.Global.Back},
		{tea.KeyPressMsg{Code: tea.KeyPgDown}, m.Global.PageDown},
		{tea.KeyPressMsg{Code: tea.KeyPgUp}, m.Global.PageUp},
		{tea.KeyPressMsg{Code: tea.KeyHome}, m.Global.Home},
		{tea.KeyPressMsg{Code: 'g', Text: "G", Mod: tea.ModShift, ShiftedCode: 'G'}, m.Global.End},
		{tea.KeyPressMsg{Code: 'k', Text: "K", Mod: tea.ModShift}, m.Board.Keep},
		{tea.KeyPressMsg{Code: tea.KeyTab}, m.Board.NextNeedsYou},
		{tea.KeyPressMsg{Code: tea.KeyEnter}, m.Fleet.Open},
		{tea.KeyPressMsg{Code: '3', Text: "3"}, m.Global.Screen[2]},
		{tea.KeyPressMsg{Code: '/', Text: "/"}, m.Global.Filter},
		{tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}, m.Global.Quit},
	} {
		if !key.Matches(tc.press, tc.want) {
			t.Errorf("%q does not match %v", tc.press, tc.want.Keys())
		}
	}
	if got := m.Global.Screen[2].Help().Desc; got != "diff" {
		t.Errorf("3 is %s", got)
	}
}

func TestLineStartsWithHelp(t *testing.T) {
	m := Default()
	for _, s := range Screens() {
		line := m.Line(s)
		if line[0].Help().Key != "?" || line[len(line)-1].Help().Key != "esc" {
			t.Errorf("%s: line runs from %s to %s", s, line[0].Help().Key, line[len(line)-1].Help().Key)
		}
	}
}

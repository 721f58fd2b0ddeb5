package tui

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"ebb/tui/paint"
)

// With on, a larger change is always shown at once; with off never, whatever the
// terminal says; with auto where it has said that it can. The program's own
// renderer never hears of it.
func TestSyncAsAsked(t *testing.T) {
	can := tea.ModeReportMsg{Mode: ansi.ModeSynchronizedOutput, Value: ansi.ModeReset}
	cannot := tea.ModeReportMsg{Mode: ansi.ModeSynchronizedOutput, Value: ansi.ModeNotRecognized}
	for name, tc := range map[string]struct {
		sync   Sync
		answer tea.Msg
		want   bool
	}{
		"on":                {SyncOn, nil, true},
		"on, it can't":      {SyncOn, cannot, true},
		"off":               {SyncOff, nil, false},
		"off, it could":     {SyncOff, can, false},
		"auto, it can":      {SyncAuto, can, true},
		"auto, it can't":    {SyncAuto, cannot, false},
		"auto, no answer":   {SyncAuto, nil, false},
		"not said, it can":  {"", can, true},
		"not said, nothing": {"", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := &buffer{}
			out := paint.NewOutput(got)
			out.SetSync(tc.sync == SyncOn)
			out.SetProfile(colorprofile.TrueColor)
			filter := tc.sync.filter(out)
			if tc.answer != nil && filter(nil, tc.answer) != nil {
				t.Error("the program hears of the answer")
			}
			if key := tea.Msg(keyPress("j")); filter(nil, key) != key {
				t.Error("the program does not hear of a key")
			}
			if _, err := out.Write([]byte(ansi.SetModeAltScreenSaveCursor)); err != nil {
				t.Fatal(err)
			}
			out.Show(strings.Repeat("x", 1000), 1000, 1)
			for _, seq := range []string{ansi.RequestCursorPositionReport, ansi.ResetModeAltScreenSaveCursor} { // behind the screen; and all is out
				if _, err := out.Write([]byte(seq)); err != nil {
					t.Fatal(err)
				}
			}
			out.Close(time.Minute)
			if sent := strings.Contains(got.b.String(), "\x1b[?2026h"); sent != tc.want {
				t.Errorf("shown at once: %v: %q", sent, got.b.String())
			}
		})
	}
}

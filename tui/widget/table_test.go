package widget

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/golden"
	"pgregory.net/rapid"

	"ebb/themes"
)

type host struct{ id, state, pool, why string }

func theme(t interface{ Fatal(...any) }) themes.Theme {
	th, err := themes.Load("mono")
	if err != nil {
		t.Fatal(err)
	}
	return th
}

var hostCols = []Column{
	{Title: "HOST", Min: 8, Weight: 1},
	{Title: "STATE", Min: 13, Priority: 1},
	{Title: "SINCE", Min: 6, Priority: 3, Right: true},
	{Title: "WHY", Min: 10, Weight: 2, Priority: 2},
	{Title: "GPU", Min: 4, Priority: 4, Right: true},
}

func hostTable(th themes.Theme, calls *int) *Table[host] {
	return NewTable(th, hostCols, Rows[host]{
		ID: func(h host) string { return h.id },
		Cells: func(h host) []Cell {
			*calls++
			if h.state == themes.Unreachable {
				return []Cell{{Text: h.id}, {Text: "◌ unreachable"}, {Text: "4m"}, {Text: "plane heard it 9s ago; ssh: connection refused by 10.0.0.1", Rest: true}}
			}
			return []Cell{{Text: h.id}, {Text: th.Glyphs.State(h.state) + " " + h.state}, {Text: "21m"}, {Text: h.why}, {Text: "6/8"}}
		},
		Match: func(h host) Filterable {
			return Filterable{Text: h.id + " " + h.why, Fields: map[string]string{"state": h.state}, Labels: map[string]string{"pool": h.pool}}
		},
		Empty: "no hosts",
	})
}

func hosts(n int) []host {
	out := make([]host, n)
	for i := range out {
		out[i] = host{id: fmt.Sprintf("gpu-%05d", i), state: themes.Serving, pool: "a"}
	}
	return out
}

func selected(t *Table[host]) string {
	h, ok := t.Selected()
	if !ok {
		return ""
	}
	return h.id
}

func TestTableDrawsOnlyWhatIsVisible(t *testing.T) {
	calls := 0
	tb := hostTable(theme(t), &calls)
	tb.SetRows(hosts(50_000))
	if calls != 0 {
		t.Fatalf("%d rows drawn by SetRows", calls)
	}
	for _, step := range []func(){func() {}, func() { tb.Move(1) }, tb.Last, func() { tb.Page(-3) }, func() { tb.Select("gpu-25000") }, tb.First} {
		step()
		calls = 0
		tb.View(120, 40)
		if calls != 39 {
			t.Errorf("%d rows drawn for 39 lines, cursor on %s", calls, selected(tb))
		}
	}
}

func TestSelectionFollowsIdentity(t *testing.T) {
	calls := 0
	tb := hostTable(theme(t), &calls)
	rows := hosts(10)
	tb.SetRows(rows)
	tb.Select("gpu-00004")
	back := slices.Clone(rows)
	slices.Reverse(back)
	tb.SetRows(back)
	if _, moved := tb.Moved(); moved || selected(tb) != "gpu-00004" {
		t.Fatalf("after a new order: %s, moved %v", selected(tb), moved)
	}
	// gpu-00004 vanishes, and so does the one below it: the next is chosen.
	less := slices.DeleteFunc(slices.Clone(back), func(h host) bool { return h.id == "gpu-00004" || h.id == "gpu-00003" })
	tb.SetRows(less)
	if from, moved := tb.Moved(); !moved || from != "gpu-00004" || selected(tb) != "gpu-00005" {
		t.Fatalf("after it vanished: on %s, moved %v from %q", selected(tb), moved, from)
	}
	// It stays moved until the user moves, whatever rows come meanwhile.
	tb.SetRows(slices.Clone(less))
	if _, moved := tb.Moved(); !moved {
		t.Error("a new snapshot hides that the cursor was moved")
	}
	tb.Move(1)
	if _, moved := tb.Moved(); moved {
		t.Error("still moved after the user moved")
	}
	// Rows that are all gone for a moment do not lose the cursor.
	at := selected(tb)
	tb.SetRows(nil)
	if _, ok := tb.Selected(); ok {
		t.Error("a row is selected where there is none")
	}
	tb.Move(1)
	tb.SetRows(less)
	if _, moved := tb.Moved(); moved || selected(tb) != at {
		t.Errorf("after rows came back: %s, want %s", selected(tb), at)
	}
}

// Where the cursor lands is a neighbour: no row that is still there stood
// between it and the row that vanished.
func TestNeighbourIsNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		calls := 0
		tb := hostTable(theme(t), &calls)
		rows := hosts(rapid.IntRange(1, 20).Draw(t, "n"))
		at := rapid.IntRange(0, len(rows)-1).Draw(t, "at")
		tb.SetRows(rows)
		tb.Select(rows[at].id)
		var left []host
		for i, h := range rows {
			if i != at && rapid.Bool().Draw(t, "keep") {
				left = append(left, h)
			}
		}
		tb.SetRows(rapid.Permutation(left).Draw(t, "order"))
		if len(left) == 0 {
			return
		}
		got := slices.IndexFunc(rows, func(h host) bool { return h.id == selected(tb) })
		if got < 0 {
			t.Fatal("nothing is selected")
		}
		for _, h := range left {
			i := slices.Index(rows, h)
			if abs(i-at) < abs(got-at) {
				t.Errorf("row %d vanished, %d chosen, but %d is nearer", at, got, i)
			}
		}
		if from, moved := tb.Moved(); !moved || from != rows[at].id {
			t.Errorf("moved %v from %q", moved, from)
		}
	})
}

func abs(n int) int { return max(n, -n) }

func TestFilterAndMarks(t *testing.T) {
	calls := 0
	tb := hostTable(theme(t), &calls)
	rows := hosts(6)
	rows[2].state, rows[4].state = themes.Lost, themes.Lost
	tb.SetRows(rows)
	for _, id := range []string{"gpu-00001", "gpu-00002"} {
		tb.Select(id)
		tb.ToggleMark()
	}
	f, err := ParseFilter("/state:lost")
	if err != nil {
		t.Fatal(err)
	}
	tb.SetFilter(f)
	if shown, all := tb.Len(); shown != 2 || all != 6 {
		t.Errorf("%d of %d", shown, all)
	}
	if m, hidden := tb.Marked(); len(m) != 1 || m[0].id != "gpu-00002" || hidden != 1 {
		t.Errorf("marked %v, %d hidden", m, hidden)
	}
	if selected(tb) != "gpu-00002" {
		t.Errorf("on %s", selected(tb))
	}
	tb.SetFilter(Filter{})
	tb.SetRows(rows[2:])
	if m, hidden := tb.Marked(); len(m) != 1 || hidden != 0 {
		t.Errorf("a mark outlives its row: %v, %d hidden", m, hidden)
	}
	tb.ToggleMark()
	if m, _ := tb.Marked(); len(m) != 0 {
		t.Errorf("marked %v", m)
	}
	if !tb.SelectNext(func(h host) bool { return h.state == themes.Lost }) || selected(tb) != "gpu-00004" {
		t.Errorf("next is %s", selected(tb))
	}
	if !tb.SelectNext(func(h host) bool { return h.state == themes.Lost }) || selected(tb) != "gpu-00002" {
		t.Errorf("going round: %s", selected(tb))
	}
}

func TestSections(t *testing.T) {
	calls := 0
	tb := hostTable(theme(t), &calls)
	tb.of.Section = func(h host) string { return h.pool }
	rows := hosts(6)
	for i := range rows {
		rows[i].pool = string(rune('a' + i/2))
	}
	tb.SetRows(rows)
	want := []string{"A", "0", "1", "B", "2", "3", "C", "4", "5"}
	got := strings.Split(tb.View(60, 10), "\n")[1:]
	for i, w := range want {
		if !strings.Contains(ansi.Strip(got[i]), w) {
			t.Errorf("line %d is %q, want %s", i, ansi.Strip(got[i]), w)
		}
	}
	// The cursor passes headings by, and a heading right above it stays visible.
	tb.Move(2)
	if selected(tb) != "gpu-00002" {
		t.Errorf("on %s", selected(tb))
	}
	tb.Last()
	tb.View(60, 5)
	tb.Select("gpu-00002")
	if v := ansi.Strip(tb.View(60, 5)); !strings.Contains(v, " B  2") || !strings.Contains(v, "▸  gpu-00002") {
		t.Errorf("heading or cursor is not in view:\n%s", v)
	}
}

func checkSize(t interface {
	Helper()
	Errorf(string, ...any)
}, s string, width, height int) {
	t.Helper()
	lines := strings.Split(s, "\n")
	if len(lines) != height {
		t.Errorf("%d lines at %dx%d", len(lines), width, height)
	}
	for i, l := range lines {
		if w := ansi.StringWidth(l); w != width {
			t.Errorf("line %d at %dx%d has %d cells: %q", i, width, height, w, l)
		}
	}
}

func TestTableSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		calls := 0
		th := theme(t)
		if rapid.Bool().Draw(t, "ascii") {
			th = th.With(themes.ASCIIGlyphs())
		}
		tb := hostTable(th, &calls)
		if rapid.Bool().Draw(t, "sections") {
			tb.of.Section = func(h host) string { return h.pool }
		}
		if rapid.Bool().Draw(t, "signs") {
			tb.of.Sign = func(host) Cell { return Cell{Text: "▲"} }
		}
		states := append(themes.States(), "")
		rows := make([]host, rapid.IntRange(0, 30).Draw(t, "n"))
		for i := range rows {
			rows[i] = host{id: genText(t), why: genText(t), state: states[i%len(states)], pool: string(rune('a' + i/4))}
		}
		tb.SetRows(rows)
		for range 4 {
			w, h := rapid.IntRange(1, 200).Draw(t, "w"), rapid.IntRange(1, 40).Draw(t, "h")
			tb.Move(rapid.IntRange(-10, 10).Draw(t, "move"))
			v := tb.View(w, h)
			checkSize(t, v, w, h)
			if len(rows) > 0 && w > 1 && !strings.Contains(v, th.Glyphs.Cursor) {
				t.Errorf("the cursor is out of view at %dx%d", w, h)
			}
		}
	})
	var none int
	if v := hostTable(theme(t), &none).View(0, 3); v != "" {
		t.Errorf("no width gives %q", v)
	}
}

func TestWidths(t *testing.T) {
	for _, tc := range []struct {
		width int
		want  []int
	}{
		{120, []int{31, 13, 6, 58, 4}}, // 71 cells to spare: a third of them, and the rest
		{49, []int{8, 13, 6, 10, 4}},
		{48, []int{9, 13, 6, 14, 0}},
		{36, []int{8, 13, 0, 11, 0}},
		{30, []int{15, 13, 0, 0, 0}},
		{20, []int{20, 0, 0, 0, 0}},
		{5, []int{5, 0, 0, 0, 0}},
		{0, []int{0, 0, 0, 0, 0}},
	} {
		if got := Widths(hostCols, tc.width, 2); !slices.Equal(got, tc.want) {
			t.Errorf("Widths(%d) = %v, want %v", tc.width, got, tc.want)
		}
	}
}

func TestWidthsMax(t *testing.T) {
	cols := []Column{{Min: 4, Weight: 1, Max: 10}, {Min: 4, Weight: 1}, {Min: 4, Weight: 1, Max: 6}}
	for width, want := range map[int][]int{
		16: {4, 4, 4}, 19: {5, 5, 5}, 22: {6, 6, 6}, 40: {10, 20, 6}, 100: {10, 80, 6},
	} {
		if got := Widths(cols, width, 2); !slices.Equal(got, want) {
			t.Errorf("Widths(%d) = %v, want %v", width, got, want)
		}
	}
	if got := Widths([]Column{{Min: 2, Weight: 1, Max: 3}}, 9, 2); !slices.Equal(got, []int{3}) {
		t.Errorf("a column grows over its Max: %v", got)
	}
}

func TestTableGolden(t *testing.T) {
	for _, size := range [][2]int{{80, 10}, {120, 10}, {40, 8}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			calls := 0
			tb := hostTable(theme(t), &calls)
			rows := []host{
				{id: "gpu-041", state: themes.Draining, why: "CVE-2026-1183", pool: "a"},
				{id: "gpu-017", state: themes.Cordoned, why: "looks slow", pool: "a"},
				{id: "db-03", state: themes.Unreachable, pool: "b"},
				{id: "gpu-044\x1b[2J", state: themes.Serving, why: "東京 rack", pool: "b"},
			}
			tb.SetRows(rows)
			tb.Move(1)
			tb.ToggleMark()
			golden.RequireEqual(t, ansi.Strip(tb.View(size[0], size[1])))
		})
	}
}

func BenchmarkTableView(b *testing.B) {
	calls := 0
	tb := hostTable(theme(b), &calls)
	tb.SetRows(hosts(50_000))
	for b.Loop() {
		tb.View(200, 50)
	}
}

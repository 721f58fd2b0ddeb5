package widget

import (
	"slices"
	"sort"

	"ebb/themes"
)

// Rows tells a table about rows of type R. ID is required, and so is Cells.
type Rows[R any] struct {
	ID      func(R) string     // identity; selection and marks follow it
	Cells   func(R) []Cell     // called for rows that are visible, and no others
	Match   func(R) Filterable // what a filter sees
	Section func(R) string     // rows of one section stand together under a heading
	Heading func(section string, rows int) Cell
	Sign    func(R) Cell // one cell before the row, such as "needs you"
	Empty   string       // shown where there are no rows
}

// Table is a window on rows of which only what is visible is drawn. The cursor
// stays on the row it was on, wherever that goes; where that row vanishes, the
// nearest neighbour is chosen and [Table.Moved] says so, since a key that was
// meant for one host must not reach another.
type Table[R any] struct {
	cols  []Column
	of    Rows[R]
	theme themes.Theme
	gap   int

	rows     []R
	shown    []int // rows that pass the filter, by their place in rows
	before   []int // and those before, whose room is used again
	sections []section
	filter   Filter

	cur     int    // place of the cursor in shown; -1 without rows
	curID   string // identity under the cursor; stays while there are no rows
	chosen  bool   // whether curID means anything yet
	lead    bool   // the cursor stays on the first row until a person moves it
	from    string // identity the cursor was moved off, not by the user
	marks   map[string]bool
	top     int // first visible line
	page    int // rows of the last view
	headers bool
}

// section is a run of rows in shown under one heading.
type section struct {
	name  string
	first int
	n     int
}

// NewTable makes an empty table.
func NewTable[R any](theme themes.Theme, cols []Column, of Rows[R]) *Table[R] {
	headers := slices.ContainsFunc(cols, func(c Column) bool { return c.Title != "" })
	return &Table[R]{cols: cols, of: of, theme: theme, gap: 2, cur: -1, page: 10, headers: headers, marks: map[string]bool{}}
}

// SetTheme changes what the table is drawn with.
func (t *Table[R]) SetTheme(theme themes.Theme) { t.theme = theme }

// SetColumns changes the columns, for a screen that shows others where it is
// narrow.
func (t *Table[R]) SetColumns(cols []Column) {
	t.cols = cols
	t.headers = slices.ContainsFunc(cols, func(c Column) bool { return c.Title != "" })
}

// SetEmpty changes what is shown where there are no rows.
func (t *Table[T]) SetEmpty(text string) { t.of.Empty = text }

// SetSection changes which rows stand under one heading; nil is no headings.
func (t *Table[R]) SetSection(of func(R) string) {
	old := t.ids()
	t.of.Section = of
	t.apply()
	t.follow(old)
}

// Lead keeps the cursor on the first row, whichever that is, until it is moved.
func (t *Table[R]) Lead() { t.lead = true }

// Leading says whether it still is.
func (t *Table[R]) Leading() bool { return t.lead }

// SetGap changes the cells between two columns.
func (t *Table[R]) SetGap(n int) { t.gap = max(n, 0) }

// SetRows replaces the rows, in the order they are shown. The table keeps the
// slice; the caller must not change it afterwards.
func (t *Table[R]) SetRows(rows []R) {
	old := t.ids()
	t.rows = rows
	t.apply()
	t.follow(old)
	t.dropMarks()
}

// SetFilter shows only the rows that match f.
func (t *Table[R]) SetFilter(f Filter) {
	old := t.ids()
	t.filter = f
	t.apply()
	t.follow(old)
}

// Filter is the filter that is on.
func (t *Table[R]) Filter() Filter { return t.filter }

// apply works out which rows are shown and where the sections begin. The rows that
// were shown before can be asked for until the next time.
func (t *Table[R]) apply() {
	t.shown, t.before = slices.Grow(t.before[:0], len(t.rows)), t.shown
	t.sections = nil
	for i, r := range t.rows {
		if !t.filter.Empty() && t.of.Match != nil && !t.filter.Match(t.of.Match(r)) {
			continue
		}
		if t.of.Section != nil {
			name := t.of.Section(r)
			if k := len(t.sections); k == 0 || t.sections[k-1].name != name {
				t.sections = append(t.sections, section{name: name, first: len(t.shown)})
			}
			t.sections[len(t.sections)-1].n++
		}
		t.shown = append(t.shown, i)
	}
}

// ids is how the rows that are shown now can be asked for their identity later.
func (t *Table[R]) ids() func(i int) (string, bool) {
	rows, shown := t.rows, t.shown
	return func(i int) (string, bool) {
		if i < 0 || i >= len(shown) {
			return "", false
		}
		return t.of.ID(rows[shown[i]]), true
	}
}

// follow puts the cursor back on its row, or on the nearest that is still there.
func (t *Table[R]) follow(old func(int) (string, bool)) {
	if len(t.shown) == 0 {
		t.cur = -1
		return
	}
	if !t.chosen || t.lead {
		t.put(0)
		return
	}
	was := max(t.cur, 0)
	if i := t.near(was); i >= 0 {
		t.cur = i
		return
	}
	if t.from == "" {
		t.from = t.curID
	}
	place := make(map[string]int, len(t.shown))
	for i := len(t.shown) - 1; i >= 0; i-- {
		place[t.id(i)] = i
	}
	for d := 1; ; d++ {
		after, okAfter := old(was + d)
		if i, ok := place[after]; okAfter && ok {
			t.put(i)
			return
		}
		before, okBefore := old(was - d)
		if i, ok := place[before]; okBefore && ok {
			t.put(i)
			return
		}
		if !okAfter && !okBefore {
			t.put(min(was, len(t.shown)-1))
			return
		}
	}
}

// near finds the row under the cursor, looking outwards from where it was.
func (t *Table[R]) near(was int) int {
	for d := 0; was-d >= 0 || was+d < len(t.shown); d++ {
		if i := was + d; i < len(t.shown) && t.id(i) == t.curID {
			return i
		}
		if i := was - d; i >= 0 && i < len(t.shown) && t.id(i) == t.curID {
			return i
		}
	}
	return -1
}

func (t *Table[R]) id(i int) string { return t.of.ID(t.rows[t.shown[i]]) }

func (t *Table[R]) put(i int) {
	t.cur, t.curID, t.chosen = i, t.id(i), true
}

// Len is how many rows are shown, and how many there are.
func (t *Table[R]) Len() (shown, all int) { return len(t.shown), len(t.rows) }

// Visible lists the rows that the last view had in its window.
func (t *Table[R]) Visible() []R {
	var out []R
	for line := t.top; line < min(t.top+t.page, t.lines()); line++ {
		if row, heading := t.at(line); heading < 0 && row < len(t.shown) {
			out = append(out, t.rows[t.shown[row]])
		}
	}
	return out
}

// Selected is the row under the cursor.
func (t *Table[R]) Selected() (row R, ok bool) {
	if t.cur < 0 || t.cur >= len(t.shown) {
		return row, false
	}
	return t.rows[t.shown[t.cur]], true
}

// Moved says whether the cursor stands on another row than the one the user
// chose, and which that was. The user's next move ends it, and so does Settle.
func (t *Table[R]) Moved() (from string, moved bool) { return t.from, t.from != "" }

// Settle takes the row under the cursor as chosen.
func (t *Table[R]) Settle() { t.from, t.lead = "", false }

// Move moves the cursor by n rows, as far as there are any.
func (t *Table[R]) Move(n int) {
	if len(t.shown) == 0 {
		return
	}
	t.from, t.lead = "", false
	t.put(min(max(t.cur+n, 0), len(t.shown)-1))
}

// Page moves the cursor by n pages of the size last shown.
func (t *Table[R]) Page(n int) { t.Move(n * max(t.page-1, 1)) }

// First moves the cursor to the first row.
func (t *Table[R]) First() { t.Move(-len(t.shown)) }

// Last moves the cursor to the last row.
func (t *Table[R]) Last() { t.Move(len(t.shown)) }

// Select puts the cursor on a row by its identity.
func (t *Table[R]) Select(id string) bool {
	for i := range t.shown {
		if t.id(i) == id {
			t.from, t.lead = "", false
			t.put(i)
			return true
		}
	}
	return false
}

// SelectNext puts the cursor on the next row below for which ok holds, going on
// at the top.
func (t *Table[R]) SelectNext(ok func(R) bool) bool {
	n := len(t.shown)
	for k := 1; k <= n; k++ {
		i := (max(t.cur, 0) + k) % n
		if ok(t.rows[t.shown[i]]) {
			t.from, t.lead = "", false
			t.put(i)
			return true
		}
	}
	return false
}

// ToggleMark marks the row under the cursor, or takes its mark away.
func (t *Table[R]) ToggleMark() {
	if _, ok := t.Selected(); !ok {
		return
	}
	t.lead = false
	if t.marks[t.curID] {
		delete(t.marks, t.curID)
		return
	}
	t.marks[t.curID] = true
}

// IsMarked says whether a row is marked, by its identity.
func (t *Table[R]) IsMarked(id string) bool { return t.marks[id] }

// MarkCount is how many rows are marked, hidden ones too.
func (t *Table[R]) MarkCount() int { return len(t.marks) }

// ClearMarks takes all marks away.
func (t *Table[R]) ClearMarks() { clear(t.marks) }

// Marked lists the marked rows that are shown, in their order, and counts those
// that the filter hides: an act on marks must not reach what is not seen
// without saying so.
func (t *Table[R]) Marked() (rows []R, hidden int) {
	if len(t.marks) == 0 {
		return nil, 0
	}
	seen := map[string]bool{}
	for i := range t.shown {
		if id := t.id(i); t.marks[id] && !seen[id] {
			seen[id] = true
			rows = append(rows, t.rows[t.shown[i]])
		}
	}
	return rows, len(t.marks) - len(seen)
}

// dropMarks forgets marks of rows that are gone.
func (t *Table[R]) dropMarks() {
	if len(t.marks) == 0 {
		return
	}
	here := map[string]bool{}
	for _, r := range t.rows {
		if id := t.of.ID(r); t.marks[id] {
			here[id] = true
		}
	}
	t.marks = here
}

// lineOf is the line of row i: the rows before it and the headings up to it.
func (t *Table[R]) lineOf(i int) int {
	return i + sort.Search(len(t.sections), func(k int) bool { return t.sections[k].first > i })
}

// at is what stands on a line: a row, or the heading of a section.
func (t *Table[R]) at(line int) (row, heading int) {
	// The heading of section k is on line first+k, since k headings are above it.
	k := sort.Search(len(t.sections), func(k int) bool { return t.sections[k].first+k > line }) - 1
	if k >= 0 && t.sections[k].first+k == line {
		return -1, k
	}
	return line - (k + 1), -1
}

func (t *Table[R]) lines() int { return len(t.shown) + len(t.sections) }

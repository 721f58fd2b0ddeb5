package boardview

import (
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/words"
)

// burn draws how many were left from the drain's begin on, in exactly width
// cells, with the deadline at its end. What lies ahead is the straight way from
// the begin to nothing at the deadline, dim: where the line stands above it, the
// drain is behind.
func burn(s drain.State, clock time.Time, width int, th themes.Theme) string {
	whole := s.Deadline.Sub(s.Started)
	if width < 1 || whole <= 0 || len(s.Items) == 0 {
		return ""
	}
	if s.Phase.Ended() && !s.Since.IsZero() && s.Since.Before(clock) {
		clock = s.Since
	}
	top := 0
	at := func(i int) time.Time { return s.Started.Add(whole * time.Duration(i+1) / time.Duration(width)) }
	past := 0
	for past < width && !at(past).After(clock) {
		past++
	}
	if past == 0 { // the first moments
		past = 1
	}
	left := make([]int, past)
	for i := range left {
		when := at(i)
		if when.After(clock) {
			when = clock
		}
		left[i] = leftAt(s.Items, when)
		top = max(top, left[i])
	}
	top = max(top, 1)
	level := func(share float64) string { return th.Glyphs.Levels[min(7, max(0, int(share*7+0.5)))] }
	var done, ahead strings.Builder
	for _, n := range left {
		if n == 0 {
			done.WriteString(th.Glyphs.None)
			continue
		}
		done.WriteString(level(float64(n) / float64(top)))
	}
	if s.Phase.Ended() {
		return th.Styles.Text.Render(done.String())
	}
	for i := past; i < width; i++ {
		ahead.WriteString(level(float64(width-1-i) / float64(width)))
	}
	return th.Styles.Text.Render(done.String()) + th.Styles.BarEmpty.Render(ahead.String())
}

// leftAt is how many were left at a moment.
func leftAt(items map[fleet.Key]drain.Item, at time.Time) (n int) {
	for _, it := range items {
		if !it.FoundAt.After(at) && (it.Open() || it.EndAt.After(at)) {
			n++
		}
	}
	return n
}

// course is the line of the burn-down, where there is room for it.
func (d *drawing) course(width int) string {
	s := d.env.Theme.Styles
	begin, end := " "+s.Dim.Render(words.HM(d.state.Started))+" ", " "+s.Dim.Render("deadline ")+words.HM(d.state.Deadline)+" "
	chart := burn(*d.state, d.clock, width-lipgloss.Width(begin)-lipgloss.Width(end), d.env.Theme)
	if chart == "" {
		return ""
	}
	return begin + chart + end
}

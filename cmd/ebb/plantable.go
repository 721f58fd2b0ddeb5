package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// planWidth is how wide a plan is printed. Names that are longer than their column
// are never cut: what stands behind them moves on.
const planWidth = 80

// planColumns of each workload's first line. Its strategy, its rule and why it
// stays follow below it.
var planColumns = []struct {
	head  string
	width int
}{{"WORKLOAD", 24}, {"OWNER", 10}, {"TO", 10}, {"BUDGET", 9}, {"GONE BY", 8}, {"MAY DIE", 0}}

func planTable(w io.Writer, p drain.Plan) error {
	out := &strings.Builder{}
	fmt.Fprintf(out, "%s: plan for a drain until %s (%s)%s\n", p.Host, p.Deadline.Local().Format("15:04:05"), leftText(p.Deadline, p.Made), planFor(p.For))
	if len(p.Items) == 0 {
		what := "nothing runs here that would have to leave"
		if p.Unread != "" {
			what = "what runs here is not known"
		}
		fmt.Fprintln(out, what)
	} else {
		fmt.Fprintln(out, planTotals(p))
		heads := make([]string, len(planColumns))
		for i, c := range planColumns {
			heads[i] = c.head
		}
		planLine(out, heads)
	}
	class := fleet.Class("none yet")
	for _, it := range p.Items {
		if it.Class != class {
			class = it.Class
			fmt.Fprintf(out, "%s\n", class)
		}
		planEntry(out, p, it)
	}
	planEnd(out, p)
	_, err := io.WriteString(w, out.String())
	return err
}

func planFor(p fleet.Purpose) string {
	if p == fleet.ForUnstated {
		return ""
	}
	return ", for " + string(p)
}

// planTotals counts by class: "5 workloads: 1 ephemeral, 2 pausable (1 stays)".
func planTotals(p drain.Plan) string {
	var parts []string
	for _, c := range p.Classes {
		text := fmt.Sprintf("%d %s", c.Total, c.Class)
		if c.Stay > 0 {
			text += fmt.Sprintf(" (%d would stay)", c.Stay)
		}
		parts = append(parts, text)
	}
	text := fmt.Sprintf("%d workloads: %s; %d may die", p.Total, strings.Join(parts, ", "), p.Dies-len(p.Outlive()))
	if p.Parks > 0 {
		text += fmt.Sprintf("; %d parked here, at rest", p.Parks)
	}
	return strings.Join(wrap(text, planWidth), "\n  ")
}

// wrap breaks a text into lines at its spaces only: a name stays whole.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && ansi.StringWidth(line)+1+ansi.StringWidth(word) > width {
			lines, line = append(lines, line), ""
			width = min(width, planWidth-2) // what follows is set in
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

func planLine(out *strings.Builder, cells []string) {
	line := &strings.Builder{}
	for i, c := range cells {
		line.WriteString("  ")
		line.WriteString(c)
		line.WriteString(strings.Repeat(" ", max(planColumns[i].width-ansi.StringWidth(c), 0)))
	}
	out.WriteString(strings.TrimRight(line.String(), " "))
	out.WriteByte('\n')
}

func planEntry(out *strings.Builder, p drain.Plan, it drain.PlanItem) {
	gone, die := "·", "·"
	if !it.GoneBy.IsZero() {
		gone = it.GoneBy.Local().Format("15:04:05")
	}
	switch {
	case it.ExpiresInTime():
		die = "expires in time"
	case it.MayDie:
		die = "yes"
	}
	planLine(out, []string{widget.Clean(it.Key.String()), orDot(widget.Clean(it.Owner)), orDot(planTo(it)), planBudget(it.Budget), gone, die})
	below := func(text string) {
		fmt.Fprintf(out, "      %s\n", strings.Join(wrap(widget.Clean(text), planWidth-6), "\n      "))
	}
	way := it.Strategy
	if it.Rule != "" {
		way += "; " + it.Rule
	}
	below(way)
	if !it.NotParked.IsZero() {
		below("not parked: " + words.Reason(it.NotParked))
	}
	if it.Says != "" {
		below(it.Lever + " says: " + it.Says)
	}
	switch {
	case !it.Reason.IsZero():
		below("stays: " + words.Reason(it.Reason))
	case p.LateBy(it):
		below("▲ its budget ends after the deadline")
	}
}

// planTo is where a workload goes; one that is parked stays.
func planTo(it drain.PlanItem) string {
	if it.Parks {
		return "parked"
	}
	return widget.Clean(it.Target.Name())
}

// planBudget is what a workload is given: to move, and between the two TERMs.
func planBudget(b fleet.Budget) string {
	var parts []string
	for _, d := range []time.Duration{b.Move, b.Grace} {
		if d > 0 {
			parts = append(parts, words.Duration(d))
		}
	}
	return orDot(strings.Join(parts, "+"))
}

// planEnd says what stands in the way, who may die, and when it should be over.
func planEnd(out *strings.Builder, p drain.Plan) {
	wrapped := func(text string) { fmt.Fprintln(out, strings.Join(wrap(text, planWidth), "\n  ")) }
	for _, b := range p.Blocks {
		wrapped("blocks: " + widget.Clean(b))
	}
	outlive := p.Outlive()
	die := slices.DeleteFunc(p.MayDie(), func(k fleet.Key) bool { return slices.Contains(outlive, k) })
	if len(die) > 0 {
		wrapped("may be killed, after notice, TERM and the full grace: " + planNames(die))
	}
	if p.Untold {
		wrapped("owners are not told before: no receiver of notices is configured ([[notice]])")
	}
	if len(outlive) > 0 {
		wrapped("the same, only if it outlives its own time: " + planNames(outlive))
	}
	if late := p.Late(); len(late) > 0 {
		wrapped("perhaps not gone by the deadline: " + planNames(late))
	}
	end := "empty"
	if p.Parks > 0 {
		end = "parked, and not empty,"
		var names []fleet.Key
		for _, it := range p.Items {
			if it.Parks && it.Reason.IsZero() {
				names = append(names, it.Key)
			}
		}
		wrapped("parked here until somebody resumes them: " + planNames(names) + "; the gate stays shut")
	}
	switch spare := p.Deadline.Sub(p.Expected); {
	case len(p.Items) == 0:
	case p.Expected.IsZero():
		wrapped(fmt.Sprintf("not expected to end by itself: %d of %d would stay, and the deadline names them", p.Stay, p.Total))
	case spare < 0:
		wrapped(fmt.Sprintf("expected to be %s by %s, %s after the deadline", end, p.Expected.Local().Format("15:04:05"), words.Duration(-spare)))
	default:
		wrapped(fmt.Sprintf("expected to be %s by %s, %s before the deadline", end, p.Expected.Local().Format("15:04:05"), words.Duration(spare)))
	}
}

func planNames(keys []fleet.Key) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = widget.Clean(k.String())
	}
	return strings.Join(names, ", ")
}

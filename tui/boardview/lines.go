package boardview

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// kind is what a line is about.
type kind int

const (
	item  kind = iota // a workload of the drain
	issue             // what still keeps the host from being empty
	runs              // no drain: what a drain would have to move
)

// The sections that are no classes.
const (
	secIssues = "in the way"
	secEnded  = "ended"
)

// line is one row of the board.
type line struct {
	kind    kind
	section string
	label   string // its name, safe to draw
	it      drain.Item
	issue   fleet.Issue
	stays   fleet.Reason // why a drain would leave it, of what no drain has found yet
}

func (l line) id() string {
	if l.kind == issue {
		return "issue/" + l.issue.Check + "/" + l.issue.Key.String() + "/" + l.issue.Detail
	}
	return "item/" + l.it.Key.String()
}

func (l line) needsYou() bool {
	return l.kind == issue || l.it.Open() && drain.NeedsPerson(l.it.Reason.Code) || l.it.End == drain.Lost
}

// lines builds the rows: what is in the way, the classes in their order, and at
// the bottom what has ended.
func (d *drawing) lines() []line {
	d.rows = nil
	switch {
	case !d.known:
	case d.state != nil:
		d.drainLines()
		if !d.state.First && !d.state.Phase.Ended() { // nothing was counted yet
			d.previewLines()
		}
	default:
		d.previewLines()
	}
	slices.SortStableFunc(d.rows, func(a, b line) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), a.it.EndAt.Compare(b.it.EndAt), a.it.Key.Compare(b.it.Key))
	})
	return d.rows
}

func (d *drawing) drainLines() {
	s := d.state
	for _, it := range s.Items {
		l := line{kind: item, section: words.Class(it.Class), label: d.label(it), it: it}
		if !it.Open() {
			l.section = secEnded
		}
		d.rows = append(d.rows, l)
	}
	for _, is := range s.Issues {
		if _, open := s.Items[is.Key]; open && is.Check == fleet.CheckLeft {
			continue // it stands there by name already
		}
		d.rows = append(d.rows, line{kind: issue, section: secIssues, label: words.Key(is.Key), issue: is})
	}
	for _, l := range s.Left {
		if _, known := s.Items[l.Key]; known || l.Reason.Code != "issue" {
			continue
		}
		is := fleet.Issue{Check: l.Reason.Args["check"], Key: l.Key, Detail: l.Reason.Args["detail"]}
		if !slices.ContainsFunc(s.Issues, func(o fleet.Issue) bool { return o.Check == is.Check && o.Key == is.Key }) {
			d.rows = append(d.rows, line{kind: issue, section: secIssues, label: words.Key(l.Key), issue: is})
		}
	}
}

// leftParked notes what the host's last drain has left parked.
func (d *drawing) leftParked(s *drain.State) {
	d.parked, d.atRest, d.stuck, d.mayResume = nil, "", false, false
	if s == nil || d.gone != "" {
		return
	}
	keys := s.Resumable(fleet.Key{})
	if len(keys) == 0 {
		return
	}
	d.parked = make(map[fleet.Key]drain.Item, len(keys))
	for _, k := range keys {
		d.parked[k] = s.Items[k]
	}
	d.atRest, d.stuck = words.ParkedHere(*s)
	d.mayResume = len(drain.Against(*s, drain.AskResume{})) == 0
}

// isParked reports whether a workload was left parked, whether or not it has begun to
// come back.
func (d *drawing) isParked(k fleet.Key) bool {
	_, ok := d.parked[k]
	return ok
}

// previewLines lists what runs on a host without a drain.
func (d *drawing) previewLines() {
	for _, f := range d.view.Findings {
		if f.Workload == nil && f.Verdict != fleet.Unattributed {
			continue
		}
		found := drain.Classify(f, d.view.Host, d.frame.Policy)
		it := drain.Item{Found: found}
		l := line{kind: runs, section: words.Class(found.Class), label: d.label(it), it: it}
		if !d.isParked(found.Key) {
			l.stays = drain.NoWay(found, d.frame.Policy)
		}
		d.rows = append(d.rows, l)
	}
}

// place is where a line's section stands.
func place(l line) int {
	switch l.section {
	case secIssues:
		return -1
	case secEnded:
		return len(fleet.Classes) + 1
	}
	if i := slices.Index(fleet.Classes, l.it.Class); i >= 0 {
		return i
	}
	return len(fleet.Classes)
}

// label names a workload: a process by its command and pid, everything else by
// its id.
func (d *drawing) label(it drain.Item) string {
	if it.Key.Kind != "process" {
		return widget.Name(it.Key.ID)
	}
	pid := strconv.Itoa(it.Run.PID)
	for _, f := range d.view.Findings {
		if f.Process != nil && f.Key == it.Key {
			return widget.Name(f.Process.Comm) + " " + pid
		}
	}
	return "process " + pid
}

func (d *drawing) filterable(l line) widget.Filterable {
	state := "open"
	if !l.it.Open() {
		state = string(l.it.End)
	}
	return widget.Filterable{
		Text:   strings.Join([]string{l.label, l.it.Key.String(), l.it.Owner, l.issue.Detail, words.Doing(l.it, d.frame.Policy, false)}, " "),
		Fields: map[string]string{"class": words.Class(l.it.Class), "owner": l.it.Owner, "kind": l.it.Key.Kind, "state": state},
	}
}

// details is all that is known about a line.
func (d *drawing) details(l line) feed.Show {
	if l.kind == issue {
		return feed.Show{Title: words.CheckFails(l.issue.Check), Lines: []string{words.Key(l.issue.Key), words.Text(l.issue.Detail)}}
	}
	it := l.it
	var out []string
	add := func(name, value string) {
		if value != "" {
			out = append(out, widget.Fit(name, 11)+" "+value)
		}
	}
	add("key", words.Key(it.Key))
	add("run", it.Run.String())
	add("owner", words.Text(it.Owner))
	add("GPUs", strings.TrimSuffix(d.gpus(it), " GPU"))
	add("class", words.Class(it.Class)+" by "+words.Text(cmp.Or(it.Rule, "no rule")))
	add("leaves by", words.Strategy(it.Class))
	if it.Open() { // of what has ended, what is found now says nothing
		add("verdict", words.Verdict(it.Verdict))
	}
	if l.kind == item {
		add("doing", words.Doing(it, d.frame.Policy, false))
		if r := words.Reason(it.Reason); it.Open() && r != words.Doing(it, d.frame.Policy, false) {
			add("because", r)
		}
		if it.Open() {
			add("step", words.Step(it.Step))
		}
	}
	if m := it.Move; len(m.Steps) > 0 {
		add("lever", words.Name(m.Lever))
		var steps []string
		for _, step := range m.Steps {
			text := words.Step(step)
			switch at, done := m.Done[step]; {
			case done:
				text += " " + words.HM(at)
			case step == m.Next():
				text += " …"
			}
			steps = append(steps, text)
		}
		add("steps", strings.Join(steps, ", "))
		add("progress", words.Progress(m.Says))
		if m.NoReturn {
			add("", "it can only be finished: the other copy is the one that counts")
		}
	}
	add("target", string(it.Target))
	add("expires", words.HMS(it.Expires))
	add("budget", "move "+words.Duration(it.Budget.Move)+", grace "+words.Duration(it.Budget.Grace))
	add("found", words.HMS(it.FoundAt))
	add("first act", words.HMS(it.FirstAct))
	add("told", words.ToldAt(it))
	add("TERM", words.HMS(it.TermAt))
	add("TERM again", words.HMS(it.Term2At))
	add("KILL", words.HMS(it.KillAt))
	if l.kind == item && it.Open() {
		add("may die", map[bool]string{true: "yes, the plan named it", false: "no, unless it is escalated by name"}[it.MayDie])
	}
	add("escalated", words.Text(it.Escalated))
	for i, r := range it.Runs {
		if i > 0 {
			add("process", r.String())
		}
	}
	return feed.Show{Title: l.label, Lines: out}
}

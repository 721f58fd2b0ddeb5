package tui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// How long a verb may take. A terminator that has begun is not cut short: what
// became of it would not be known.
const (
	verbLimit      = 90 * time.Second
	terminateLimit = words.TerminateLimit
)

// job is what can't be started twice at once.
type job struct {
	verb feed.Verb
	host fleet.HostID
	key  fleet.Key
}

func (j job) String() string {
	text := string(j.verb) + " " + widget.Name(j.host.Name())
	if !j.key.IsZero() {
		text += " " + words.Key(j.key)
	}
	return text
}

// run is a job under way.
type run struct {
	id    int
	since time.Time
}

type (
	// doneMsg is how a verb went.
	doneMsg struct {
		job  job
		id   int
		text string
		err  error
		all  *batch // what it is a part of; nil where it stands alone
	}
	// planMsg is a plan, or why there is none.
	planMsg struct {
		gen     int
		host    fleet.HostID
		request feed.Request
		plan    drain.Plan
		err     error
		form    *form // who asked; nil: the plan screen
	}
	// gateMsg is what Check or Verify read.
	gateMsg struct {
		gen  int
		id   int
		job  job
		gate feed.Gate
		err  error
	}
)

// begin notes a job. It says no where the same one is under way, and where the
// console only reads.
func (m *Model) begin(j job) (id int, ok bool) {
	if m.film != nil {
		m.say(noteBad, isReplay(j.verb))
		return 0, false
	}
	if m.frame.Config.ReadOnly && !j.verb.Reads() {
		m.say(noteBad, "read-only: this console was opened to look, not to "+string(j.verb))
		return 0, false
	}
	if _, on := m.running[j]; on {
		m.say(noteInfo, j.String()+" is under way already")
		return 0, false
	}
	m.jobs++
	m.running[j] = run{m.jobs, m.opt.Now()}
	if !j.verb.Reads() {
		m.note = note{}
	}
	return m.jobs, true
}

// end forgets a job; a message of an older run of it is stale.
func (m *Model) end(j job, id int) bool {
	if m.running[j].id != id {
		return false
	}
	delete(m.running, j)
	return true
}

// start runs a verb in a command. Every way it can end becomes a message.
func (m *Model) start(j job, do func(context.Context) (string, error)) tea.Cmd {
	id, ok := m.begin(j)
	if !ok {
		return nil
	}
	if j.verb == feed.Stop || j.verb == feed.Undrain || j.verb == feed.Resume || j.verb == feed.Terminate {
		m.mine[j.host] = true
	}
	limit := verbLimit
	if j.verb == feed.Terminate {
		limit = terminateLimit
	}
	ctx := m.ctx
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		text, err := do(ctx)
		return doneMsg{j, id, text, err, nil}
	}
}

// batch is one act on several hosts. It is only touched in Update.
type batch struct {
	verb       feed.Verb
	open       int
	done, bad  []string
	text, tail string // what the last one said, and what is said once behind all
}

// part makes a job one of a batch.
func (b *batch) part(cmd tea.Cmd) tea.Cmd {
	if cmd == nil {
		return nil
	}
	b.open++
	return func() tea.Msg {
		msg := cmd()
		if d, ok := msg.(doneMsg); ok {
			d.all = b
			return d
		}
		return msg
	}
}

// finished notes how one went, and says in one line how all went: every host by
// name, those first where it failed.
func (m *Model) finished(b *batch, d doneMsg) {
	name := widget.Name(d.job.host.Name())
	b.open--
	if d.err != nil {
		b.bad = append(b.bad, name+" ("+words.Text(d.err.Error())+")")
	} else {
		b.done, b.text = append(b.done, name), words.Text(d.text)
	}
	if b.open > 0 && len(b.bad) == 0 {
		m.say(noteInfo, fmt.Sprintf("%s %s: done; %d to go", b.verb, strings.Join(b.done, ", "), b.open))
		return
	}
	kind, text := noteOK, ""
	if len(b.done) > 0 {
		text = fmt.Sprintf("%s %s: %s", b.verb, strings.Join(b.done, ", "), b.text)
	}
	if len(b.bad) > 0 {
		kind = noteBad
		text = strings.TrimSuffix(fmt.Sprintf("%s failed: %s; %s", b.verb, strings.Join(b.bad, ", "), text), "; ")
	}
	m.say(kind, text+b.tail)
}

// done shows how a verb went. A refusal lists every reason, and stays until it
// was closed.
func (m *Model) done(d doneMsg) tea.Cmd {
	if !m.end(d.job, d.id) {
		return nil
	}
	if d.err != nil {
		delete(m.mine, d.job.host)
		if d.all != nil {
			cmd := m.failed(d.job, d.err)
			m.finished(d.all, d)
			return cmd
		}
		return m.failed(d.job, d.err)
	}
	if d.all != nil {
		m.finished(d.all, d)
		return nil
	}
	text := d.job.String() + ": "
	if d.text == "" {
		d.text = "done"
	}
	said := words.Text(d.text)
	if !d.job.key.IsZero() { // it is named already
		said = strings.TrimPrefix(said, words.Key(d.job.key)+" ")
	}
	m.say(noteOK, text+said)
	if m.cur == "gate" && m.film == nil && m.host == d.job.host && (d.job.verb == feed.Accept || d.job.verb == feed.Clean) {
		return m.readGate(feed.Check, m.host)
	}
	return nil
}

func (m *Model) failed(j job, err error) tea.Cmd {
	if m.line != nil && m.line.behind == j {
		m.line = nil
	}
	var r feed.Refusal
	if errors.As(err, &r) && len(r.Reasons()) > 0 {
		return m.refuse(j, r.Reasons()...)
	}
	text := words.Text(err.Error())
	if errors.Is(err, context.DeadlineExceeded) {
		text = "no answer in time; what became of it is not known: look before you repeat it (" + text + ")"
	}
	m.say(noteBad, j.String()+" failed: "+text)
	return nil
}

// refuse shows why something is not done, all of it.
func (m *Model) refuse(j job, issues ...fleet.Issue) tea.Cmd {
	lines := make([]string, len(issues))
	for i, is := range issues {
		lines[i] = words.Issue(is)
	}
	m.say(noteBad, "refused: "+j.String()+": "+strings.Join(lines, "; "))
	return m.show(&page{title: "refused: " + j.String(), lines: lines, guarded: true})
}

// because is one reason that no check names.
func because(text string) fleet.Issue { return fleet.Issue{Detail: text} }

// askFor appends an ask for each of some workloads, one after the other.
func (m *Model) askFor(j job, bodies []drain.Body, said string) tea.Cmd {
	verbs := m.opt.Verbs
	return m.start(j, func(ctx context.Context) (string, error) {
		var errs []error
		for _, b := range bodies {
			if err := verbs.Ask(ctx, j.host, b); err != nil {
				errs = append(errs, err)
			}
		}
		if n := len(bodies) - len(errs); len(errs) > 0 && len(bodies) > 1 {
			return "", someOf(n, len(bodies), errs)
		}
		return said, errors.Join(errs...)
	})
}

// someOf is the answer to an act on several workloads that was not done to all of
// them. Where each that failed was refused, it is a refusal with all the reasons.
func someOf(done, all int, errs []error) error {
	reasons := []fleet.Issue{because(fmt.Sprintf("%d of %d were asked for", done, all))}
	for _, err := range errs {
		var r feed.Refusal
		if !errors.As(err, &r) {
			return fmt.Errorf("%d of %d were asked for: %w", done, all, errors.Join(errs...))
		}
		reasons = append(reasons, r.Reasons()...)
	}
	return refusedSome(reasons)
}

// refusedSome is a refusal of a part of what was asked.
type refusedSome []fleet.Issue

func (r refusedSome) Error() string          { return r[0].Detail }
func (r refusedSome) Reasons() []fleet.Issue { return r }

// readGate has host and claims read anew, with Verify a proof made.
func (m *Model) readGate(verb feed.Verb, h fleet.HostID) tea.Cmd {
	j := job{verb: verb, host: h}
	id, ok := m.begin(j)
	if !ok {
		return nil
	}
	m.gateGen++
	gen, verbs, ctx := m.gateGen, m.opt.Verbs, m.ctx
	m.panes.gate.m = m.panes.gate.now().SetHost(h).SetBusy(verb)
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, verbLimit)
		defer cancel()
		read := verbs.Check
		if verb == feed.Verify {
			read = verbs.Verify
		}
		g, err := read(ctx, h)
		return gateMsg{gen, id, j, g, err}
	}
}

// gated takes what was read, unless something newer was asked for since.
func (m *Model) gated(g gateMsg) tea.Cmd {
	m.end(g.job, g.id)
	if g.gen != m.gateGen || m.panes.gate.Host() != g.job.host {
		return nil
	}
	m.panes.gate.m = m.panes.gate.now().SetGate(g.gate, g.err)
	if g.job.verb != feed.Verify {
		return nil
	}
	switch {
	case g.err != nil:
		return m.failed(g.job, g.err)
	case len(g.gate.Issues) > 0:
		m.say(noteBad, fmt.Sprintf("%s: no proof, %d things stand in the way", g.job, len(g.gate.Issues)))
	case g.gate.Proof != nil:
		m.say(noteOK, g.job.String()+": the host has signed "+words.Text(g.gate.Proof.Path))
	}
	return nil
}

// plansAtOnce is how many hosts are planned at a time: each is read anew for it.
const plansAtOnce = 4

// planOf shows what drains of several hosts would do, below each other.
func (m *Model) planOf(hosts []fleet.HostID) tea.Cmd {
	m.panes.plan.m = m.panes.plan.now().SetHosts(nil).SetHosts(hosts) // anew, whatever was made before
	return m.open(keys.Plan, hosts[0])
}

// makePlans has the plan of every host on the plan screen made anew.
func (m *Model) makePlans(r feed.Request) tea.Cmd {
	if m.film != nil {
		m.say(noteBad, isReplay(feed.Plan))
		return nil
	}
	m.planGen++
	m.planNext = slices.Clone(m.panes.plan.now().Hosts())
	var cmds []tea.Cmd
	for range plansAtOnce {
		cmds = append(cmds, m.nextPlan(r))
	}
	return tea.Batch(cmds...)
}

// nextPlan begins the next of the plans that are to be made.
func (m *Model) nextPlan(r feed.Request) tea.Cmd {
	if len(m.planNext) == 0 {
		return nil
	}
	h := m.planNext[0]
	m.planNext = m.planNext[1:]
	m.panes.plan.m = m.panes.plan.now().SetBusy(h)
	return m.makePlan(h, r, nil)
}

// makePlan asks what a drain would do, for the plan screen or for a form.
func (m *Model) makePlan(h fleet.HostID, r feed.Request, f *form) tea.Cmd {
	if m.film != nil {
		m.say(noteBad, isReplay(feed.Plan))
		return nil
	}
	gen, verbs, ctx := m.planGen, m.opt.Verbs, m.ctx
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, verbLimit)
		defer cancel()
		p, err := verbs.Plan(ctx, h, r)
		return planMsg{gen, h, r, p, err, f}
	}
}

// planned takes a plan. One that nobody waits for any more is dropped.
func (m *Model) planned(p planMsg) tea.Cmd {
	if p.form == nil {
		if p.gen != m.planGen {
			return nil
		}
		m.panes.plan.m = m.panes.plan.now().SetPlan(p.host, p.plan, p.request, p.err)
		return m.nextPlan(p.request)
	}
	if m.over != p.form || !p.form.busy {
		return nil // the form was closed
	}
	if p.err != nil {
		p.form.busy, p.form.problem = false, words.Text(p.err.Error())
		return nil
	}
	m.over = nil
	return m.askDrain(p.host, p.request, p.plan)
}

// wantPlan goes to the plan, or makes those that are shown for another deadline.
func (m *Model) wantPlan(w feed.Want) tea.Cmd {
	if !w.Edit {
		return m.open(keys.Plan, w.Host)
	}
	now := w.Request.Deadline
	if now <= 0 {
		now = defaultDeadline
	}
	m.line = m.input("plan for a deadline in", words.Duration(now), func(m *Model, text string) tea.Cmd {
		d, err := words.ReadDuration(text)
		if err != nil {
			m.say(noteBad, err.Error())
			return nil
		}
		r := w.Request
		r.Deadline = d
		return m.makePlans(r)
	})
	m.line.check = readable
	return nil
}

// runningText names what is under way, the longest first.
func (m *Model) runningText(now time.Time) string {
	type one struct {
		job
		run
	}
	var all []one
	for j, r := range m.running {
		all = append(all, one{j, r})
	}
	if len(all) == 0 {
		return ""
	}
	slices.SortFunc(all, func(a, b one) int { return a.id - b.id })
	text := all[0].job.String() + m.env.Theme.Glyphs.Ellipsis
	if d := now.Sub(all[0].since); d >= time.Second {
		text += " " + widget.Age(d)
	}
	if n := len(all) - 1; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

package tui

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
)

// source hands over what a test sets.
type source struct {
	mu      sync.Mutex
	frame   feed.Frame
	changed chan struct{}
}

func newSource(f feed.Frame) *source { return &source{frame: f, changed: make(chan struct{})} }

func (s *source) Latest() (feed.Frame, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frame, s.changed
}

func (s *source) set(f feed.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frame = f
	close(s.changed)
	s.changed = make(chan struct{})
}

// verbs notes what was called.
type verbs struct {
	mu    sync.Mutex
	calls []string
	focus []fleet.HostID
	gate  feed.Gate
	err   error
	block chan struct{} // if set, verbs wait for it
}

func (v *verbs) note(ctx context.Context, format string, args ...any) error {
	v.mu.Lock()
	v.calls = append(v.calls, fmt.Sprintf(format, args...))
	err, block := v.err, v.block
	v.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

func (v *verbs) called() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return strings.Join(v.calls, "\n")
}

func (v *verbs) Focus(hosts ...fleet.HostID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.focus = hosts
}

func (v *verbs) Cordon(ctx context.Context, h fleet.HostID, reason string) (string, error) {
	return "plane and host are told", v.note(ctx, "cordon %s %s", h, reason)
}

func (v *verbs) Reword(ctx context.Context, h fleet.HostID, reason string) (string, error) {
	return "its reason is another one now", v.note(ctx, "reword %s %s", h, reason)
}

func (v *verbs) Uncordon(ctx context.Context, h fleet.HostID, theirs bool) (string, error) {
	return "lifted", v.note(ctx, "uncordon %s theirs=%v", h, theirs)
}

func (v *verbs) Plan(_ context.Context, h fleet.HostID, r feed.Request) (drain.Plan, error) {
	return fakePlan(h, r), nil
}

func (v *verbs) Drain(ctx context.Context, h fleet.HostID, r feed.Request, p drain.Plan) (string, error) {
	return "drain d-99 has begun", v.note(ctx, "drain %s %s %s %q %d", h, r.Deadline, r.For, r.Reason, len(p.Items))
}

func (v *verbs) Undrain(ctx context.Context, h fleet.HostID) (string, error) {
	return "lifted", v.note(ctx, "undrain %s", h)
}

func (v *verbs) Ask(ctx context.Context, h fleet.HostID, b drain.Body) error {
	return v.note(ctx, "ask %s %s %+v", h, b.Kind(), b)
}

func (v *verbs) Clean(ctx context.Context, h fleet.HostID, r fleet.Resource) (string, error) {
	return "gone", v.note(ctx, "clean %s %s %s", h, r.Key, r.Identity)
}

func (v *verbs) Check(context.Context, fleet.HostID) (feed.Gate, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	g := v.gate
	g.Proof = nil
	return g, nil
}

func (v *verbs) Verify(ctx context.Context, h fleet.HostID) (feed.Gate, error) {
	err := v.note(ctx, "verify %s", h)
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.gate, err
}

func (v *verbs) Accept(ctx context.Context, h fleet.HostID, k fleet.Key, reason, typed string) error {
	return v.note(ctx, "accept %s %s %q %q", h, k, reason, typed)
}

func (v *verbs) Terminate(ctx context.Context, h fleet.HostID, typed string) error {
	return v.note(ctx, "terminate %s %q", h, typed)
}

func (v *verbs) Stop() { _ = v.note(context.Background(), "stop") }

// refusal is what verbs refuse with.
type refusal struct{ issues []fleet.Issue }

func (r refusal) Error() string          { return "refused" }
func (r refusal) Reasons() []fleet.Issue { return r.issues }

// openGate is a gate that nothing shuts.
func openGate(h fleet.HostID) feed.Gate {
	probes := []fleet.ProbeStatus{{Name: "processes", Status: fleet.OK, At: now}, {Name: "workloads", Status: fleet.OK, At: now},
		{Name: "gpus", Status: fleet.NotApplicable, Error: "no NVIDIA device"}}
	return feed.Gate{Host: h, At: now, Probes: probes, Kept: []string{"ebbd", "dcgm-exporter"}, Command: "cloudctl instances terminate i-0f3146",
		Holds: fleet.Holds{Cordon: cordonHold("mira", "CVE", time.Hour), Drain: drainHold("d-32")},
		Proof: &feed.Proof{Path: "~/.cache/ebb/proofs/prod_gpu-046.json", Digest: "9f2c41aa77e09f2c41aa77e0", Made: now, Expires: hence(5 * time.Minute)}}
}

func lockedGate(h fleet.HostID) feed.Gate {
	g := openGate(h)
	g.Proof, g.Issues = nil, []fleet.Issue{leakIssue}
	return g
}

// console is a model under test with a clock and a hand on its commands.
type console struct {
	t     *testing.T
	m     *Model
	v     *verbs
	src   *source
	clock time.Time
	quit  bool
}

// open makes a console of a size, with a frame taken.
func open(t *testing.T, f feed.Frame, w, h int, change func(*Options)) *console {
	t.Helper()
	c := &console{t: t, v: &verbs{}, src: newSource(f), clock: now}
	o := Options{Source: c.src, Verbs: c.v, Theme: "mono", Now: func() time.Time { return c.clock }, Local: time.FixedZone("EST", -5*3600),
		Getenv: func(k string) string { return map[string]string{"LANG": "C.UTF-8", "TERM": "xterm-256color"}[k] }}
	if change != nil {
		change(&o)
	}
	m, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c.m = m
	c.send(tea.WindowSizeMsg{Width: w, Height: h})
	c.frame(f)
	return c
}

// frame hands a frame over, without the command that would wait for the next.
func (c *console) frame(f feed.Frame) {
	c.m.take(f)
	c.m.Screen()
}

// send delivers a message and everything that follows from it at once: commands
// that wait for time, for the terminal or for the feed are left out.
func (c *console) send(msg tea.Msg) {
	c.t.Helper()
	c.run(c.m.update(msg))
	c.m.Screen()
}

func (c *console) run(cmd tea.Cmd) {
	c.t.Helper()
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case nil:
	case tea.BatchMsg:
		for _, one := range msg {
			c.run(one)
		}
	case tea.QuitMsg:
		c.quit = true
	case feed.Want, feed.Open, feed.Show, feed.Say, feed.Play, tapeMsg, doneMsg, planMsg, gateMsg:
		c.send(msg)
	default:
		if seq := sequence(msg); seq != nil {
			for _, one := range seq {
				c.run(one)
			}
		}
	}
}

// press types keys: each a name such as "enter", or one character. Each comes
// long enough after the one before to be no repeat.
func (c *console) press(names ...string) {
	c.t.Helper()
	for _, n := range names {
		c.clock = c.clock.Add(150 * time.Millisecond)
		c.send(keyPress(n))
	}
}

// text types each character of a word.
func (c *console) text(s string) {
	c.t.Helper()
	for _, r := range s {
		c.press(string(r))
	}
}

// command enters a command as if it had been typed.
func (c *console) command(s string) {
	c.t.Helper()
	c.press(":")
	c.m.line.prompt.SetValue(s)
	c.press("enter")
}

// painted has the terminal answer both queries of a dialog.
func (c *console) painted() {
	for range 4 {
		x, y := c.m.guard.Expected()
		c.send(tea.CursorPositionMsg{X: x, Y: y})
	}
}

func (c *console) shows(want ...string) {
	c.t.Helper()
	screen := ansi.Strip(c.m.Screen())
	for _, w := range want {
		if !strings.Contains(screen, w) {
			c.t.Errorf("the screen does not show %q:\n%s", w, screen)
		}
	}
}

func (c *console) showsNot(not ...string) {
	c.t.Helper()
	screen := ansi.Strip(c.m.Screen())
	for _, w := range not {
		if strings.Contains(screen, w) {
			c.t.Errorf("the screen shows %q:\n%s", w, screen)
		}
	}
}

// only wants exactly these calls of verbs.
func (c *console) only(want ...string) {
	c.t.Helper()
	if got := c.v.called(); got != strings.Join(want, "\n") {
		c.t.Errorf("called:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

func keyPress(name string) tea.KeyPressMsg {
	special := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft,
		"right": tea.KeyRight, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "backspace": tea.KeyBackspace, "home": tea.KeyHome, "end": tea.KeyEnd}
	if r, ok := special[name]; ok {
		return tea.KeyPressMsg{Code: r}
	}
	switch name {
	case "space":
		return tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}
	case " ":
		return tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}
	case "ctrl+c":
		return tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	case "ctrl+u":
		return tea.KeyPressMsg{Code: 'u', Mod: tea.ModCtrl}
	}
	r := []rune(name)
	if len(r) != 1 {
		panic(errors.New("no key is called " + name))
	}
	return tea.KeyPressMsg{Code: r[0], Text: name}
}

package widget

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"go.uber.org/goleak"
)

// asker is a program that opens a dialog on "t" and notes how it was answered.
type asker struct {
	guard   *Guard
	dialog  *Confirm
	verdict chan Verdict
	painted chan struct{}
}

func (m *asker) Init() tea.Cmd { return m.guard.Start() }

func (m *asker) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.CursorPositionMsg:
		cmd := m.guard.Answer(msg.X, msg.Y)
		if m.dialog != nil && m.guard.seen {
			close(m.painted)
		}
		return m, cmd
	case tea.KeyPressMsg:
		if m.dialog == nil {
			if msg.String() != "t" {
				return m, nil
			}
			var cmd tea.Cmd
			m.dialog, cmd = NewConfirm(Question{Title: "SEEN BY THE PERSON", Act: "uncordon", Undoable: true}, m.guard, time.Now())
			return m, cmd
		}
		if v := m.dialog.Key(msg, time.Now()); v != Open {
			m.verdict <- v
			return m, tea.Quit
		}
	}
	return m, nil
}

func (m *asker) View() tea.View {
	text := "nothing asked"
	if m.dialog != nil {
		text = strings.Join(m.dialog.q.Lines, "\n") + m.dialog.q.Title
	}
	v := tea.NewView(text)
	v.AltScreen = true
	return v
}

// query asks from a place for the place.
var query = regexp.MustCompile("\x1b\\[([0-9]+;[0-9]+)H\x1b\\[6n")

// terminal reads what the program writes and answers each query in turn. It
// keeps how much had been written when each query came.
type terminal struct {
	mu      sync.Mutex
	screen  bytes.Buffer
	queries []int
	asked   int
	keys    *io.PipeWriter
	answer  chan string
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.screen.Write(p)
	for {
		text := t.screen.String()[t.asked:]
		k := query.FindStringSubmatchIndex(text)
		if k == nil {
			return len(p), nil
		}
		t.queries = append(t.queries, t.asked+k[1])
		t.answer <- "\x1b[" + text[k[2]:k[3]] + "R"
		t.asked += k[1]
	}
}

// A key that was typed ahead must not answer, and the answer that opens the
// dialog's ears must lie behind its frame in what the terminal was sent.
func TestGuardInAProgram(t *testing.T) {
	defer goleak.VerifyNone(t)
	in, keys := io.Pipe()
	term := &terminal{keys: keys, answer: make(chan string, 16)}
	m := &asker{guard: &Guard{}, verdict: make(chan Verdict, 1), painted: make(chan struct{})}
	p := tea.NewProgram(m, tea.WithInput(in), tea.WithOutput(term), tea.WithWindowSize(80, 24),
		tea.WithoutSignalHandler(), tea.WithEnvironment([]string{"TERM=xterm-256color"}))
	var wg sync.WaitGroup
	typed := make(chan string, 16)
	quit := make(chan struct{})
	wg.Go(func() { // one stream, as from a terminal: keys and answers in order
		for {
			select {
			case s := <-term.answer:
				_, _ = io.WriteString(keys, s)
			case s := <-typed:
				_, _ = io.WriteString(keys, s)
			case <-quit:
				return
			}
		}
	})
	done := make(chan error, 1)
	go func() {
		_, err := p.Run()
		done <- err
	}()
	typed <- "ty" // y is typed ahead, before the dialog can have been seen
	select {
	case <-m.painted:
	case v := <-m.verdict:
		t.Errorf("a key typed ahead answered: %v", v)
	case <-time.After(10 * time.Second):
		t.Error("the dialog was never painted")
	}
	typed <- "n"
	select {
	case v := <-m.verdict:
		if v != No {
			t.Errorf("answered %v", v)
		}
	case <-time.After(10 * time.Second):
		t.Error("a key typed after the paint does not count")
		p.Kill()
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	close(quit)
	wg.Wait()
	_ = keys.Close()
	_ = in.Close()

	term.mu.Lock()
	defer term.mu.Unlock()
	if len(term.queries) != 3 {
		t.Fatalf("%d queries, want one at the start and two for the dialog", len(term.queries))
	}
	if sent := term.screen.String()[:term.queries[2]]; !strings.Contains(sent, "SEEN BY") {
		t.Errorf("the last query went out before the question: %q", sent)
	}
}

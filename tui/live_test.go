package tui

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"go.uber.org/goleak"

	"ebb/tui/keys"
)

// loop runs a model as a program would, without a terminal: one goroutine for
// Update, one for each command.
type loop struct {
	m     *Model
	msgs  chan tea.Msg
	wg    sync.WaitGroup
	mu    sync.Mutex
	count map[string]int
}

func (l *loop) run(ctx context.Context, cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	l.wg.Go(func() {
		msg := cmd()
		if batch, ok := msg.(tea.BatchMsg); ok {
			for _, c := range batch {
				l.run(ctx, c)
			}
			return
		}
		if msg == nil {
			return
		}
		select {
		case l.msgs <- msg:
		case <-ctx.Done():
		}
	})
}

func (l *loop) start(ctx context.Context) {
	l.run(ctx, l.m.Init())
	l.wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case msg := <-l.msgs:
				l.mu.Lock()
				switch msg.(type) {
				case tickMsg:
					l.count["tick"]++
				case frameMsg:
					l.count["frame"]++
				case gateMsg:
					l.count["gate"]++
				}
				_, cmd := l.m.Update(msg)
				l.m.View()
				l.mu.Unlock()
				l.run(ctx, cmd)
			}
		}
	})
}

func (l *loop) screen() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ansi.Strip(l.m.Screen())
}

func (l *loop) take(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.count[name]
	l.count[name] = 0
	return n
}

// live runs a test in a bubble of its own time, which begins at the fixture's
// moment.
func live(t *testing.T, test func(l *loop, src *source)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.Sleep(time.Until(now))
		src := newSource(fixture())
		m, err := New(ctx, Options{Source: src, Verbs: &verbs{}, Theme: "mono", Local: time.UTC, Getenv: func(k string) string {
			return map[string]string{"LANG": "C.UTF-8"}[k]
		}})
		if err != nil {
			t.Fatal(err)
		}
		l := &loop{m: m, msgs: make(chan tea.Msg), count: map[string]int{}}
		l.start(ctx)
		l.msgs <- tea.WindowSizeMsg{Width: 120, Height: 36}
		synctest.Wait()
		test(l, src)
		cancel()
		l.wg.Wait()
	})
}

func TestCountdownsGoOnceASecond(t *testing.T) {
	live(t, func(l *loop, _ *source) {
		for range 2 {
			l.msgs <- keyPress("j") // from gpu-041 and back
			l.msgs <- keyPress("k")
		}
		l.msgs <- keyPress("enter")
		synctest.Wait()
		want := []string{"24:10 left", "3:40", "5:30  KILL 14:31"}
		for range 3 {
			for _, w := range want {
				if got := l.screen(); !strings.Contains(got, w) {
					t.Fatalf("no %q:\n%s", w, got)
				}
			}
			want = []string{map[string]string{"24:10 left": "24:09 left", "24:09 left": "24:08 left"}[want[0]],
				map[string]string{"3:40": "3:39", "3:39": "3:38"}[want[1]], map[string]string{"5:30  KILL 14:31": "5:29  KILL 14:31", "5:29  KILL 14:31": "5:28  KILL 14:31"}[want[2]]}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if n := l.take("tick"); n != 3 {
			t.Errorf("%d ticks in three seconds", n)
		}
	})
}

func TestNothingTicksWhereNothingCounts(t *testing.T) {
	live(t, func(l *loop, _ *source) {
		l.msgs <- keyPress("7")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		l.take("tick")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if n := l.take("tick"); n > 4 {
			t.Errorf("%d ticks in half a minute on a page of the past", n)
		}
		if l.m.cur != keys.Log {
			t.Error("not on the log")
		}
	})
}

// However many frames there are, the console takes ten a second, and the last
// one in the end.
func TestFramesAreBounded(t *testing.T) {
	live(t, func(l *loop, src *source) {
		l.take("frame")
		f := fixture()
		for i := range 500 {
			f.Snapshot.Seq = uint64(100 + i)
			src.set(f)
			time.Sleep(2 * time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := l.take("frame"); n < 5 || n > 12 {
			t.Errorf("%d frames in a second", n)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if got := l.m.frame.Snapshot.Seq; got != 599 {
			t.Errorf("the last frame taken is %d", got)
		}
	})
}

// The gate is read anew while it is looked at, and never twice at once.
func TestTheGateIsReadAnew(t *testing.T) {
	live(t, func(l *loop, _ *source) {
		l.msgs <- keyPress("4")
		time.Sleep(35 * time.Second)
		synctest.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		if n := l.count["gate"]; n < 3 || n > 4 {
			t.Errorf("read %d times in 35 seconds", n)
		}
	})
}

// A dialog on a terminal that answers no query opens its ears after a pause.
func TestDialogOnATerminalThatDoesNotAnswer(t *testing.T) {
	live(t, func(l *loop, _ *source) {
		l.msgs <- keyPress("q")
		synctest.Wait()
		if l.m.over != nil {
			t.Fatal("quit asks although nothing is driven")
		}
		l.msgs <- keyPress("u") // gpu-041 is cordoned
		synctest.Wait()
		l.msgs <- keyPress("y")
		synctest.Wait()
		if got := l.screen(); !strings.Contains(got, "wait") {
			t.Errorf("the question took a key before its pause:\n%s", got)
		}
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if got := l.screen(); !strings.Contains(got, "y uncordon") {
			t.Errorf("still deaf:\n%s", got)
		}
	})
}

// buffer is a terminal that takes everything.
type buffer struct {
	mu    sync.Mutex
	b     bytes.Buffer
	saw   chan struct{}
	until string
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Write(p)
	if b.saw != nil && strings.Contains(b.b.String(), b.until) {
		close(b.saw)
		b.saw = nil
	}
	return len(p), nil
}

func options(src *source, v *verbs, in io.Reader, out io.Writer) Options {
	return Options{Source: src, Verbs: v, Theme: "mono", Input: in, Output: out,
		Getenv: func(k string) string { return map[string]string{"LANG": "C.UTF-8"}[k] },
		Extra:  []tea.ProgramOption{tea.WithWindowSize(80, 24), tea.WithEnvironment([]string{"TERM=xterm-256color"})}}
}

func TestRunAndQuit(t *testing.T) {
	defer goleak.VerifyNone(t)
	in, keys := io.Pipe()
	saw := make(chan struct{})
	out := &buffer{saw: saw, until: "gpu-017"}
	v := &verbs{}
	done := make(chan error, 1)
	go func() { done <- Run(context.Background(), options(newSource(fixture()), v, in, out)) }()
	wait(t, saw, "the fleet is never drawn")
	if _, err := io.WriteString(keys, "q"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("q does not end it")
	}
	_ = keys.Close()
	_ = in.Close()
	if v.called() != "stop" {
		t.Errorf("called %q", v.called())
	}
}

func wait(t *testing.T, c <-chan struct{}, otherwise string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatal(otherwise)
	}
}

// stuck is a terminal that stops reading.
type stuck struct {
	once  sync.Once
	began chan struct{}
	free  chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.began) })
	<-s.free
	return len(p), nil
}

func TestAStuckTerminalHoldsNothingUp(t *testing.T) {
	defer goleak.VerifyNone(t)
	in, keys := io.Pipe()
	out := &stuck{began: make(chan struct{}), free: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, options(newSource(fixture()), &verbs{}, in, out)) }()
	wait(t, out.began, "nothing is written")
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Run waits for a terminal that does not read")
	}
	close(out.free)
	_ = keys.Close()
	_ = in.Close()
}

func sizeOption(w, h int) tea.ProgramOption { return tea.WithWindowSize(w, h) }

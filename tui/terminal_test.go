package tui

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"go.uber.org/goleak"

	"ebb/fleet"
)

// person sits at a real terminal emulator, which answers queries as terminals
// do. What is typed and what the terminal answers go down one stream.
type person struct {
	t    *testing.T
	term *vt.SafeEmulator
	in   *io.PipeWriter
	done chan error
	stop context.CancelFunc
	wg   sync.WaitGroup
	past atomic.Int64 // of the console's clock, since the fixture's moment
}

func sit(t *testing.T, src *source, v *verbs, w, h int) *person {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	in, keys := io.Pipe()
	p := &person{t: t, term: vt.NewSafeEmulator(w, h), in: keys, done: make(chan error, 1), stop: cancel}
	o := options(src, v, in, lines{p.term})
	o.Now = func() time.Time { return now.Add(time.Duration(p.past.Load())) }
	o.Extra = o.Extra[1:]
	o.Extra = append(o.Extra, sizeOption(w, h))
	p.wg.Go(func() { // the terminal's answers
		buf := make([]byte, 256)
		for {
			n, err := p.term.Read(buf)
			if err != nil {
				return
			}
			if _, err := keys.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	go func() { p.done <- Run(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-p.done:
		case <-time.After(5 * time.Second):
			t.Error("the console does not end")
		}
		_ = keys.Close()
		_ = in.Close()
		if pipe, ok := p.term.InputPipe().(io.Closer); ok {
			_ = pipe.Close() // ends the reader, which Close would race with
		}
		p.wg.Wait()
	})
	return p
}

// lines does what a terminal's driver does to line feeds.
type lines struct{ to io.Writer }

func (l lines) Write(b []byte) (int, error) {
	if _, err := l.to.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// types types like a person: there is time between two keys, by the console's
// clock.
func (p *person) types(s string) {
	p.t.Helper()
	for _, r := range s {
		p.past.Add(int64(150 * time.Millisecond))
		if _, err := io.WriteString(p.in, string(r)); err != nil {
			p.t.Fatal(err)
		}
	}
}

// screen is what the terminal shows. Of the emulator's two ways to say it, this
// is the one that may be called while it is written to.
func (p *person) screen() string { return ansi.Strip(p.term.Render()) }

// sees waits until the terminal shows a text.
func (p *person) sees(text string) {
	p.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if strings.Contains(p.screen(), text) {
			return
		}
	}
	p.t.Fatalf("the terminal never shows %q:\n%s", text, p.screen())
}

func TestTerminateAtATerminal(t *testing.T) {
	defer goleak.VerifyNone(t)
	v := &verbs{gate: openGate(gpu046)}
	t.Run("journey", func(t *testing.T) {
		p := sit(t, newSource(fixture()), v, 100, 30)
		p.sees("gpu-046")
		p.types("/gpu-046\r4")
		p.sees("can it be terminated?")
		p.types("v")
		p.sees("the proof holds")
		p.types("t")
		p.sees("type gpu-046 to terminate")
		p.types("\r") // Enter alone
		p.sees("not done: terminate gpu-046")
		p.types("t")
		p.sees("type gpu-046 to terminate")
		p.types("gpu-046\r")
		p.sees("done, and written down")
	})
	if got := v.called(); got != "verify prod/gpu-046\nterminate prod/gpu-046 \"gpu-046\"" {
		t.Errorf("called %s", got)
	}
}

// Keys that were typed ahead, before a dialog was on the screen, answer nothing.
func TestTypedAheadAtATerminal(t *testing.T) {
	defer goleak.VerifyNone(t)
	v := &verbs{}
	t.Run("journey", func(t *testing.T) {
		p := sit(t, newSource(fixture()), v, 100, 30)
		p.sees("gpu-017")
		p.types("/gpu-017\r")
		if _, err := io.WriteString(p.in, "uy"); err != nil { // one write
			t.Fatal(err)
		}
		p.sees("y uncordon")
		if got := v.called(); got != "" {
			t.Errorf("called %s", got)
		}
		p.types("y")
		p.sees("uncordon gpu-017: lifted")
	})
}

// A stale row on the terminal means acting on the wrong host: what it shows after
// scrolling, filtering and new frames is what a fresh draw shows.
func TestTheTerminalShowsWhatIsDrawn(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Run("journey", func(t *testing.T) {
		src := newSource(fixture())
		p := sit(t, src, &verbs{}, 90, 20)
		p.sees("gpu-041")
		p.types("G/gpu-05\r")
		p.sees("/gpu-05")
		f, _ := src.Latest()
		f.Snapshot.Hosts = append([]fleet.HostView{}, f.Snapshot.Hosts...)
		f.Snapshot.Seq++
		for i := range f.Snapshot.Hosts {
			f.Snapshot.Hosts[i].Host.Labels = map[string]string{"pool": "b"}
		}
		src.set(f)
		p.types("\x1b")
		p.sees("gpu-044")
		p.types("g")
		p.sees("1 of 18")
		p.types("s")
		p.sees("sorted: host")
		for _, name := range []string{"db-03", "gpu-017", "gpu-041", "gpu-042", "gpu-043"} {
			if n := strings.Count(p.screen(), " "+name+" "); n != 1 {
				t.Errorf("%s stands there %d times:\n%s", name, n, p.screen())
			}
		}
	})
}

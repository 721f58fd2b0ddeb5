package tui

import (
	"bytes"
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/paint"
)

// frames is a terminal that notes when it was sent something to show.
type frames struct {
	mu sync.Mutex
	at []time.Time
}

// queries are what is sent without anything to show.
var queries = regexp.MustCompile(`\x1b7\x1b\[[0-9;]*H\x1b\[6n\x1b8`)

func (f *frames) Write(b []byte) (int, error) {
	if rest := queries.ReplaceAll(b, nil); len(bytes.TrimSpace(rest)) > 0 {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.at = append(f.at, time.Now())
	}
	return len(b), nil
}

// since is how many came after a moment, and how many at most within any second.
func (f *frames) since(from time.Time) (all, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, at := range f.at {
		if at.Before(from) {
			continue
		}
		all++
		within := 0
		for _, next := range f.at[i:] {
			if next.Sub(at) < time.Second {
				within++
			}
		}
		most = max(most, within)
	}
	return all, most
}

// paced runs a console at a terminal in a bubble of its own time.
func paced(t *testing.T, slow bool, f feed.Frame, test func(l *loop, src *source, got *frames)) {
	live(t, func(l *loop, src *source) {
		got := &frames{}
		out := paint.NewOutput(got)
		defer out.Close(time.Second)
		l.mu.Lock()
		l.m.canvas.out, l.m.canvas.slow = out, slow
		l.mu.Unlock()
		l.msgs <- tea.ColorProfileMsg{Profile: colorprofile.TrueColor}
		if _, err := out.Write([]byte(ansi.SetModeAltScreenSaveCursor)); err != nil {
			t.Error(err)
		}
		src.set(f)
		time.Sleep(5 * time.Second) // the beginning is over
		test(l, src, got)
	})
}

// A person holds a key down while every host changes all the time: a slow line
// gets four screens a second, others get what they can take.
func TestSlowIsFourFramesASecond(t *testing.T) {
	for name, tc := range map[string]struct {
		slow     bool
		min, max int
	}{"slow": {true, 3, 4}, "not slow": {false, 10, 1000}} {
		t.Run(name, func(t *testing.T) {
			paced(t, tc.slow, fixture(), func(l *loop, src *source, got *frames) {
				from := time.Now()
				for i := range 200 {
					l.msgs <- keyPress([]string{"j", "j", "j", "k"}[i%4])
					src.set(counted(fixture(), i))
					time.Sleep(50 * time.Millisecond)
				}
				all, most := got.since(from)
				if most > tc.max || all < 10*tc.min {
					t.Errorf("%d screens in ten seconds, up to %d in one", all, most)
				}
			})
		})
	}
}

// Nobody types, and time passes: a slow line gets one screen a second, whatever
// else changes meanwhile.
func TestSlowIsOneFrameASecondForCountdowns(t *testing.T) {
	paced(t, true, fixture(), func(l *loop, src *source, got *frames) {
		l.msgs <- keyPress("enter") // the board, on which much counts
		time.Sleep(3 * time.Second)
		from := time.Now()
		for i := range 300 {
			src.set(counted(fixture(), i))
			time.Sleep(100 * time.Millisecond)
		}
		if all, most := got.since(from); most > 1 || all < 25 {
			t.Errorf("%d screens in half a minute, up to %d in a second", all, most)
		}
	})
}

// A question does not wait for its turn, and is the only thing that does not.
func TestSlowShowsAQuestionAtOnce(t *testing.T) {
	paced(t, true, fixture(), func(l *loop, _ *source, got *frames) {
		l.msgs <- keyPress("j")
		l.msgs <- keyPress("k")
		time.Sleep(300 * time.Millisecond)
		from := time.Now()
		l.msgs <- keyPress("u") // gpu-041 is cordoned
		time.Sleep(10 * time.Millisecond)
		if all, _ := got.since(from); all != 1 {
			t.Errorf("%d screens right after a question was asked", all)
		}
	})
}

// counted is a frame in which something has changed.
func counted(f feed.Frame, i int) feed.Frame {
	f.Snapshot.Seq = uint64(1000 + i)
	f.Snapshot.Hosts = slices.Clone(f.Snapshot.Hosts)
	last := &f.Snapshot.Hosts[len(f.Snapshot.Hosts)-1]
	last.Summary.Value.GPUs[0] = i % 8
	return f
}

// Nothing happens in a fleet that is read every two seconds: the screen is quiet,
// since ages are coarse.
func TestAnIdleScreenIsQuiet(t *testing.T) {
	quiet := func(at time.Time) feed.Frame {
		f := feed.Frame{At: at, Made: at, Journal: fleet.ProbeStatus{Name: "journal", Status: fleet.OK, At: at}}
		f.Snapshot.At = at
		f.Snapshot.Planes = []fleet.ProbeStatus{{Name: "prod", Status: fleet.OK, At: at}}
		for _, name := range []string{"gpu-1", "gpu-2", "gpu-3"} {
			h := host(name+"01", [6]int{1, 2, 0, 0, 0, 0}, [2]int{3, 8}, fleet.Holds{}, fleet.Uncordoned)
			h.Summary.At, h.Summary.Value.At, h.Facts.At, h.Facts.Value.At, h.Claims.At, h.Host.Heartbeat = at, at, at, at, at, at
			f.Snapshot.Hosts = append(f.Snapshot.Hosts, h)
		}
		return f
	}
	paced(t, false, quiet(now), func(_ *loop, src *source, got *frames) {
		from := time.Now()
		for range 150 {
			src.set(quiet(time.Now()))
			time.Sleep(2 * time.Second)
		}
		// The clock in the corner shows minutes, and five of them pass.
		if all, _ := got.since(from); all < 5 || all > 10 {
			t.Errorf("%d screens in five minutes in which nothing happens", all)
		}
	})
}

// Two consoles whose clocks are an hour and a half, and some odd part of a second,
// apart show the same second of every countdown, at every moment: both count by
// the journal's clock.
func TestTwoConsolesShowTheSameSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.Sleep(time.Until(now))
		var loops []*loop
		for _, skew := range []time.Duration{-83*time.Minute - 417*time.Millisecond, 9*time.Minute + 731*time.Millisecond} {
			local := func() time.Time { return time.Now().Add(skew) }
			f := fixture()
			f.At, f.Made = now, local() // the journal's clock in the moment when it was asked
			shift(&f, skew)
			m, err := New(ctx, Options{Source: newSource(f), Verbs: &verbs{}, Theme: "mono", Now: local, Local: time.UTC,
				Getenv: func(k string) string { return map[string]string{"LANG": "C.UTF-8"}[k] }})
			if err != nil {
				t.Fatal(err)
			}
			l := &loop{m: m, msgs: make(chan tea.Msg), count: map[string]int{}}
			l.start(ctx)
			l.msgs <- tea.WindowSizeMsg{Width: 120, Height: 36}
			loops = append(loops, l)
		}
		synctest.Wait()
		for _, l := range loops {
			l.msgs <- keyPress("enter")
		}
		seen := map[string]bool{}
		for range 50 {
			synctest.Wait()
			one, two := countdowns(loops[0].screen()), countdowns(loops[1].screen())
			if one == "" || one != two {
				t.Fatalf("at %s one shows\n%s\nand the other\n%s\n%s", time.Now().Format("05.000"), one, two, loops[1].screen())
			}
			seen[one] = true
			time.Sleep(97 * time.Millisecond)
		}
		if len(seen) < 5 {
			t.Errorf("%d seconds were shown in five", len(seen))
		}
		cancel()
		for _, l := range loops {
			l.wg.Wait()
		}
	})
}

// shift has a console read its sources by its own clock.
func shift(f *feed.Frame, skew time.Duration) {
	for i := range f.Snapshot.Hosts {
		h := &f.Snapshot.Hosts[i]
		h.Facts.At, h.Summary.At, h.Claims.At = h.Facts.At.Add(skew), h.Summary.At.Add(skew), h.Claims.At.Add(skew)
	}
	f.Journal.At = f.Journal.At.Add(skew)
}

var clock = regexp.MustCompile(`\b\d+:\d\d(:\d\d)?\b( left)?`)

// countdowns is every time on a screen, in its order, but for the clock in its
// first line.
func countdowns(screen string) string {
	_, screen, _ = strings.Cut(screen, "\n")
	return strings.Join(clock.FindAllString(screen, -1), " ")
}

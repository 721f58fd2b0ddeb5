package plain

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
)

var now = time.Date(2026, 11, 29, 14, 26, 0, 0, time.UTC)

type source struct {
	mu      sync.Mutex
	frame   feed.Frame
	changed chan struct{}
}

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

// lines keeps what is written, and tells of it.
type lines struct {
	mu   sync.Mutex
	cond *sync.Cond
	got  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.cond.Broadcast()
	return l.got.Write(b)
}

func (l *lines) sees(t *testing.T, text string) string {
	t.Helper()
	late := false
	timer := time.AfterFunc(time.Minute, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		late = true
		l.cond.Broadcast()
	})
	defer timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !strings.Contains(l.got.String(), text) {
		if late {
			t.Fatalf("no %q in:\n%s", text, l.got.String())
		}
		l.cond.Wait()
	}
	return l.got.String()
}

func frame(hosts ...fleet.HostView) feed.Frame {
	return feed.Frame{At: now, Made: now, Snapshot: fleet.Snapshot{Seq: 1, At: now, Hosts: hosts, Planes: []fleet.ProbeStatus{{Name: "prod", Status: fleet.OK, At: now}}},
		Journal: fleet.ProbeStatus{Status: fleet.OK, At: now}, Drains: map[fleet.HostID]drain.State{}}
}

func host(name string) fleet.HostView {
	return fleet.HostView{Host: fleet.Host{ID: fleet.HostID("prod/" + name)}, Stable: true,
		Summary: fleet.Read(fleet.Summary{At: now}, "ebbd", now, 0)}
}

func event(t *testing.T, seq uint64, reason string) drain.Event {
	t.Helper()
	e, err := drain.NewEvent("prod/gpu-041", "e"+reason, "", 0, drain.Actor{Name: "mira"}, drain.RecCordon{Reason: reason})
	if err != nil {
		t.Fatal(err)
	}
	e.Seq, e.At = seq, now
	return e
}

// What is parked is named for as long as it is, also behind its drain.
func TestParkedIsNamed(t *testing.T) {
	k := fleet.Key{Kind: "vm", ID: "nb-7"}
	s := drain.State{Drain: "d", Phase: drain.Parked, Items: map[fleet.Key]drain.Item{k: {Found: drain.Found{Key: k},
		Move: drain.Move{Park: true, Done: map[drain.Step]time.Time{drain.StepPark: now}}}}}
	f := frame(host("gpu-041"))
	for _, s.Undone = range []bool{false, true} {
		f.Drains["prod/gpu-041"] = s
		if got := describe(f, f.Snapshot.Hosts[0]); !strings.Contains(got, "parked: vm/nb-7") {
			t.Errorf("lifted %v: %s", s.Undone, got)
		}
	}
}

// One line for each thing that happens, each once, and nothing in them that
// moves a cursor.
func TestLines(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	src := &source{changed: make(chan struct{})}
	out := &lines{}
	out.cond = sync.NewCond(&out.mu)
	done := make(chan error, 1)
	go func() { done <- Run(ctx, src, out, func() time.Time { return now }) }()

	f := frame(host("gpu-041"), host("gpu-042\x1b[2J\n"))
	f.Events = []drain.Event{event(t, 1, "before")}
	src.set(f)
	out.sees(t, "2 hosts")
	out.sees(t, "gpu-041: ")

	bad := host("gpu-042\x1b[2J\n")
	bad.Unreachable, bad.Problem = now, "ssh: no route\x1b[H"
	f = frame(host("gpu-041"), bad)
	f.Events = []drain.Event{event(t, 1, "before"), event(t, 2, "looks\x1b[31m slow")}
	src.set(f)
	out.sees(t, "unreachable since 14:26:00: ssh: no route")
	src.set(f)
	f.Journal = fleet.ProbeStatus{Status: fleet.Failed, Error: "connection refused"}
	f.Snapshot.Hosts = f.Snapshot.Hosts[:1]
	src.set(f)
	out.sees(t, "the journal can't be read: connection refused")
	out.sees(t, "no plane lists it any more")
	f.Journal = fleet.ProbeStatus{Status: fleet.OK}
	src.set(f)
	got := out.sees(t, "the journal can be read again")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if strings.ContainsAny(got, "\x1b\r\b\t") {
		t.Errorf("it moves the cursor: %q", got)
	}
	for text, n := range map[string]int{"before": 0, "slow": 1, "no route": 1} {
		if strings.Count(got, text) != n {
			t.Errorf("%q stands there %d times, want %d:\n%s", text, strings.Count(got, text), n, got)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestAWriterThatFailsEndsIt(t *testing.T) {
	src := &source{changed: make(chan struct{}), frame: frame(host("gpu-041"))}
	if err := Run(t.Context(), src, broken{}, time.Now); err == nil {
		t.Error("nothing is said of it")
	}
}

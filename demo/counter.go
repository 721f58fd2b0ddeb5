package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ebb/drain"
)

// A counter counts: it holds one number, and appends each next one to a log that
// all hosts share, with the name of the host on which it counted. Whoever reads
// that log sees a gap, a number twice, or two hosts at once.
//
// While a file "paused" lies beside its number it does not count, and one that is
// started anew does not either. Number and file are changed under one lock, so
// once that file has been written no number can follow.

const countEvery = 20 * time.Millisecond

func (w site) value() string  { return filepath.Join(w.dir(), "value") }
func (w site) paused() string { return filepath.Join(w.dir(), "paused") }

// lock is held while a workload changes its state.
func (w site) lock() (func(), error) { return lockFile(filepath.Join(w.dir(), "lock")) }

func (w site) read() int {
	raw, err := os.ReadFile(w.value())
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
	return n
}

func there(path string) bool { _, err := os.Stat(path); return err == nil }

// count is the counter's process.
func count(ctx context.Context, w site, log string) error {
	for pause(ctx, countEvery) {
		if err := w.countOnce(log); err != nil {
			return err
		}
	}
	return nil
}

func (w site) countOnce(log string) error {
	unlock, err := w.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if there(w.paused()) {
		return nil
	}
	n := w.read() + 1
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %d\n", filepath.Base(w.Root), n)
	return errors.Join(err, f.Close(), writeFile(w.value(), fmt.Sprintln(n)))
}

type counterState struct {
	Value int `json:"value"`
}

// counterLever moves a counter, or parks it: pausable.
var counterLever = map[drain.Step]step{
	drain.StepSnapshot: {do: counterSnapshot, undo: counterResume},
	drain.StepShip:     {do: counterShip, undo: func(l *lever) error { return remove(l.target.value()) }},
	drain.StepRestore:  {do: counterRestore, undo: counterDestroy},
	drain.StepClock:    {do: counterClock, undo: nothing},
	drain.StepAnswers:  {do: counterAnswers, undo: nothing},
	drain.StepRemove:   {do: counterRemove, undo: nothing},
	drain.StepPark:     {do: counterPark, undo: counterUnpark},
	drain.StepResume:   {do: counterResumeHere, undo: nothing},
}

// counterRemove ends the source, whose claim has moved.
func counterRemove(l *lever) error {
	l.final = true
	return errors.Join(l.source.kill(), os.RemoveAll(l.source.dir()))
}

func nothing(*lever) error { return nil }

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (l *lever) snapshotFile() string { return filepath.Join(l.rec, "snapshot") }

func (l *lever) saved() (counterState, error) {
	var s counterState
	raw, err := os.ReadFile(l.snapshotFile())
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	return s, err
}

func (l *lever) save(n int) error {
	raw, err := json.Marshal(counterState{n})
	if err != nil {
		return err
	}
	l.out, l.note = raw, fmt.Sprintf("at %d", n)
	return writeFile(l.snapshotFile(), string(raw))
}

func counterSnapshot(l *lever) error {
	if there(l.snapshotFile()) && there(l.source.paused()) {
		s, err := l.saved()
		l.note = fmt.Sprintf("at %d", s.Value)
		return err
	}
	unlock, err := l.source.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := writeFile(l.source.paused(), ""); err != nil {
		return err
	}
	return l.save(l.source.read())
}

// counterResume lets the source count on, from where the other copy had come.
func counterResume(l *lever) error {
	unlock, err := l.source.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if s, err := l.saved(); err == nil && s.Value > l.source.read() {
		if err := writeFile(l.source.value(), fmt.Sprintln(s.Value)); err != nil {
			return err
		}
	}
	return errors.Join(remove(l.snapshotFile()), remove(l.source.paused()))
}

func counterShip(l *lever) error {
	s, err := l.saved()
	if err != nil {
		return err
	}
	if l.target.up() {
		return nil
	}
	return writeFile(l.target.value(), fmt.Sprintln(s.Value))
}

func counterRestore(l *lever) error {
	switch {
	case !there(l.source.paused()):
		return refuses("the source counts, and was to be paused")
	case l.target.up():
		return nil
	}
	if err := remove(l.target.paused()); err != nil {
		return err
	}
	_, err := Launch(l.target.Place, l.target.s)
	return err
}

// counterDestroy ends the target's copy and keeps what it had counted: a number
// that stands in the log is never given out again.
func counterDestroy(l *lever) error {
	if err := l.target.kill(); err != nil {
		return err
	}
	if s, err := l.saved(); err == nil && l.target.read() > s.Value {
		if err := l.save(l.target.read()); err != nil {
			return err
		}
	}
	return os.RemoveAll(l.target.dir())
}

func counterClock(l *lever) error {
	l.note = "both hosts have this machine's clock"
	return nil
}

func counterAnswers(l *lever) error {
	s, err := l.saved()
	if err != nil {
		return err
	}
	w := l.target
	if l.stays() {
		w = l.source
	}
	if err := within(func() bool { return w.read() > s.Value }); err != nil {
		return fmt.Errorf("it counts no further than %d on %s: %w", w.read(), filepath.Base(w.Root), err)
	}
	l.note = fmt.Sprintf("counts on %s, at %d", filepath.Base(w.Root), w.read())
	return nil
}

// within waits for something that takes milliseconds on a machine that has time.
func within(ok func() bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for !ok() {
		if !pause(ctx, 10*time.Millisecond) {
			return errors.New("not within 20s")
		}
	}
	return nil
}

// CountLog checks a counter's log: no gap, no number twice, never back to a host
// that it had left. It returns the last number and the hosts in their order.
func CountLog(path string) (last int, hosts []string, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, nil, err
	}
	for line := range strings.Lines(string(raw)) {
		var host string
		var n int
		if _, err := fmt.Sscanf(line, "%s %d", &host, &n); err != nil {
			return last, hosts, fmt.Errorf("%q: %w", line, err)
		}
		if n != last+1 {
			return last, hosts, fmt.Errorf("%d on %s after %d on %v", n, host, last, hosts)
		}
		last = n
		if len(hosts) == 0 || hosts[len(hosts)-1] != host {
			hosts = append(hosts, host)
		}
	}
	return last, hosts, nil
}

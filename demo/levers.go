package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"ebb/drain"
	"ebb/drain/levers"
)

// The levers of the demo are programs like any other: "ebb demo-lever NAME",
// called by the engine as its contract says. They move what a demo host runs by
// what a real one would use, in small: files that are shipped, processes that are
// started, a flag that a primary honours.

// site is one workload on one host.
type site struct {
	Place
	s Spec
}

func (w site) dir() string { return filepath.Join(w.Root, workDir, w.s.Kind+"-"+w.s.ID) }

// lever is one call.
type lever struct {
	levers.Request
	fleet          string // its directory
	rec            string // what this lever remembers of the workload
	source, target site
	note           string          // progress
	out            json.RawMessage // state
	final          bool            // no return
}

// step is one step of a lever, and its way back. Both may come again.
type step struct {
	do   func(*lever) error
	undo func(*lever) error
}

// Steps answer with these where done is not the word.
type (
	waits   string // not yet, and why
	runs    string // it goes on
	refuses string
)

func (w waits) Error() string   { return string(w) }
func (r runs) Error() string    { return string(r) }
func (r refuses) Error() string { return string(r) }

// LeverNames are the levers of a demo fleet, with the kinds of workload that they
// move.
var demoLevers = map[string]map[drain.Step]step{
	"page": pageLever, "counter": counterLever, "store": storeLever,
}

// RunLever answers one question.
func RunLever(name, dir string, in io.Reader, out io.Writer) error {
	var r levers.Request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("demo-lever %s: %w", name, err)
	}
	steps, ok := demoLevers[name]
	if !ok {
		return fmt.Errorf("demo-lever: there is no %q", name)
	}
	reply, err := answerLever(name, dir, steps, r)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(reply)
}

func answerLever(name, dir string, steps map[drain.Step]step, r levers.Request) (levers.Reply, error) {
	l := &lever{Request: r, fleet: dir, rec: filepath.Join(dir, "levers", name, fileName(r.Workload.Kind+"-"+r.Workload.ID))}
	if err := os.MkdirAll(l.rec, 0o700); err != nil {
		return levers.Reply{}, err
	}
	unlock, err := lockFile(filepath.Join(l.rec, "lock")) // one call at a time
	if err != nil {
		return levers.Reply{}, err
	}
	defer unlock()
	st, known := steps[r.Step]
	if err := l.sites(); err != nil {
		return reply(l, err), nil
	}
	if r.Op == "plan" {
		return reply(l, nil), nil
	}
	if err := l.fence(); err != nil {
		return reply(l, err), nil
	}
	switch {
	case !known:
		return reply(l, refuses(fmt.Sprintf("step %q is not one of lever %s", r.Step, name))), nil
	case r.Op == "do":
		if err := l.begun(r.Act); err != nil {
			return levers.Reply{}, err
		}
		return reply(l, l.do(st)), nil
	case r.Op == "status":
		if !there(l.actFile(r.Of)) {
			return reply(l, errors.New("it was never begun, or has been taken back")), nil
		}
		return reply(l, l.do(st)), nil // every step looks before it does anything: to ask is to go on
	case r.Op == "undo":
		return reply(l, l.undo(st)), nil
	}
	return reply(l, refuses("there is no op "+r.Op)), nil
}

func reply(l *lever, err error) levers.Reply {
	r := levers.Reply{Result: drain.Done, Progress: l.note, State: l.out, NoReturn: l.final}
	var wait waits
	var run runs
	var no refuses
	switch {
	case err == nil:
		return r
	case errors.As(err, &run):
		r.Result, r.Progress = drain.RunningAct, string(run)
		return r
	case errors.As(err, &wait):
		r.Result = drain.WaitAct
	case errors.As(err, &no):
		r.Result = drain.Refused
	default:
		r.Result = drain.FailedAct
	}
	r.Reason.Text = err.Error()
	return r
}

// fence refuses a driver that is older than one that was here.
func (l *lever) fence() error {
	file := filepath.Join(l.rec, "epoch-"+fileName(l.Drain))
	var seen uint64
	if raw, err := os.ReadFile(file); err == nil {
		_, _ = fmt.Sscan(string(raw), &seen)
	}
	if l.Epoch < seen {
		return refuses(fmt.Sprintf("epoch %d, and %d has been here", l.Epoch, seen))
	}
	return writeFile(file, fmt.Sprintln(l.Epoch))
}

// do does a step, and remembers of one that is final that it can't be taken back.
func (l *lever) do(st step) error {
	err := st.do(l)
	if err == nil && l.final {
		err = writeFile(l.finalFile(), "")
	}
	return err
}

// undo takes a step back, and forgets the acts that did it: whoever asks about one
// of them later must not bring it about again.
func (l *lever) undo(st step) error {
	if there(l.finalFile()) {
		return refuses(string(l.Step) + " can't be taken back any more")
	}
	if err := st.undo(l); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Dir(l.actFile("")))
}

func (l *lever) actFile(id string) string {
	return filepath.Join(l.rec, "acts", fileName(string(l.Step)), fileName(id)+".act")
}

func (l *lever) finalFile() string {
	return filepath.Join(l.rec, "final-"+fileName(l.Drain)+"-"+fileName(string(l.Step)))
}

func (l *lever) begun(id string) error { return writeFile(l.actFile(id), "") }

// sites finds both hosts' directories; a lever of the demo has nothing to do
// with any other machine.
func (l *lever) sites() error {
	s, err := defined(filepath.Join(l.fleet, "catalog"), l.Workload.Kind, l.Workload.ID)
	if err != nil {
		s = Spec{Kind: l.Workload.Kind, ID: l.Workload.ID}
	}
	for _, h := range []struct {
		to   *site
		name string
	}{{&l.source, l.Source.ID.Name()}, {&l.target, l.Target.ID.Name()}} {
		if h.name == "" {
			continue
		}
		root := filepath.Join(l.fleet, h.name)
		token, err := os.ReadFile(filepath.Join(root, tokenFile))
		if err != nil {
			return refuses("host " + h.name + " is not of this fleet")
		}
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		*h.to = site{Place{Root: root, Token: strings.TrimSpace(string(token)), Exe: exe}, s}
	}
	return nil
}

// shared is a file that all of the demo's hosts and clients can reach.
func shared(fleet, name string) string { return filepath.Join(fleet, "shared", name) }

func (l *lever) shared(ext string) string {
	return shared(l.fleet, fileName(l.Workload.Kind+"-"+l.Workload.ID)+ext)
}

// up reports whether the workload's process runs on a host.
func (w site) up() bool {
	f := pidFile(filepath.Join(w.Root, manifestDir), w.s)
	_, err := os.Stat(f)
	return err == nil && !dead(f)
}

// kill ends the workload on a host for good, and what its owner wrote there.
func (w site) kill() error {
	f := pidFile(filepath.Join(w.Root, manifestDir), w.s)
	if w.up() {
		if err := signalTo(f, w.Token, syscall.SIGKILL); err != nil {
			return err
		}
		if err := within(func() bool { return dead(f) }); err != nil {
			return err
		}
	}
	forget(w.Root, w.s)
	return nil
}

// fileName makes one path element of a name.
func fileName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r < ' ' {
			return '_'
		}
		return r
	}, s)
}

// writeFile writes a file so that no reader sees half of it.
func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// lockFile takes the lock that workload and lever share.
func lockFile(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Script is a story played on a fleet: steps that each hold or fail.
type Script struct {
	Name  string
	About string
	Hosts int
	Steps []Step
}

// Step is one thing that is done, and checked.
type Step struct {
	Title string
	Do    func(ctx context.Context, s *Stage) error
}

// Scripts lists the scripts by name.
func Scripts() []Script {
	return []Script{maintenance(), incident(), deadline(), strategies(), parking()}
}

// Find returns a script by name.
func Find(name string) (Script, error) {
	var known []string
	for _, s := range Scripts() {
		if s.Name == name {
			return s, nil
		}
		known = append(known, s.Name)
	}
	return Script{}, fmt.Errorf("script %q: want one of %s", name, strings.Join(known, ", "))
}

// Stage is what steps act on: the fleet, and the ebb program as an operator uses
// it.
type Stage struct {
	Fleet *Fleet
	Out   io.Writer

	mu      sync.Mutex
	drains  map[string]*Background
	traffic *traffic                    // of what levers move
	late    func(context.Context) error // what was admitted before the cordon and has not landed
}

// Play starts a fleet, plays the script on it, and ends the fleet. It returns
// the first step's error, with its name.
func Play(ctx context.Context, script Script, o Options, out io.Writer) error {
	o.Hosts = script.Hosts
	began := time.Now()
	f, err := Start(ctx, o)
	if err != nil {
		return err
	}
	defer f.Stop()
	fmt.Fprintf(out, "%s: %s (%d hosts, speed %g)\n", script.Name, script.About, o.Hosts, f.Speed)
	s := &Stage{Fleet: f, Out: out, drains: map[string]*Background{}}
	defer s.end()
	for i, step := range script.Steps {
		fmt.Fprintf(out, "\n%d. %s\n", i+1, step.Title)
		if err := step.Do(ctx, s); err != nil {
			fmt.Fprintf(out, "   ✗ %v\n", err)
			return fmt.Errorf("step %d (%s): %w", i+1, step.Title, err)
		}
	}
	if o.Journal != "" {
		if _, err := s.run(ctx, 0, "log", "--export", o.Journal); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\n%s: all %d steps held, in %s\n", script.Name, len(script.Steps), time.Since(began).Round(100*time.Millisecond))
	return nil
}

// held prints what a step has shown.
func (s *Stage) held(format string, args ...any) { fmt.Fprintf(s.Out, "   ✓ "+format+"\n", args...) }

// ebb runs the program and returns what it printed, and its exit status.
func (s *Stage) ebb(ctx context.Context, args ...string) (stdout, stderr string, code int, err error) {
	var out, errs bytes.Buffer
	cmd := s.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	fmt.Fprintf(s.Out, "   $ ebb %s\n", strings.Join(args, " "))
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return out.String(), errs.String(), exit.ExitCode(), nil
	}
	return out.String(), errs.String(), 0, err
}

func (s *Stage) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.Fleet.Exe, args...)
	cmd.Env = append(os.Environ(), "EBB_CONFIG="+s.Fleet.Config(), "EBB_OPERATOR=mira", "XDG_STATE_HOME="+filepath.Join(s.Fleet.Dir, "state"),
		"EBB_LOG="+filepath.Join(s.Fleet.Dir, "ebb.log"))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	return cmd
}

// run runs the program and wants an exit status.
func (s *Stage) run(ctx context.Context, want int, args ...string) (string, error) {
	out, errs, code, err := s.ebb(ctx, args...)
	if err != nil {
		return out, err
	}
	if code != want {
		return out, fmt.Errorf("ebb %s: exit status %d, want %d\n%s%s", strings.Join(args, " "), code, want, out, errs)
	}
	return out + errs, nil
}

// read runs the program with JSON output and decodes it.
func (s *Stage) read(ctx context.Context, into any, args ...string) error {
	out, errs, _, err := s.ebb(ctx, append(args, "-o", "json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("ebb %s: %w\n%s%s", strings.Join(args, " "), err, out, errs)
	}
	return nil
}

// Background is a command that runs beside the script.
type Background struct {
	cmd  *exec.Cmd
	done chan struct{}
	out  lockedBuffer
	code int
}

// background starts the program and prints its lines as they come.
func (s *Stage) background(ctx context.Context, name string, args ...string) error {
	fmt.Fprintf(s.Out, "   $ ebb %s &\n", strings.Join(args, " "))
	b := &Background{cmd: s.command(ctx, args...), done: make(chan struct{})}
	w := &indented{w: io.MultiWriter(s.Out, &b.out)}
	b.cmd.Stdout, b.cmd.Stderr = w, w
	if err := b.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = b.cmd.Wait()
		b.code = b.cmd.ProcessState.ExitCode()
		close(b.done)
	}()
	s.mu.Lock()
	s.drains[name] = b
	s.mu.Unlock()
	return nil
}

// finish waits for a background command and wants an exit status.
func (s *Stage) finish(ctx context.Context, name string, want int) error {
	s.mu.Lock()
	b := s.drains[name]
	s.mu.Unlock()
	select {
	case <-b.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.patience()):
		return fmt.Errorf("%s has not ended after %s", name, s.patience())
	}
	if b.code != want {
		return fmt.Errorf("%s: exit status %d, want %d", name, b.code, want)
	}
	return nil
}

// patience is how long a step may take: generous, since a slow machine is no
// failure.
func (s *Stage) patience() time.Duration { return 2*time.Minute + s.Fleet.Scaled(15*time.Minute) }

// until repeats a check until it holds.
func (s *Stage) until(ctx context.Context, what string, check func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience())
	defer cancel()
	for {
		ok, err := check()
		if ok {
			return nil
		}
		if !pause(ctx, max(s.Fleet.Scaled(2*time.Second), 200*time.Millisecond)) {
			return fmt.Errorf("%s: it has not come about: %w", what, errors.Join(err, ctx.Err()))
		}
	}
}

// end stops what still runs in the background.
func (s *Stage) end() {
	s.traffic.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.drains {
		select {
		case <-b.done:
		default:
			_ = b.cmd.Process.Signal(syscall.SIGTERM)
			<-b.done
		}
	}
}

// quiet is a stage that prints nothing, for repeated looks.
func (s *Stage) quiet() *Stage { return &Stage{Fleet: s.Fleet, Out: io.Discard} }

// indented sets every line in by five spaces.
type indented struct {
	mu  sync.Mutex
	w   io.Writer
	mid bool
}

func (i *indented) Write(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, line := range bytes.SplitAfter(p, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		if !i.mid {
			_, _ = io.WriteString(i.w, "     ")
		}
		_, _ = i.w.Write(line)
		i.mid = line[len(line)-1] != '\n'
	}
	return len(p), nil
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

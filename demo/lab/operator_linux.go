package lab

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
	"sync"
	"syscall"
)

// Result is how a run of ebb ended.
type Result struct {
	Args []string
	Code int // exit status; -1 if a signal ended it
	Out  string
	Err  string
}

func (r Result) String() string {
	return fmt.Sprintf("ebb %q: exit status %d\n%s%s", r.Args, r.Code, r.Out, r.Err)
}

// Run is ebb while it runs.
type Run struct {
	args []string
	cmd  *exec.Cmd
	out  buffer
	errs buffer
	done chan struct{}
}

// buffer can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var _ io.Writer = (*buffer)(nil)

// Ebb runs ebb to its end. A context that ends ends it with SIGKILL.
func (l *Lab) Ebb(ctx context.Context, args ...string) Result {
	r, err := l.Begin(args...)
	if err != nil {
		return Result{Args: args, Code: -1, Err: err.Error()}
	}
	return r.Wait(ctx)
}

// Begin starts ebb as the operator "ann".
func (l *Lab) Begin(args ...string) (*Run, error) { return l.BeginAs("ann", "", args...) }

// BeginAs starts ebb for an operator; config is another configuration than the
// lab's, where it is not empty.
func (l *Lab) BeginAs(operator, config string, args ...string) (*Run, error) {
	if config == "" {
		config = l.File("fleet.toml")
	}
	r := &Run{args: args, done: make(chan struct{})}
	r.cmd = exec.Command(filepath.Join(Bin(Dir()), "ebb"), args...)
	r.cmd.Dir = l.Dir
	r.cmd.Env = []string{"PATH=" + path, "HOME=" + l.File("home"), "EBB_OPERATOR=" + operator, "EBB_CONFIG=" + config, "TZ=UTC", "EBB_LOG=" + l.File("ebb.log")}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.errs
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = r.cmd.Wait() // the exit status is in ProcessState
		close(r.done)
	}()
	return r, nil
}

// Output is what it has printed so far, on both streams.
func (r *Run) Output() string { return r.out.String() + r.errs.String() }

// Ended is closed when it has ended.
func (r *Run) Ended() <-chan struct{} { return r.done }

// Signal sends it a signal.
func (r *Run) Signal(sig os.Signal) error {
	err := r.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Wait waits for its end.
func (r *Run) Wait(ctx context.Context) Result {
	note := ""
	select {
	case <-r.done:
	case <-ctx.Done():
		note = "\n(killed: it took too long)\n"
		_ = r.cmd.Process.Kill()
		<-r.done
	}
	return Result{Args: r.args, Code: r.cmd.ProcessState.ExitCode(), Out: r.out.String(), Err: r.errs.String() + note}
}

// JSON runs a reading command with -o json.
func (l *Lab) JSON(ctx context.Context, into any, args ...string) error {
	r := l.Ebb(ctx, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(r.Out), into); err != nil {
		return fmt.Errorf("%w\n%s", err, r)
	}
	return nil
}

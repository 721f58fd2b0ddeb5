package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/probes/wire"
)

// errEnding says that the agent ended while the act ran: its outcome is not
// known, and it stays begun.
var errEnding = errors.New("the agent is ending")

// ending tells an agent that ends from an act that fails.
func ending(life context.Context, err error) error {
	if life.Err() != nil {
		return errEnding
	}
	return err
}

const (
	outputTail  = 4 << 10
	outputMax   = 1 << 20 // bytes of output that lie in the run directory
	execTimeout = 5 * time.Minute
	killAfter   = 5 * time.Second
	execPoll    = 20 * time.Millisecond
)

// execName is what a kind and an id must look like to reach a command as
// EBB_KIND and EBB_ID: nothing that a shell script could trip over.
var execName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._@:-]{1,128}$`) })

func (a *Agent) checkExec(req wire.ActRequest) error {
	if req.Drain == "" {
		return refuse(wire.CodeBadRequest, "this act needs a drain")
	}
	if _, ok := a.cfg.Commands[req.Command]; !ok {
		return refuse(wire.CodeUnknownName, fmt.Sprintf("no command %q in this host's configuration", req.Command))
	}
	if !execName().MatchString(req.Key.Kind) || !execName().MatchString(req.Key.ID) {
		return refuse(wire.CodeBadRequest, "kind and id of a workload that a command runs for: want 1 to 128 of A-Za-z0-9._@:-")
	}
	if req.Timeout < 0 {
		return refuse(wire.CodeBadRequest, "a negative timeout")
	}
	return nil
}

// exec runs a command of the configuration. The command has a scope or session
// of its own and writes to a file, so that it goes on when the agent ends.
func (a *Agent) exec(ctx context.Context, req wire.ActRequest, reply *wire.ActReply) error {
	cmd := a.cfg.Commands[req.Command]
	timeout := a.timeoutOf(req)
	if len(cmd.Run) == 0 {
		return fmt.Errorf("exec %s: no command line", req.Command)
	}
	who, err := lookUser(cmd.User)
	if err != nil {
		return fmt.Errorf("exec %s: %w", req.Command, err)
	}
	argv := scoped(cmd, req.ID)
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("exec %s: %w", req.Command, err)
	}
	if argv[0] == "systemd-run" {
		who = nil // it changes the user itself
	}
	out, err := a.outputFile(req.ID)
	if err != nil {
		return fmt.Errorf("exec %s: %w", req.Command, err)
	}
	defer out.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()

	a.mu.Lock()
	if err := a.fence(req); err != nil {
		a.mu.Unlock()
		return err
	}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Dir:   "/",
		Env:   append(cleanEnv(os.Environ()), "EBB_KIND="+req.Key.Kind, "EBB_ID="+req.Key.ID, "EBB_ACT="+req.ID),
		Files: []uintptr{null.Fd(), out.Fd(), out.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Credential: who},
	})
	if err == nil {
		a.noteRun(req.ID, pid)
	}
	a.mu.Unlock()
	if err != nil {
		return fmt.Errorf("exec %s: %w", req.Command, err)
	}
	capture := &capture{file: out}
	status, late, err := await(ctx, pid, timeout, capture.bound)
	if err != nil {
		return err
	}
	reply.Output = capture.tail()
	if ctx.Err() == nil {
		os.Remove(out.Name())
	}
	reply.Exit = status.ExitStatus()
	switch {
	case late:
		reply.Reason = fleet.Because(wire.ReasonTimedOut)
		return fmt.Errorf("exec %s: not done after %v", req.Command, timeout)
	case status.Signaled():
		reply.Exit = 128 + int(status.Signal())
		return fmt.Errorf("exec %s: ended by %v", req.Command, status.Signal())
	case reply.Exit != 0:
		return fmt.Errorf("exec %s: exit status %d", req.Command, reply.Exit)
	}
	return nil
}

// timeoutOf is how long a command may take: the request's own limit wins, since
// the console knows the deadline.
func (a *Agent) timeoutOf(req wire.ActRequest) time.Duration {
	timeout := execTimeout
	for _, t := range []time.Duration{a.cfg.Commands[req.Command].Timeout, req.Timeout} {
		if t > 0 {
			timeout = t
		}
	}
	return timeout
}

// scoped puts a command into a systemd scope of its own, where there is systemd.
func scoped(cmd config.Command, id string) []string {
	if _, err := os.Stat("/run/systemd/system"); err != nil || os.Getuid() != 0 {
		return cmd.Run
	}
	run := []string{"systemd-run", "--scope", "--collect", "--quiet", "--unit=ebb-act-" + fileName(id)}
	if cmd.User != "" {
		run = append(run, "--uid="+cmd.User)
	}
	return append(append(run, "--"), cmd.Run...)
}

// fileName is an act's id as a file or a unit can be called.
func fileName(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:12])
}

// lookUser finds the ids of a command's user; nil is the agent's own.
func lookUser(name string) (*syscall.Credential, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	c := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: os.Getuid() != 0}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if g, err := strconv.ParseUint(id, 10, 32); err == nil {
			c.Groups = append(c.Groups, uint32(g))
		}
	}
	return c, nil
}

// cleanEnv drops what belongs to the agent alone.
func cleanEnv(env []string) []string {
	var out []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "INVOCATION_ID", "JOURNAL_STREAM":
			continue
		}
		out = append(out, e)
	}
	return out
}

func (a *Agent) outputFile(id string) (*os.File, error) {
	dir := filepath.Join(a.cfg.RunDir, "exec")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(dir, fileName(id)+".out"), os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
}

// dropOutputs removes what commands of interrupted acts have written: nobody is
// told of it any more. One that still runs goes on writing to a file without a
// name, which ends with it.
func (a *Agent) dropOutputs() {
	files, _ := filepath.Glob(filepath.Join(a.cfg.RunDir, "exec", "*.out"))
	for _, f := range files {
		_ = os.Truncate(f, 0)
		_ = os.Remove(f)
	}
}

// await waits for a child without holding on to it: when the agent ends, the
// child does not notice. After the timeout its session gets TERM, and KILL five
// seconds later.
func await(ctx context.Context, pid int, timeout time.Duration, each func()) (ws syscall.WaitStatus, late bool, err error) {
	tick := time.NewTicker(execPoll)
	defer tick.Stop()
	term := time.NewTimer(timeout)
	defer term.Stop()
	var kill <-chan time.Time
	for {
		got, err := syscall.Wait4(pid, &ws, syscall.WNOHANG, nil)
		if err != nil && err != syscall.EINTR {
			return ws, late, fmt.Errorf("wait for %d: %w", pid, err)
		}
		if got == pid {
			if late {
				_ = unix.Kill(-pid, unix.SIGKILL) // what it left in its session
			}
			return ws, late, nil
		}
		select {
		case <-ctx.Done():
			return ws, late, errEnding
		case <-tick.C:
			each()
		case <-term.C:
			late = true
			_ = unix.Kill(-pid, unix.SIGTERM)
			t := time.NewTimer(killAfter)
			defer t.Stop()
			kill = t.C
		case <-kill:
			_ = unix.Kill(-pid, unix.SIGKILL)
		}
	}
}

// capture is the file that a command writes to, of which only the end counts.
type capture struct {
	file   *os.File
	before []byte // the end of what was dropped
}

// bound drops what a talkative command has written so far: the run directory
// is memory.
func (c *capture) bound() {
	if info, err := c.file.Stat(); err == nil && info.Size() > outputMax {
		c.before = c.end()
		_ = c.file.Truncate(0) // the command appends
	}
}

func (c *capture) end() []byte {
	info, err := c.file.Stat()
	if err != nil {
		return c.before
	}
	from := max(0, info.Size()-outputTail)
	b, err := io.ReadAll(io.NewSectionReader(c.file, from, outputTail))
	if err != nil {
		return c.before
	}
	all := append(slices.Clone(c.before), b...)
	return all[max(0, len(all)-outputTail):]
}

// tail returns the last outputTail bytes.
func (c *capture) tail() string { return strings.ToValidUTF8(string(c.end()), "\uFFFD") }

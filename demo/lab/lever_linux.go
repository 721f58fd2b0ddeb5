package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ebb/drain"
	"ebb/drain/levers"
)

// LeverConfig is the part of fleet.toml that has workloads of a kind carried by the
// lab's own lever. It pauses one on its source, resumes it on a target and removes
// what is left behind, over SSH, as a platform's own program would.
func LeverConfig(kind string) string {
	return fmt.Sprintf(`
[[lever]]
name    = "carry"
run     = [%q, "lever"]
timeout = "30s"
steps   = ["snapshot", "restore", "remove"]

[[class]]
match = { kind = %q }
class = "pausable"
lever = "carry"
`, filepath.Join(Bin(Dir()), program), kind)
}

// leverMain is one call of the lever, on the console. What it does on a host goes
// on there when the call ends.
func leverMain() error {
	var r levers.Request
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(carry(r))
}

func carry(r levers.Request) levers.Reply {
	host := r.Source
	if r.Step == drain.StepRestore {
		host = r.Target
	}
	if r.Op == string(drain.OpPlan) {
		return levers.Reply{Result: drain.Done}
	}
	said, err := onHost(host, "carry", r.Op, string(r.Step), r.Workload.Kind, r.Workload.ID)
	if err != nil {
		return levers.Reply{Result: drain.FailedAct, Reason: levers.Reason{Text: err.Error()}}
	}
	return levers.Reply{Result: drain.Result(strings.TrimSpace(said))}
}

// onHost runs this program on a host.
func onHost(h levers.Place, args ...string) (string, error) {
	dir := filepath.Dir(os.Getenv("EBB_CONFIG"))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	argv := append([]string{"-F", filepath.Join(dir, "ssh_config"), "-o", "UserKnownHostsFile=" + filepath.Join(dir, "known_hosts"),
		"-o", "BatchMode=yes", h.ID.Name(), os.Args[0]}, args...)
	out, err := exec.CommandContext(ctx, "ssh", argv...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return string(out), err
}

// carryMain is a step of the lever on the host where it happens. One step of
// a workload runs at a time: who asks about one that runs is told so, and who
// repeats or undoes it waits for its end.
func carryMain(op, step, kind, id string) error {
	w := Work{Kind: kind, ID: id, Class: "pausable"}
	lock, err := os.OpenFile("/run/carry-"+kind+"-"+safe(id), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	how := unix.LOCK_EX
	if op == string(drain.OpStatus) {
		how |= unix.LOCK_NB
	}
	result := drain.Done
	switch err = unix.Flock(int(lock.Fd()), how); {
	case errors.Is(err, unix.EWOULDBLOCK):
		result = drain.RunningAct
	case err != nil:
		return err
	case op == string(drain.OpStatus):
		if !w.stands(drain.Step(step)) {
			result = drain.FailedAct
		}
	case op == string(drain.OpUndo):
		err = w.takeBack(drain.Step(step))
	default:
		err = w.carry(drain.Step(step))
	}
	if err == nil {
		_, err = fmt.Println(result)
	}
	return err
}

// carry does a step that has not been done.
func (w Work) carry(step drain.Step) error {
	if w.stands(step) {
		return nil
	}
	switch step {
	case drain.StepSnapshot:
		if err := w.signal(syscall.SIGSTOP); err != nil {
			return err
		}
		return w.note("paused")
	case drain.StepRestore:
		return w.begin()
	case drain.StepRemove:
		if w.state() != "T" {
			return errors.New("it is not paused: it stays")
		}
		return w.remove()
	}
	return fmt.Errorf("%q is no step", step)
}

func (w Work) takeBack(step drain.Step) error {
	switch step {
	case drain.StepSnapshot:
		if w.state() == "" {
			return errors.New("there is nothing to resume")
		}
		return w.signal(syscall.SIGCONT)
	case drain.StepRestore:
		if w.state() == "" {
			return nil
		}
		return w.remove()
	}
	return fmt.Errorf("%q can't be undone", step)
}

// stands reports whether a step is done, by what the host itself shows.
func (w Work) stands(step drain.Step) bool {
	switch step {
	case drain.StepSnapshot:
		return w.state() == "T"
	case drain.StepRestore:
		return w.state() != ""
	}
	return w.state() == ""
}

// state is the state of the workload's process, and empty where there is none.
func (w Work) state() string {
	pid, err := w.pid()
	if err != nil {
		return ""
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')'):]), " ")
	if s := rest[:1]; s != "Z" && s != "X" {
		return s
	}
	return ""
}

func (w Work) pid() (int, error) {
	text, err := os.ReadFile(w.pids())
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func (w Work) signal(sig syscall.Signal) error {
	pid, err := w.pid()
	if err != nil {
		return err
	}
	return syscall.Kill(pid, sig)
}

// remove ends the process and takes its manifest away.
func (w Work) remove() error {
	if err := w.signal(syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return errors.Join(os.Remove(w.file()), os.Remove(w.pids()))
}

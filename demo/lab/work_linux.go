package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// manifests is where workloads of a host are declared.
const manifests = "/var/lib/workloads"

// Work is a workload: a process with a manifest, unless it hides.
type Work struct {
	Kind, ID   string
	Class      string
	Owner      string
	Life       time.Duration // ends by itself after this
	Grace      time.Duration
	IgnoreTerm bool
	Serve      bool   // answers HTTP on loopback; can be started elsewhere
	Comm       string // name of the process
	Hidden     bool   // nothing declares it
	Args       []string
}

func (w Work) file() string { return filepath.Join(manifests, w.Kind+"-"+safe(w.ID)+".toml") }
func (w Work) pids() string { return strings.TrimSuffix(w.file(), ".toml") + ".pid" }

// safe makes a file name of an id.
func safe(id string) string {
	name := strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, id)
	return name[:min(len(name), 60)]
}

// Launch starts a workload on the host and returns its pid there.
func (h *Host) Launch(w Work) (int, error) {
	pid, err := h.Spawn("/var/log/work", append([]string{h.program()}, w.argv()...)...)
	if err != nil || w.Hidden {
		return pid, err
	}
	if err := h.Write(w.pids(), strconv.Itoa(pid)+"\n"); err != nil {
		return pid, err
	}
	return pid, h.Write(w.file(), w.manifest(time.Now()))
}

func (w Work) argv() []string {
	args := []string{"work", "--kind", w.Kind, "--id", w.ID, "--comm", w.Comm}
	if w.Life > 0 {
		args = append(args, "--life", w.Life.String())
	}
	if w.IgnoreTerm {
		args = append(args, "--ignore-term")
	}
	if w.Serve {
		args = append(args, "--serve")
	}
	if w.Hidden {
		args = append(args, "--hidden")
	}
	return append(append(args, "--"), w.Args...)
}

func (w Work) manifest(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "id = %s\nkind = %q\npidfile = %q\n", tomlString(w.ID), w.Kind, w.pids())
	if w.Class != "" {
		fmt.Fprintf(&b, "class = %q\n", w.Class)
	}
	if w.Owner != "" {
		fmt.Fprintf(&b, "owner = %q\n", w.Owner)
	}
	if w.Grace > 0 {
		fmt.Fprintf(&b, "grace = %q\n", w.Grace)
	}
	if w.Life > 0 {
		fmt.Fprintf(&b, "expires = %s\n", now.Add(w.Life).UTC().Format(time.RFC3339Nano))
	}
	if w.Serve {
		fmt.Fprintf(&b, "start = \"start\"\nhealth = \"health\"\n")
	}
	return b.String()
}

// tomlString quotes as TOML does: unlike Go it has no \x.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if r < 0x20 || r == 0x7f || r == '"' || r == '\\' || r >= 0x80 {
			fmt.Fprintf(&b, "\\U%08X", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String() + `"`
}

// workMain is a workload's process: it lives until its time is up, until its owner
// ends it with INT, or until TERM unless it ignores that; then it removes its
// manifest.
func workMain(args []string) error {
	var w Work
	f := flag.NewFlagSet("work", flag.ContinueOnError)
	f.StringVar(&w.Kind, "kind", "", "")
	f.StringVar(&w.ID, "id", "", "")
	f.StringVar(&w.Comm, "comm", "", "")
	f.DurationVar(&w.Life, "life", 0, "")
	f.BoolVar(&w.IgnoreTerm, "ignore-term", false, "")
	f.BoolVar(&w.Serve, "serve", false, "")
	f.BoolVar(&w.Hidden, "hidden", false, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	term, owner := make(chan os.Signal, 4), make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	signal.Notify(owner, os.Interrupt)
	if w.Comm != "" {
		if err := rename(w.Comm); err != nil {
			return err
		}
	}
	if w.Serve {
		if err := serve(w); err != nil {
			return err
		}
	}
	if err := w.note("up"); err != nil {
		return err
	}
	var end <-chan time.Time
	if w.Life > 0 {
		end = time.After(w.Life)
	}
	for ended := false; !ended; {
		select {
		case <-end:
			ended = true
		case <-owner:
			ended = true
		case <-term:
			if err := w.note("term"); err != nil {
				return err
			}
			ended = !w.IgnoreTerm
		}
	}
	if !w.Hidden {
		_ = os.Remove(w.file())
		_ = os.Remove(w.pids())
	}
	return w.note("end")
}

// rename sets the process's name: its first thread's.
func rename(comm string) error {
	return os.WriteFile(fmt.Sprintf("/proc/self/task/%d/comm", os.Getpid()), []byte(comm), 0)
}

func portFile(w Work) string { return "/run/" + w.Kind + "-" + safe(w.ID) + ".port" }

func serve(w Work) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprintln(rw, w.ID) }))
	}()
	return os.WriteFile(portFile(w), []byte(l.Addr().String()), 0o600)
}

// named is the workload that the agent runs a command for.
func named() Work {
	return Work{Kind: os.Getenv("EBB_KIND"), ID: os.Getenv("EBB_ID"), Class: "stateless", Serve: true}
}

// startMain is the command "start" of a host.
func startMain() error { return named().begin() }

// begin starts a replacement, and declares it.
func (w Work) begin() error {
	if err := w.note("start"); err != nil {
		return err
	}
	before, after := slowness()
	time.Sleep(before)
	log, err := os.OpenFile("/var/log/work", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0], w.argv()...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := os.WriteFile(w.pids(), []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o600); err != nil {
		return err
	}
	tmp := filepath.Join(manifests, ".new-"+filepath.Base(w.file()))
	if err := os.WriteFile(tmp, []byte(w.manifest(time.Now())), 0o600); err != nil {
		return err
	}
	if err := os.Rename(tmp, w.file()); err != nil {
		return err
	}
	time.Sleep(after)
	return nil
}

// healthMain is the command "health" of a host.
func healthMain() error {
	w := named()
	addr, err := os.ReadFile(portFile(w))
	if err != nil {
		return errors.New("it is not up yet")
	}
	resp, err := http.Get("http://" + string(addr) + "/")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1024))
	if err == nil && strings.TrimSpace(string(body)) != w.ID {
		err = fmt.Errorf("something else answers: %.40q", body)
	}
	return err
}

// LeakNetns leaves a named network namespace behind.
func (h *Host) LeakNetns(ctx context.Context, name string) error {
	if out, err := h.Exec(ctx, "ip", "netns", "add", name); err != nil {
		return fmt.Errorf("netns %s: %w: %s", name, err, out)
	}
	return nil
}

// LeakLoop leaves a loop device behind whose file is deleted; it returns the
// device's name.
func (h *Host) LeakLoop(ctx context.Context, name string) (string, error) {
	file := filepath.Join(h.LoopDir(), name)
	if err := os.WriteFile(h.Path(file), make([]byte, 1<<20), 0o600); err != nil {
		return "", err
	}
	out, err := h.Exec(ctx, "losetup", "--find", "--show", file)
	if err != nil {
		return "", fmt.Errorf("loop device: %w: %s", err, out)
	}
	return strings.TrimPrefix(strings.TrimSpace(out), "/dev/"), os.Remove(h.Path(file))
}

// Backing is the file behind a loop device as the kernel says it; empty if it
// has none.
func Backing(loop string) string {
	b, _ := os.ReadFile(filepath.Join("/sys/block", loop, "loop/backing_file"))
	return strings.TrimSpace(string(b))
}

// Fill takes all space of the file system at a path of the host.
func (h *Host) Fill(file string) error {
	f, err := os.Create(h.Path(file))
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 4096)
	for {
		if _, err := f.Write(block); err != nil {
			if errors.Is(err, unix.ENOSPC) {
				return nil
			}
			return err
		}
	}
}

package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pelletier/go-toml/v2"

	"ebb/fleet"
)

// Spec is a workload as its owner defines it: what a catalog holds, and what a
// start command on another host starts it from.
type Spec struct {
	Kind       string        `toml:"kind"`
	ID         string        `toml:"id"`
	Class      fleet.Class   `toml:"class"`
	Owner      string        `toml:"owner"`
	Life       time.Duration `toml:"life"`        // ephemeral: until it ends by itself
	Grace      time.Duration `toml:"grace"`       //
	IgnoreTerm bool          `toml:"ignore_term"` // does not end on TERM
	Serve      bool          `toml:"serve"`       // answers HTTP on loopback, and can be started elsewhere
	Needs      fleet.Needs   `toml:"needs"`       // of a host that takes it
	As         string        `toml:"as"`          // what it really does: "counter" or "store"; empty: nothing
	Log        string        `toml:"log"`         // counter: where it counts
}

// Key is the workload's key.
func (s Spec) Key() fleet.Key { return fleet.Key{Kind: s.Kind, ID: s.ID} }

func (s Spec) file(dir string) string { return filepath.Join(dir, s.Kind+"-"+s.ID+".toml") }

// Place says where a workload process lives.
type Place struct {
	Root  string // of its host
	Token string // of its host
	Exe   string // the program that is the workload: this one
}

// Launch starts a workload on a host: its process in a session of its own, then
// its manifest. It returns the pid.
func Launch(p Place, s Spec) (int, error) {
	dir := filepath.Join(p.Root, manifestDir)
	expires := time.Time{}
	if s.Life > 0 {
		expires = time.Now().Add(s.Life)
	}
	args := []string{"demo-workload", "run", "--root", p.Root, "--kind", s.Kind, "--id", s.ID}
	if s.IgnoreTerm {
		args = append(args, "--ignore-term")
	}
	if s.Serve {
		args = append(args, "--serve")
	}
	if s.As != "" {
		args = append(args, "--as", s.As, "--log", s.Log)
	}
	if !expires.IsZero() {
		args = append(args, "--until", expires.Format(time.RFC3339Nano))
	}
	pid, err := spawn(p, append(args, p.Token))
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", s.Key(), err)
	}
	if err := os.WriteFile(pidFile(dir, s), []byte(strconv.Itoa(pid)+"\n"), 0o600); err != nil {
		return pid, fmt.Errorf("start %s: %w", s.Key(), err)
	}
	m := fleet.Manifest{ID: s.ID, Kind: s.Kind, Class: s.Class, Owner: s.Owner, Expires: expires, PidFile: "/" + manifestDir + "/" + filepath.Base(pidFile(dir, s))}
	m.Needs = s.Needs
	if s.Grace > 0 {
		m.Grace = s.Grace.String()
	}
	if s.Serve && s.Kind != pageKind {
		m.Start, m.Health = "start", "health"
	}
	return pid, writeManifest(s.file(dir), m)
}

// StartTrainer starts something by hand, past the platform: a process that the
// host recognises by its arguments and that nobody claims, with a directory.
func StartTrainer(p Place, id string) error {
	_, err := spawn(p, []string{"demo-workload", "run", "--root", p.Root, "--trainer", id, p.Token})
	return err
}

// LeakDir leaves the directory of a trainer behind whose process is long gone.
func LeakDir(p Place, id string) error {
	dir := filepath.Join(p.Root, workDir, "trainer-"+id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "checkpoint"), []byte("left behind\n"), 0o600)
}

func pidFile(dir string, s Spec) string { return strings.TrimSuffix(s.file(dir), ".toml") + ".pid" }

// spawn starts a process that outlives its parent.
func spawn(p Place, args []string) (int, error) {
	log, err := os.OpenFile(filepath.Join(p.Root, "workloads.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	cmd := exec.Command(p.Exe, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid := cmd.Process.Pid
	go func() { _ = cmd.Wait() }() // reaped by us, or by init once we are gone
	return pid, nil
}

// writeManifest writes a manifest so that no reader sees half of one.
func writeManifest(path string, m fleet.Manifest) error {
	var b bytes.Buffer
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s = %q\n", key, value)
		}
	}
	line("id", m.ID)
	line("kind", m.Kind)
	line("class", string(m.Class))
	line("owner", m.Owner)
	line("pidfile", m.PidFile)
	line("grace", m.Grace)
	line("start", m.Start)
	line("health", m.Health)
	line("rest", m.Rest)
	if !m.Expires.IsZero() {
		fmt.Fprintf(&b, "expires = %s\n", m.Expires.UTC().Format(time.RFC3339Nano))
	}
	if !m.Needs.IsZero() {
		raw, err := toml.Marshal(map[string]any{"needs": m.Needs})
		if err != nil {
			return err
		}
		b.Write(raw)
	}
	tmp := filepath.Join(filepath.Dir(filepath.Dir(path)), "."+filepath.Base(path))
	if err := os.WriteFile(tmp, b.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// forget removes a workload's manifest: its owner's word that it has ended.
func forget(root string, s Spec) {
	dir := filepath.Join(root, manifestDir)
	_ = os.Remove(s.file(dir))
	_ = os.Remove(pidFile(dir, s))
}

// RunOptions are the arguments of a workload process.
type RunOptions struct {
	Root       string
	Spec       Spec
	Until      time.Time
	IgnoreTerm bool
	Trainer    string // set instead of Spec for what was started by hand
}

// Run is a workload process: it lives until its time is up, or until TERM unless
// it ignores that, and says that it has ended by removing its manifest.
func Run(ctx context.Context, o RunOptions) error {
	sig := make(chan os.Signal, 4)
	signal.Notify(sig, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(sig)
	over := false
	defer func() { // last of all: what it says is that it has ended
		if over {
			forget(o.Root, o.Spec)
		}
	}()
	if o.Spec.Serve {
		stop, err := serve(o)
		if err != nil {
			return err
		}
		defer stop()
	}
	if o.Spec.As != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- works(ctx, o) }()
		defer func() { cancel(); <-ended }()
	}
	var end <-chan time.Time
	if !o.Until.IsZero() {
		t := time.NewTimer(time.Until(o.Until))
		defer t.Stop()
		end = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-end:
			over = true
			return nil
		case s := <-sig:
			if s == syscall.SIGTERM && !o.IgnoreTerm {
				over = true
				return nil
			}
		}
	}
}

// works is what a workload does besides being there.
func works(ctx context.Context, o RunOptions) error {
	w := site{Place{Root: o.Root}, o.Spec}
	if o.Spec.As == "store" {
		return keep(ctx, w)
	}
	return count(ctx, w, o.Spec.Log)
}

// LaunchNamed is the command "start" of a demo host: the agent runs it with the
// workload's kind and id in the environment; the catalog says what that is.
func LaunchNamed(p Place, catalog, kind, id string) error {
	s, err := defined(catalog, kind, id)
	if err != nil {
		return err
	}
	_, err = Launch(p, s)
	return err
}

// defined reads a workload's definition.
func defined(catalog, kind, id string) (Spec, error) {
	var s Spec
	raw, err := os.ReadFile(Spec{Kind: kind, ID: id}.file(catalog))
	if err == nil {
		err = toml.Unmarshal(raw, &s)
	}
	return s, err
}

// Healthy is the command "health": it asks the workload and compares what it
// says.
func Healthy(ctx context.Context, root, kind, id string) error {
	addr, err := os.ReadFile(portFile(root, Spec{Kind: kind, ID: id}))
	if err != nil {
		return errors.New("it is not up yet")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+string(addr)+"/", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1024))
	if err == nil && strings.TrimSpace(string(body)) != id {
		err = fmt.Errorf("something else answers: %.40q", body)
	}
	return err
}

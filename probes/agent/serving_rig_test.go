package agent

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/probes"
	"ebb/probes/client"
	"ebb/probes/wire"
)

// A serving workload leaves without a broken answer: a server of long answers
// stands behind a real HAProxy, under load. Readiness goes off by a named
// command of the host, the proxy moves traffic away, the agent waits until
// nothing is in flight, and only then is TERM sent.

const servingDrain = "d1"

// started runs a command until the test ends; ended is closed when it has.
func started(t *testing.T, cmd *exec.Cmd) (ended <-chan struct{}) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	ok(t, cmd.Start())
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
	})
	return done
}

// servingHost is a scoped host with an agent and the servers on it.
type servingHost struct {
	t     *testing.T
	dir   string
	scope string
	op    *client.Client
}

// newServingHost starts an agent whose host has the servers of one scope. Its command
// "not-ready" makes a server answer its health checks with 503.
func newServingHost(t *testing.T, options ...func(*Config)) *servingHost {
	t.Helper()
	h := &servingHost{t: t, dir: t.TempDir(), scope: "scope-" + filepath.Base(t.TempDir()) + fmt.Sprint(os.Getpid())}
	for path, text := range map[string]string{
		"etc/machine-id": testMachine, "proc/sys/kernel/random/boot_id": testBoot, "proc/stat": "btime 1764435000\n",
	} {
		ok(t, os.MkdirAll(filepath.Join(h.dir, filepath.Dir(path)), 0o755))
		ok(t, os.WriteFile(filepath.Join(h.dir, path), []byte(text), 0o644))
	}
	script := filepath.Join(h.dir, "not-ready")
	ok(t, os.WriteFile(script, []byte("#!/bin/sh\n: > "+h.dir+"/$EBB_ID.not-ready\n"), 0o755))
	p := probes.New(probes.Config{
		Root:      probes.Root{Dir: h.dir, Proc: "/proc", Scope: h.scope},
		Workloads: []fleet.WorkloadRule{{Kind: "service", Exe: filepath.Base(os.Args[0]), ID: fleet.IDRule{After: "--id"}}},
	})
	_, boot, booted, err := p.Identity()
	ok(t, err)
	cfg := Config{
		Version: "test", Machine: testMachine, Boot: boot, BootedAt: booted, Scope: h.scope, StateDir: filepath.Join(h.dir, "state"),
		RunDir: filepath.Join(h.dir, "run"), Path: h.path, Prober: realProber{p},
		Commands: map[string]config.Command{"not-ready": {Run: []string{script}}},
	}
	for _, o := range options {
		o(&cfg)
	}
	ok(t, Init(cfg.StateDir, testMachine))
	a, err := New(cfg)
	ok(t, err)
	listeners, err := Listen(cfg)
	ok(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx, listeners) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	h.op, err = client.Dial(t.Context(), func(ctx context.Context) (net.Conn, error) {
		return DialSocket(ctx, filepath.Join(cfg.RunDir, wire.Operate.Socket()))
	}, client.Options{NoHello: true, Operator: "ann@desk"})
	ok(t, err)
	t.Cleanup(func() { h.op.Close() })
	return h
}

type realProber struct{ *probes.Prober }

func (p realProber) Scan(ctx context.Context, now time.Time) Readings {
	return Readings(p.Prober.Scan(ctx, now))
}

// server starts one and returns where it listens.
func (h *servingHost) server(id string) (addr string, ended <-chan struct{}) {
	h.t.Helper()
	r, w, err := os.Pipe()
	ok(h.t, err)
	defer r.Close()
	cmd := exec.Command(os.Args[0], "--scope", h.scope, "--id", id, "--dir", h.dir)
	cmd.Env = append(os.Environ(), asServer+"=1")
	cmd.Stdout = w
	ended = started(h.t, cmd)
	w.Close()
	addr, err = bufio.NewReader(r).ReadString('\n')
	ok(h.t, err)
	return strings.TrimSpace(addr), ended
}

// hold sets the drain hold.
func (h *servingHost) hold() error {
	_, err := h.op.Drain(h.t.Context(), wire.DrainRequest{Who: "ann", Drain: servingDrain, Journal: "file", Epoch: 1, Deadline: time.Now().Add(time.Hour)})
	return err
}

func (h *servingHost) act(req wire.ActRequest, each func(wire.ActReply)) wire.ActReply {
	h.t.Helper()
	req.Drain, req.Epoch, req.Machine, req.Key = servingDrain, 1, testMachine, fleet.Key{Kind: "service", ID: "a"}
	reply, err := h.op.Act(h.t.Context(), req)
	for err == nil && reply.State == wire.ActBegun {
		each(reply)
		reply, err = h.op.Follow(h.t.Context(), req.ID, 300*time.Millisecond)
	}
	ok(h.t, err)
	if !reply.OK {
		h.t.Fatalf("%+v", reply)
	}
	return reply
}

func (p realProber) Look(ctx context.Context, now time.Time) Readings {
	return Readings(p.Prober.Look(ctx, now))
}

func (h *servingHost) path(p string) string { return probes.Root{Dir: h.dir}.Path(p) }

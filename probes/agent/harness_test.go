package agent

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"

	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/probes/client"
	"ebb/probes/wire"
)

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		os.Exit(serveAnswers(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

const (
	testMachine = "5b1c0e4a9d7f4c2f8f4b7a8e9d0c1b2a"
	testBoot    = "6f3c1a52-7b0e-4c0a-9f0b-2a1d3c4e5f60"
)

// fakeClock stands still until it is moved.
type fakeClock struct {
	mu   sync.Mutex
	now  time.Time
	boot time.Duration
}

func newClock() *fakeClock {
	return &fakeClock{now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), boot: 100 * time.Hour}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) Boottime() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.boot
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.boot = c.now.Add(d), c.boot+d
}

// fakeProber shows what a test tells it to.
type fakeProber struct {
	mu    sync.Mutex
	show  func(now time.Time) Readings
	scans int
	gate  chan struct{} // not nil: a scan waits here
}

func (p *fakeProber) Scan(ctx context.Context, now time.Time) Readings {
	p.mu.Lock()
	gate := p.gate
	p.scans++
	p.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.show(now)
}

func (p *fakeProber) Quick(context.Context) (bool, error) { return false, nil }

func (p *fakeProber) set(show func(now time.Time) Readings) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show = show
}

// empty is a host on which nothing runs.
func empty(now time.Time) Readings {
	return Readings{
		Processes: fleet.Read([]fleet.Process(nil), "/proc", now, 0),
		Workloads: fleet.Read([]fleet.Workload(nil), "rules", now, 0),
		Netns:     fleet.Read([]fleet.Resource(nil), "/run/netns", now, 0),
		Loops:     fleet.ReadNotApplicable[[]fleet.Resource]("/sys/block", now, "none"),
		Dirs:      fleet.Read([]fleet.Resource(nil), "rules", now, 0),
		GPUs:      fleet.ReadNotApplicable[[]fleet.GPU]("nvml", now, "none"),
	}
}

// rig is an agent on real sockets with a fake host under it.
type rig struct {
	t      *testing.T
	dir    string
	clock  *fakeClock
	prober *fakeProber
	cfg    Config
	agent  *Agent
	stop   func()
	conns  map[wire.Role]*client.Client // to the agent that runs now
}

// newRig makes a rig whose agent has been told that nothing holds it.
func newRig(t *testing.T, options ...func(*Config)) *rig {
	t.Helper()
	r := unstarted(t, options...)
	if err := Init(r.cfg.StateDir, testMachine); err != nil {
		t.Fatal(err)
	}
	r.start()
	return r
}

func unstarted(t *testing.T, options ...func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), clock: newClock(), prober: &fakeProber{show: empty}}
	r.cfg = Config{
		Version: "test", Machine: testMachine, Boot: testBoot, StateDir: filepath.Join(r.dir, "state"),
		RunDir: filepath.Join(r.dir, "run"), Prober: r.prober, Clock: r.clock,
		Quick: 10 * time.Millisecond, Full: time.Hour, Heartbeat: time.Hour,
		Commands: map[string]config.Command{},
	}
	for _, o := range options {
		o(&r.cfg)
	}
	return r
}

// start starts the agent, again after a stop.
func (r *rig) start() {
	r.t.Helper()
	a, err := New(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ls, err := Listen(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx, ls) }()
	r.agent, r.conns = a, map[wire.Role]*client.Client{}
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		for _, c := range r.conns {
			c.Close()
		}
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("run: %v", err)
		}
	}
	r.t.Cleanup(r.stop)
}

func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.start()
}

// dial connects as a role, once for each run of the agent.
func (r *rig) dial(role wire.Role) *client.Client {
	r.t.Helper()
	if c := r.conns[role]; c != nil {
		return c
	}
	c, err := client.Dial(r.t.Context(), func(ctx context.Context) (net.Conn, error) {
		return DialSocket(ctx, filepath.Join(r.cfg.RunDir, role.Socket()))
	}, client.Options{NoHello: true, Operator: "ann@desk", Version: "test"})
	if err != nil {
		r.t.Fatal(err)
	}
	r.conns[role] = c
	return c
}

func (r *rig) cordon() {
	r.t.Helper()
	_, err := r.dial(wire.Cordon).Cordon(r.t.Context(), wire.CordonRequest{Who: "ann", Why: "hunch"})
	ok(r.t, err)
}

func (r *rig) drain(id string, epoch uint64) error {
	r.t.Helper()
	_, err := r.dial(wire.Operate).Drain(r.t.Context(), wire.DrainRequest{
		Who: "ann", Drain: id, Journal: "file", Epoch: epoch, Deadline: r.clock.Now().Add(time.Hour),
	})
	return err
}

// act runs an act to its end.
func (r *rig) act(req wire.ActRequest) (wire.ActReply, error) {
	r.t.Helper()
	c := r.dial(wire.Operate)
	if req.Machine == "" {
		req.Machine = testMachine
	}
	reply, err := c.Act(r.t.Context(), req)
	for err == nil && reply.State == wire.ActBegun {
		reply, err = c.Follow(r.t.Context(), req.ID, time.Minute)
	}
	return reply, err
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// code asserts that a call was refused for this reason.
func code(t *testing.T, err error, want string) *client.Problem {
	t.Helper()
	if !client.HasCode(err, want) {
		t.Fatalf("got %v, want a refusal %q", err, want)
	}
	return err.(*client.Problem)
}

// failed asserts that an act ended with this reason.
func failed(t *testing.T, reply wire.ActReply, err error, want string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if reply.OK || reply.State != wire.ActFinished || reply.Reason.Code != want {
		t.Fatalf("got %+v, want it refused as %q", reply, want)
	}
}

// until polls something that real processes or goroutines bring about.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !cond(); {
		if time.Now().After(deadline) {
			t.Fatalf("not seen in time: %s", what)
		}
		select {
		case <-t.Context().Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// writeHostKey makes an SSH host key and returns its fingerprint.
func writeHostKey(t *testing.T, path string) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	ok(t, err)
	block, err := ssh.MarshalPrivateKey(key, "")
	ok(t, err)
	ok(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	signer, err := ssh.NewSignerFromKey(key)
	ok(t, err)
	return ssh.FingerprintSHA256(signer.PublicKey())
}

func decode(t *testing.T, b []byte, v any) {
	t.Helper()
	ok(t, json.Unmarshal(b, v))
}

package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/probes/client"
	"ebb/probes/wire"
)

// One user's silent connections keep neither others nor themselves from the
// sockets of other roles, and their places are given back.
func TestSilentConnectionsDoNotFillAHost(t *testing.T) {
	r := newRig(t)
	var open []net.Conn
	for range connsMax + 20 {
		c, err := DialSocket(t.Context(), filepath.Join(r.cfg.RunDir, wire.Observe.Socket()))
		ok(t, err)
		open = append(open, c)
	}
	// The last ones have been closed by the agent.
	last := open[len(open)-1]
	ok(t, last.SetReadDeadline(time.Now().Add(10*time.Second)))
	if _, err := last.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Fatalf("a connection too many stays open: %v", err)
	}
	r.cordon() // through its own socket
	for _, c := range open {
		c.Close()
	}
	until(t, "places are free again", func() bool {
		c, err := client.Dial(t.Context(), func(ctx context.Context) (net.Conn, error) {
			return DialSocket(ctx, filepath.Join(r.cfg.RunDir, wire.Observe.Socket()))
		}, client.Options{NoHello: true})
		if err != nil {
			return false
		}
		defer c.Close()
		_, err = c.Summary(t.Context())
		return err == nil
	})
}

func isTimeout(err error) bool {
	t, ok := err.(net.Error)
	return ok && t.Timeout()
}

// housing is a host with many workloads.
func housing(n int) func(now time.Time) Readings {
	return func(now time.Time) Readings {
		r := empty(now)
		for i := range n {
			run := fleet.Run{Boot: testBoot, PID: 1000 + i, Start: 7}
			key := fleet.Key{Kind: "vm", ID: fmt.Sprintf("%04d", i)}
			r.Processes.Value = append(r.Processes.Value, fleet.Process{Run: run, Owner: key})
			r.Workloads.Value = append(r.Workloads.Value, fleet.Workload{Key: key, Phase: fleet.Running, Run: run, Runs: []fleet.Run{run}})
		}
		return r
	}
}

// line is one connection of many watches. It is made anew when it has been lost:
// where a machine is too busy to answer pings, both ends take the other for dead.
type line struct {
	r  *rig
	mu sync.Mutex
	c  *client.Client
}

func (l *line) client(ctx context.Context) (*client.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c != nil {
		select {
		case <-l.c.Done():
			l.c.Close()
		default:
			return l.c, nil
		}
	}
	var err error
	l.c, err = client.Dial(ctx, func(ctx context.Context) (net.Conn, error) {
		return DialSocket(ctx, filepath.Join(l.r.cfg.RunDir, wire.Observe.Socket()))
	}, client.Options{NoHello: true})
	return l.c, err
}

// watch watches until ctx ends.
func (l *line) watch(ctx context.Context, seen func(fleet.Facts)) {
	for ctx.Err() == nil {
		c, err := l.client(ctx)
		if err != nil {
			continue
		}
		_ = c.Watch(ctx, fleet.Facts{}, func(f fleet.Facts) error { seen(f); return nil })
	}
}

// Many watches are told the same change, and it is worked out once.
func TestManyWatchesAreAllTold(t *testing.T) {
	const watches = 120
	r := newRig(t)
	r.prober.set(housing(60))
	lines := make([]*line, 4)
	for i := range lines {
		lines[i] = &line{r: r}
	}
	_, err := r.dial(wire.Observe).Facts(t.Context(), true)
	ok(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var begun, told atomic.Int64
	for i := range watches {
		wg.Go(func() {
			begin := sync.OnceFunc(func() { begun.Add(1) })
			tell := sync.OnceFunc(func() { told.Add(1) })
			lines[i%len(lines)].watch(ctx, func(f fleet.Facts) {
				begin()
				if len(f.Workloads.Value) == 61 && f.Holds.Cordon != nil {
					tell()
				}
			})
		})
	}
	defer func() {
		cancel()
		wg.Wait()
		for _, l := range lines {
			if l.c != nil {
				l.c.Close()
			}
		}
	}()
	until(t, "all watch", func() bool { return begun.Load() == watches })
	_, err = r.agent.cordon(Caller{Role: wire.Cordon}, wire.CordonRequest{Who: "ann"})
	ok(t, err)
	r.prober.set(housing(61))
	_, err = r.agent.fresh(t.Context())
	ok(t, err)
	until(t, "all are told", func() bool { return told.Load() == watches })
}

func TestThereIsAnEndToWatches(t *testing.T) {
	s := &shared{facts: map[factsOf][]byte{}}
	for range watchesMax {
		ok(t, s.begin())
	}
	if s.begin() == nil {
		t.Fatal("no end")
	}
	s.end()
	ok(t, s.begin())
}

// What is shared between readers is what each of them would have been told.
func TestSharedAnswersFollowTheFacts(t *testing.T) {
	s := &shared{facts: map[factsOf][]byte{}}
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	var states []fleet.Facts
	for i := range 20 {
		f := fleet.Facts{Generation: uint64(i/2 + 1), At: at.Add(time.Duration(i) * time.Second), Hostname: fmt.Sprint(i)}
		housing(i / 2)(f.At).into(&f)
		states = append(states, f)
		for _, role := range wire.Roles {
			b, err := s.encoded(f, role)
			ok(t, err)
			var got fleet.Facts
			decode(t, b, &got)
			if got.Hostname != f.Hostname || got.Agent.Role != string(role) {
				t.Fatalf("%d as %s: %s", i, role, b)
			}
		}
		for j, from := range states[:i] {
			line, err := s.line(from, f, i%2 == 0)
			ok(t, err)
			var c wire.Change
			decode(t, line, &c)
			got, err := wire.Apply(from, c)
			ok(t, err)
			if got.Generation != f.Generation || len(got.Workloads.Value) != i/2 || wire.Differs(got, fleet.Facts{Hostname: from.Hostname, Processes: f.Processes, Workloads: f.Workloads, Netns: f.Netns, Loops: f.Loops, Dirs: f.Dirs, GPUs: f.GPUs}) {
				t.Fatalf("from %d to %d: %+v", j, i, got)
			}
		}
	}
}

// A crowd that asks for fresh facts all the time gets them, and does not keep
// the agent scanning without a pause.
func TestFreshFactsAreSharedByACrowd(t *testing.T) {
	r := newRig(t)
	r.prober.set(func(now time.Time) Readings {
		<-time.After(10 * time.Millisecond)
		return empty(now)
	})
	c := r.dial(wire.Observe)
	r.prober.mu.Lock()
	before := r.prober.scans
	r.prober.mu.Unlock()
	begun := time.Now()
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			for range 5 {
				if _, err := c.Facts(t.Context(), true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(begun)
	r.prober.mu.Lock()
	defer r.prober.mu.Unlock()
	if scans := r.prober.scans - before; scans < 5 || time.Duration(scans) > took/(40*time.Millisecond)+2 {
		t.Errorf("%d scans of 10 ms in %v", scans, took)
	}
}

// A host whose creators report is not slowed down by the tickets of an hour,
// and open ones have an end.
func TestTenThousandTickets(t *testing.T) {
	r := newRig(t)
	adm := r.dial(wire.Admission)
	r.agent.mu.Lock()
	for i := range 10000 { // reported done, as far as an hour of them goes
		id := fmt.Sprintf("CLOSED%020d", i)
		r.agent.tickets[id] = fleet.Ticket{ID: id, Closed: "done", At: r.clock.Now()}
	}
	for i := range maxOpen - 1 {
		id := fmt.Sprintf("OPEN%020d", i)
		r.agent.tickets[id] = fleet.Ticket{ID: id, At: r.clock.Now(), Key: fleet.Key{Kind: "vm", ID: fmt.Sprint(i)}}
	}
	r.agent.mu.Unlock()
	reply, err := adm.Admit(t.Context(), wire.AdmissionRequest{Op: fleet.OpClaim, Key: vm1})
	ok(t, err)
	_, err = adm.Admit(t.Context(), wire.AdmissionRequest{Op: fleet.OpClaim, Key: vm1})
	code(t, err, wire.CodeFull)
	_, err = adm.Settle(t.Context(), reply.Ticket.ID, wire.TicketReport{Closed: "done"})
	ok(t, err)
	r.cordon()
	// Later, those that were settled long ago are forgotten; open ones never are.
	r.clock.advance(2 * time.Hour)
	r.agent.mu.Lock()
	r.agent.sweep()
	left, open := len(r.agent.tickets), len(openTickets(r.agent.tickets))
	r.agent.mu.Unlock()
	if open != maxOpen-1 || left > open+1 {
		t.Errorf("%d tickets are left, %d open", left, open)
	}
}

// A state directory that others may write to is shut; a link in the place of a
// record is not followed.
func TestTheStateDirectoryIsOnlyOurs(t *testing.T) {
	r := unstarted(t)
	ok(t, os.MkdirAll(r.cfg.StateDir, 0o777))
	ok(t, os.Chmod(r.cfg.StateDir, 0o777))
	ok(t, Init(r.cfg.StateDir, testMachine))
	info, err := os.Stat(r.cfg.StateDir)
	ok(t, err)
	if info.Mode().Perm()&0o022 != 0 {
		t.Fatalf("mode %v", info.Mode())
	}
	victim := filepath.Join(r.dir, "victim")
	ok(t, os.WriteFile(victim, []byte("precious"), 0o600))
	for _, name := range []string{"acts.log.new", "audit.log"} {
		ok(t, os.Symlink(victim, filepath.Join(r.cfg.StateDir, name)))
	}
	r.start()
	r.cordon() // stands, though the audit log can't be written
	b, err := os.ReadFile(victim)
	ok(t, err)
	if string(b) != "precious" {
		t.Fatalf("written through a link: %q", b)
	}
}

// There is an end to acts that run at once.
func TestThereIsAnEndToActs(t *testing.T) {
	r := quietRig(t)
	r.agent.mu.Lock()
	for i := range maxUnderWay {
		id := fmt.Sprint("busy-", i)
		r.agent.acts.add(&act{req: wire.ActRequest{ID: id}, reply: wire.ActReply{ID: id, State: wire.ActBegun}, done: make(chan struct{})})
	}
	r.agent.mu.Unlock()
	_, err := r.act(quietOf("q1", "http://127.0.0.1:1/"))
	code(t, err, wire.CodeFull)
}

// What commands wrote whose agent was killed does not pile up in memory.
func TestOutputsOfInterruptedCommandsAreDropped(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "go")
	r := targetRig(t, map[string]config.Command{"slow": {Run: []string{script(t, "echo begun; while [ -d "+filepath.Dir(mark)+" ] && [ ! -e "+mark+" ]; do sleep 0.02; done")}}})
	t.Cleanup(func() { _ = os.WriteFile(mark, nil, 0o600) })
	_, err := r.dial(wire.Operate).Act(t.Context(), execOf("e1", "slow"))
	ok(t, err)
	outputs := func() []string {
		files, err := filepath.Glob(filepath.Join(r.cfg.RunDir, "exec", "*"))
		ok(t, err)
		return files
	}
	until(t, "it writes", func() bool { return len(outputs()) == 1 })
	r.restart()
	if left := outputs(); len(left) != 0 {
		t.Fatalf("left: %v", left)
	}
}

//go:build linux

package station

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/crypto/ssh"

	"ebb/drain"
	"ebb/drain/journal"
	"ebb/fleet"
	"ebb/fleet/postgres/pgtest"
	"ebb/probes/wire"
)

const (
	drainsWorkloads = 8 // of each host, with as many processes again
	drainsMeasured  = 30 * time.Second
	drainsPass      = 5 * time.Second
)

// BenchmarkDrains has one resident engine, in a process of its own, drive drains
// whose workloads are all being waited for: the plane is a real PostgreSQL, and so
// is the journal, which writes through, or a file; agents are simulated behind the
// real wire. It measures what the process takes and how late its looks at the
// hosts are; then everything goes away, and all drains have to come to their end.
// It counts the leases that lapse on the way.
func BenchmarkDrains(b *testing.B) {
	b.Run("1000", func(b *testing.B) { benchDrains(b, 1000, pgtest.New(b, "fsync=on", pgtest.Durable).Database(b)) })
	b.Run("200", func(b *testing.B) { benchDrains(b, 200, pgtest.New(b, "fsync=on", pgtest.Durable).Database(b)) })
	b.Run("file", func(b *testing.B) { benchDrains(b, 1000, "sqlite:"+filepath.Join(b.TempDir(), "journal.db")) })
}

func benchDrains(b *testing.B, drains int, jurl string) {
	ctx, cancel := context.WithTimeout(b.Context(), 8*time.Minute)
	defer cancel()
	dir := b.TempDir()
	plane := pgtest.Start(b)
	hosts := names("d", drains)
	populate(b, ctx, plane, hosts)
	sim := simulate(b, filepath.Join(dir, "agents.sock"), hosts)
	conf := filepath.Join(dir, "fleet.toml")
	must(b, os.WriteFile(conf, fmt.Appendf(nil, "[journal]\nurl = %q\n\n[[plane]]\nname = \"prod\"\ntype = \"postgres\"\nurl = %q\nscheduler_cache = \"2s\"\n", jurl, plane), 0o600))

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envResident+"="+filepath.Join(dir, "agents.sock"), "EBB_CONFIG="+conf, "EBB_OPERATOR=ann", "HOME="+dir)
	cmd.Stderr = os.Stderr
	must(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
	})
	engine := process(cmd.Process.Pid)
	tale := openTale(b, ctx, jurl)
	asked, idle := time.Now(), engine.cpu(b)
	startAll(b, ctx, tale.journal, hosts)
	tale.until(b, ctx, drain.Draining, drains)
	b.ReportMetric(time.Since(asked).Seconds(), "s/begun")
	b.ReportMetric((engine.cpu(b) - idle).Seconds(), "s/begun-cpu")

	time.Sleep(2 * drainsPass) // until the passes have their rhythm
	sim.forget()
	_ = cmd.Process.Signal(syscall.SIGUSR1)
	cpu, begun := engine.cpu(b), time.Now()
	time.Sleep(drainsMeasured)
	b.ReportMetric((engine.cpu(b)-cpu).Seconds()/time.Since(begun).Seconds(), "cores")
	_ = cmd.Process.Signal(syscall.SIGUSR1)
	late, due := sim.lateness()
	b.ReportMetric(engine.mib(b, "VmRSS"), "MiB/rss")
	b.ReportMetric(late[len(late)/2].Seconds(), "s/late-p50")
	b.ReportMetric(late[len(late)*99/100].Seconds(), "s/late-p99")
	b.ReportMetric(late[len(late)-1].Seconds(), "s/late-max")
	b.ReportMetric(100*float64(len(late))/due, "%passes")

	cpu, begun = engine.cpu(b), time.Now()
	sim.empty()
	pgtest.Exec(b, plane, "delete from sandboxes")
	tale.until(b, ctx, drain.Empty, drains)
	b.ReportMetric(time.Since(begun).Seconds(), "s/through")
	b.ReportMetric((engine.cpu(b) - cpu).Seconds(), "s/through-cpu")
	b.ReportMetric(engine.mib(b, "VmHWM"), "MiB/peak")
	b.ReportMetric(float64(tale.lapsed), "lapsed")
	b.ReportMetric(0, "ns/op")
	for range b.N {
	}
}

// populate lists hosts and claims in the control plane's tables.
func populate(b *testing.B, ctx context.Context, url string, hosts []string) {
	b.Helper()
	pgtest.Exec(b, url, planeSchema(b))
	c, err := pgx.Connect(ctx, url)
	must(b, err)
	defer c.Close(ctx)
	_, err = c.Exec(ctx, `insert into agents (id, address, labels, heartbeat_at) select h, h, '{"pool": "gpu"}', now() from unnest($1::text[]) as h`, hosts)
	must(b, err)
	_, err = c.Exec(ctx, `insert into sandboxes (id, agent_id, kind, status, class, owner, expires_at)
		select h || '-' || n, h, 'vm', 'running', 'ephemeral', 'ann', now() + interval '5 hours' from unnest($1::text[]) as h, generate_series(1, $2::int) as n`, hosts, drainsWorkloads)
	must(b, err)
}

// startAll asks for a drain of each host, as an operator does.
func startAll(b *testing.B, ctx context.Context, j *journal.Journal, hosts []string) {
	b.Helper()
	for _, h := range hosts {
		id := fleet.NewHostID("prod", h)
		ev, err := drain.NewEvent(id, "ask-"+h, "drain-"+h, 0, drain.Actor{Name: "ann", Console: "bench"}, drain.AskStart{Deadline: time.Now().Add(6 * time.Hour), Reason: "new kernel"})
		must(b, err)
		_, err = j.Append(ctx, drain.Batch{Stream: string(id), Events: []drain.Event{ev}})
		must(b, err)
	}
}

// tale is what the journal tells of all drains.
type tale struct {
	journal *journal.Journal
	after   uint64
	states  map[string]drain.State
	lapsed  int // times that a drain was taken up though it had a driver
}

func openTale(b *testing.B, ctx context.Context, url string) *tale {
	b.Helper()
	j, err := journal.Open(ctx, url)
	must(b, err)
	b.Cleanup(func() { j.Close() })
	return &tale{journal: j, states: map[string]drain.State{}}
}

// until reads on until a number of drains is in a phase.
func (t *tale) until(b *testing.B, ctx context.Context, phase drain.Phase, drains int) {
	b.Helper()
	for {
		events, err := t.journal.All(ctx, t.after, 0)
		must(b, err)
		for _, ev := range events {
			t.after = ev.Seq
			was := t.states[ev.Stream]
			now, err := drain.Apply(was, ev)
			must(b, err)
			if t.states[ev.Stream] = now; was.Epoch > 0 && now.Epoch > was.Epoch {
				t.lapsed++
			}
		}
		phases := map[drain.Phase]int{}
		for _, s := range t.states {
			phases[s.Phase]++
		}
		if phases[phase] >= drains {
			return
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			b.Fatalf("not all drains are %s: %v", phase, phases)
		}
	}
}

// overSocket reaches simulated agents: a line with host and role, then what an
// agent says.
func overSocket(socket string) func(context.Context, string, wire.Role) (net.Conn, ssh.PublicKey, error) {
	return func(ctx context.Context, address string, role wire.Role) (net.Conn, ssh.PublicKey, error) {
		c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err == nil {
			_, err = fmt.Fprintf(c, "%s %s\n", address, role)
		}
		return c, nil, err
	}
}

// simulated is a host as its agent tells it.
type simulated struct {
	mu    sync.Mutex
	facts fleet.Facts
	epoch uint64
	looks []time.Time // at which it was read anew
}

// simulation is many of them behind one socket.
type simulation struct {
	hosts map[string]*simulated
	conns chan net.Conn
	ended chan struct{}
	began time.Time
}

type simConn struct {
	net.Conn
	br   *bufio.Reader
	host *simulated
}

func (c *simConn) Read(p []byte) (int, error) { return c.br.Read(p) }

type simKey struct{}

func simulate(b *testing.B, socket string, hosts []string) *simulation {
	b.Helper()
	s := &simulation{hosts: map[string]*simulated{}, conns: make(chan net.Conn), ended: make(chan struct{})}
	for _, h := range hosts {
		s.hosts[h] = &simulated{facts: simFacts(h)}
	}
	l, err := net.Listen("unix", socket)
	must(b, err)
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	srv := &http.Server{Protocols: &p, Handler: s.handler(), ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, simKey{}, c.(*simConn).host)
	}}
	b.Cleanup(func() { l.Close(); srv.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.greet(c)
		}
	}()
	go func() { _ = srv.Serve(s) }()
	return s
}

func (s *simulation) greet(c net.Conn) {
	br := bufio.NewReader(c)
	line, err := br.ReadString('\n')
	name, role, _ := strings.Cut(strings.TrimSpace(line), " ")
	h := s.hosts[name]
	if err != nil || h == nil {
		c.Close()
		return
	}
	if wire.WriteHello(c, wire.Hello{Proto: wire.Proto, Version: "sim", Role: wire.Role(role), Machine: h.facts.Machine}) == nil {
		select {
		case s.conns <- &simConn{c, br, h}:
		case <-s.ended:
			c.Close()
		}
	}
}

// Accept, Close and Addr make a listener of the connections that were greeted.
func (s *simulation) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.ended:
		return nil, net.ErrClosed
	}
}
func (s *simulation) Close() error   { close(s.ended); return nil }
func (s *simulation) Addr() net.Addr { return &net.UnixAddr{} }

func simFacts(name string) fleet.Facts {
	now := time.Now()
	f := fleet.Facts{Generation: uint64(now.UnixMilli()), At: now, Machine: "m-" + name, Boot: "b-" + name, Hostname: name, Agent: fleet.AgentInfo{Version: "sim", Started: now}}
	var ps []fleet.Process
	var ws []fleet.Workload
	for n := 1; n <= drainsWorkloads; n++ {
		k := fleet.Key{Kind: "vm", ID: fmt.Sprintf("%s-%d", name, n)}
		w := fleet.Workload{Key: k, Rule: "vm", Phase: fleet.Running, Class: fleet.Ephemeral, Owner: "ann", Started: now.Add(-time.Hour), Expires: now.Add(5 * time.Hour)}
		for i := range 2 {
			run := fleet.Run{Boot: f.Boot, PID: 1000 + 10*n + i, Start: uint64(1000 + n)}
			w.Runs = append(w.Runs, run)
			ps = append(ps, fleet.Process{Run: run, PPID: 1, Comm: "firecracker", Exe: "/usr/bin/firecracker", State: "S", Started: now.Add(-time.Hour), Owner: k})
		}
		w.Run = w.Runs[0]
		ws = append(ws, w)
	}
	f.Processes, f.Workloads = fleet.Read(ps, "/proc", now, time.Millisecond), fleet.Read(ws, "rules", now, time.Millisecond)
	for _, r := range []*fleet.Reading[[]fleet.Resource]{&f.Netns, &f.Loops, &f.Dirs} {
		*r = fleet.Read([]fleet.Resource(nil), "sim", now, time.Millisecond)
	}
	f.GPUs.Status = fleet.NotApplicable
	return f
}

// look is the host read anew.
func (h *simulated) look(fresh bool) fleet.Facts {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if fresh {
		h.looks = append(h.looks, now)
	}
	f := &h.facts
	f.At, f.Processes.At, f.Workloads.At, f.Netns.At, f.Loops.At, f.Dirs.At = now, now, now, now, now, now
	return *f
}

func (h *simulated) hold(kind fleet.HoldKind, hold fleet.Hold) wire.HoldReply {
	h.mu.Lock()
	defer h.mu.Unlock()
	have := &h.facts.Holds.Cordon
	if kind == fleet.DrainHold {
		have = &h.facts.Holds.Drain
	}
	hold.Kind, hold.Since = kind, time.Now()
	if *have != nil {
		hold.Since = (*have).Since
	}
	*have = &hold
	h.facts.Generation++
	return wire.HoldReply{Holds: h.facts.Holds, Machine: h.facts.Machine, Boot: h.facts.Boot, At: time.Now(), Changed: true}
}

func (s *simulation) handler() http.Handler {
	mux := http.NewServeMux()
	on := func(pattern string, answer func(*simulated, *http.Request) any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewEncoder(w).Encode(answer(r.Context().Value(simKey{}).(*simulated), r))
		})
	}
	on("GET "+wire.PathFacts, func(h *simulated, r *http.Request) any { return h.look(r.URL.Query().Get("fresh") != "") })
	on("GET "+wire.PathSummary, func(h *simulated, _ *http.Request) any {
		f := h.look(false)
		return fleet.Summary{Generation: f.Generation, At: f.At, Machine: f.Machine, Boot: f.Boot, Version: "sim", Holds: f.Holds, Classes: map[fleet.Class]int{fleet.Ephemeral: drainsWorkloads}}
	})
	on("POST "+wire.PathEpoch, func(h *simulated, r *http.Request) any {
		var q wire.EpochRequest
		_ = json.NewDecoder(r.Body).Decode(&q)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.epoch = max(h.epoch, q.Epoch)
		return wire.EpochReply{Epoch: h.epoch}
	})
	on("PUT "+wire.PathCordon, func(h *simulated, r *http.Request) any {
		var q wire.CordonRequest
		_ = json.NewDecoder(r.Body).Decode(&q)
		return h.hold(fleet.CordonHold, fleet.Hold{Who: q.Who, Why: q.Why})
	})
	on("PUT "+wire.PathDrain, func(h *simulated, r *http.Request) any {
		var q wire.DrainRequest
		_ = json.NewDecoder(r.Body).Decode(&q)
		return h.hold(fleet.DrainHold, fleet.Hold{Who: q.Who, Why: q.Why, Drain: q.Drain, Journal: q.Journal, Epoch: q.Epoch, Deadline: q.Deadline, Evacuate: q.Evacuate, For: q.For})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"code":"not_found","error":"not simulated"}`)
	})
	return mux
}

// empty has every workload gone.
func (s *simulation) empty() {
	for _, h := range s.hosts {
		h.mu.Lock()
		h.facts.Processes.Value, h.facts.Workloads.Value = nil, nil
		h.facts.Generation++
		h.mu.Unlock()
	}
}

// forget begins to count looks.
func (s *simulation) forget() {
	s.began = time.Now()
	for _, h := range s.hosts {
		h.mu.Lock()
		h.looks = nil
		h.mu.Unlock()
	}
}

// lateness returns, in order, by how much each look at a host came later than a
// pass after the one before it, and how many looks there should have been.
func (s *simulation) lateness() (late []time.Duration, due float64) {
	end := time.Now()
	for _, h := range s.hosts {
		h.mu.Lock()
		last := s.began
		for i, at := range h.looks {
			if i > 0 {
				late = append(late, max(0, at.Sub(last)-drainsPass))
			}
			last = at
		}
		if since := end.Sub(last); since > drainsPass+time.Second { // it is late, and has not come
			late = append(late, since-drainsPass)
		}
		h.mu.Unlock()
	}
	if len(late) == 0 {
		late = []time.Duration{end.Sub(s.began)}
	}
	slices.Sort(late)
	return late, float64(len(s.hosts)) * (float64(end.Sub(s.began))/float64(drainsPass) - 1)
}

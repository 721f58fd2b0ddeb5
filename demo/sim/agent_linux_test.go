package sim

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"pgregory.net/rapid"

	"ebb/fleet"
	"ebb/fleet/proof"
	real "ebb/probes/agent"
	"ebb/probes/client"
	"ebb/probes/wire"
)

// bench is what both agents meet: one clock, one process that ignores TERM.
type bench struct {
	mu    sync.Mutex
	now   time.Time
	boot  time.Duration
	run   fleet.Run
	grace time.Duration
	dead  bool // as the model's agent knows it
}

const benchBoot = "6f3c1a52-7b0e-4c0a-9f0b-2a1d3c4e5f60"

func (b *bench) Now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bench) Boottime() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.boot
}

func (b *bench) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now, b.boot = b.now.Add(d), b.boot+d
}

func (b *bench) Clock() time.Time           { return b.Now() }
func (b *bench) Boot() string               { return benchBoot }
func (b *bench) Disk() string               { return "" }
func (b *bench) Dies(string) bool           { return false }
func (b *bench) Exec(wire.ActRequest) error { return nil }

func (b *bench) Owner(run fleet.Run) (fleet.Key, time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return wk("w"), b.grace, run == b.run && !b.dead
}

func (b *bench) Signal(r wire.ActRequest, _ fleet.Run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead = b.dead || r.Signal == "KILL"
}

func (b *bench) Signer() ssh.Signer           { return keyOf("m1") }
func (b *bench) Gauge(fleet.Key) (int, error) { return 0, nil }
func (b *bench) Remove(wire.ActRequest)       {}
func (b *bench) Poweroff()                    {}
func (b *bench) After(time.Duration, func())  {}

// Look is what the model's agent sees, which is what the real one scans.
func (b *bench) Look() fleet.Facts {
	now := b.Now()
	r := b.Scan(context.Background(), now)
	return fleet.Facts{At: now, Processes: r.Processes, Workloads: r.Workloads, Netns: r.Netns, Loops: r.Loops, Dirs: r.Dirs, GPUs: r.GPUs}
}

func (b *bench) Quick(context.Context) (bool, error) { return false, nil }

func (b *bench) Scan(_ context.Context, now time.Time) real.Readings {
	none := fleet.Read([]fleet.Resource(nil), "t", now, 0)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dead {
		return real.Readings{Processes: fleet.Read([]fleet.Process{}, "t", now, 0), Workloads: fleet.Read([]fleet.Workload{}, "t", now, 0),
			Netns: none, Loops: none, Dirs: none, GPUs: fleet.ReadNotApplicable[[]fleet.GPU]("t", now, "none")}
	}
	return real.Readings{
		Processes: fleet.Read([]fleet.Process{{Run: b.run, State: "S", Owner: wk("w")}}, "t", now, 0),
		Workloads: fleet.Read([]fleet.Workload{{Key: wk("w"), Phase: fleet.Running, Run: b.run, Runs: []fleet.Run{b.run}, Grace: b.grace}}, "t", now, 0),
		Netns:     none, Loops: none, Dirs: none, GPUs: fleet.ReadNotApplicable[[]fleet.GPU]("t", now, "none"),
	}
}

// rig is a real agent on real sockets.
type rig struct {
	cfg  real.Config
	stop func()
	all  map[wire.Role]*client.Client
}

func (r *rig) start(t *rapid.T) {
	a, err := real.New(r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	ls, err := real.Listen(r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx, ls) }()
	r.all = map[wire.Role]*client.Client{}
	r.stop = func() {
		for _, c := range r.all {
			c.Close()
		}
		cancel()
		<-done
	}
}

func (r *rig) dial(t *rapid.T, role wire.Role) *client.Client {
	if r.all[role] == nil {
		c, err := client.Dial(context.Background(), func(ctx context.Context) (net.Conn, error) {
			return real.DialSocket(ctx, filepath.Join(r.cfg.RunDir, role.Socket()))
		}, client.Options{NoHello: true, Operator: "ann", Version: "t"})
		if err != nil {
			t.Fatal(err)
		}
		r.all[role] = c
	}
	return r.all[role]
}

// said is an answer without what can't be the same: ids of tickets, texts.
func said(err error, parts ...any) string {
	var p *client.Problem
	var no *refusal
	switch {
	case errors.As(err, &p):
		return p.Code
	case errors.As(err, &no):
		return no.code
	case err != nil:
		return err.Error()
	}
	return fmt.Sprint(parts...)
}

func holdsText(h fleet.Holds) string {
	out := ""
	for _, x := range []*fleet.Hold{h.Cordon, h.Drain} {
		if x != nil {
			out += fmt.Sprintf("%s %s %s %d %s; ", x.Kind, x.Who, x.Drain, x.Epoch, x.Since.UTC())
		}
	}
	return out
}

func actText(r wire.ActReply) string {
	return fmt.Sprint(r.ID, r.State, r.OK, r.Reason.Code, r.NotYet.UTC())
}

// TestAgentIsTheAgent asks the model and a real agent the same, with a real
// process that ignores TERM: they give the same answers.
func TestAgentIsTheAgent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "sim")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		cmd := exec.Command("sh", "-c", "trap '' TERM; echo; while :; do read x; done")
		in, _ := cmd.StdinPipe()
		out, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		defer in.Close()
		_, _ = out.Read(make([]byte, 1)) // the trap is set
		b := &bench{now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), boot: 100 * time.Hour,
			grace: time.Duration(rapid.SampledFrom([]int{0, 45}).Draw(rt, "grace")) * time.Second}
		b.run = fleet.Run{Boot: benchBoot, PID: cmd.Process.Pid, Start: startOf(rt, cmd.Process.Pid)}
		r := &rig{cfg: real.Config{Version: "t", Machine: "m1", Boot: benchBoot, StateDir: dir + "/state", RunDir: dir + "/run", Prober: b, Clock: b,
			Quick: 10 * time.Millisecond, Full: time.Hour, Heartbeat: time.Hour, HostKeys: []string{dir + "/key"}, Poweroff: func() error { return nil }}}
		if err := os.WriteFile(dir+"/key", privateKey(rt, "m1"), 0o600); err != nil {
			rt.Fatal(err)
		}
		if err := real.Init(r.cfg.StateDir, "m1"); err != nil {
			rt.Fatal(err)
		}
		r.start(rt)
		defer func() { r.stop() }()
		model := newAgent(b, "m1")
		var ours, theirs []string // tickets
		var proofs [2]wire.ProofReply
		if rapid.IntRange(0, 4).Draw(rt, "held") > 0 { // most of what matters needs a hold
			if got, want := both(rt, r, model, b, 2, "d1", 1, "m1", &ours, &theirs); got != want {
				rt.Fatalf("the model says %q, the agent %q", got, want)
			}
		}
		if rapid.Bool().Draw(rt, "proved") { // and much of the rest a proof
			steps := [][2]string{}
			add := func(got, want string) { steps = append(steps, [2]string{got, want}) }
			add(both(rt, r, model, b, 0, "d1", 1, "m1", &ours, &theirs))
			add(both(rt, r, model, b, 2, "d1", 1, "m1", &ours, &theirs))
			add(bothGate(rt, r, model, 13, "d1", 1, "m1", &proofs, true))
			add(bothGate(rt, r, model, 14, "d1", 1, "m1", &proofs, true))
			if rapid.Bool().Draw(rt, "sealed") {
				b.pass(time.Duration(rapid.SampledFrom([]int{0, 20, 3600}).Draw(rt, "age")) * time.Second)
				add(bothGate(rt, r, model, 15, "d1", 1, "m1", &proofs, true))
			}
			for i, s := range steps {
				if s[0] != s[1] {
					rt.Fatalf("step %d to a seal: the model says %q, the agent %q", i, s[0], s[1])
				}
			}
		}
		for range rapid.IntRange(1, 25).Draw(rt, "calls") {
			what := rapid.SampledFrom([]int{0, 0, 1, 2, 3, 4, 5, 6, 6, 6, 6, 6, 6, 6, 6, 10, 10, 11, 12, 13, 14, 14, 15, 15, 16}).Draw(rt, "what")
			id, epoch := rapid.SampledFrom([]string{"d1", "d1", "d1", "d1", "d2"}).Draw(rt, "drain"), rapid.SampledFrom([]uint64{1, 1, 1, 1, 0, 2, 3}).Draw(rt, "epoch")
			machine := rapid.SampledFrom([]string{"m1", "m1", "m1", "m1", "m1", "m1", "m1", "m2"}).Draw(rt, "machine")
			b.pass(time.Duration(rapid.SampledFrom([]int{0, 1, 20, 31, 46}).Draw(rt, "seconds")) * time.Second)
			got, want := "", ""
			if what >= 13 {
				got, want = bothGate(rt, r, model, what, id, epoch, machine, &proofs, false)
			} else {
				got, want = both(rt, r, model, b, what, id, epoch, machine, &ours, &theirs)
			}
			if got != want {
				rt.Fatalf("call %d: the model says %q, the agent %q", what, got, want)
			}
		}
	})
}

func both(t *rapid.T, r *rig, m *agent, b *bench, what int, id string, epoch uint64, machine string, ours, theirs *[]string) (got, want string) {
	ctx := context.Background()
	switch {
	case what == 0:
		req := wire.CordonRequest{Who: "ann", Why: "x", Machine: machine}
		reply, err := r.dial(t, wire.Cordon).Cordon(ctx, req)
		return said(m.cordon(req), holdsText(m.rec.holds)), said(err, holdsText(reply.Holds))
	case what == 1:
		req := wire.LiftRequest{Who: "ann", Machine: machine}
		reply, err := r.dial(t, wire.Cordon).Uncordon(ctx, req)
		return said(m.uncordon(req), holdsText(m.rec.holds)), said(err, holdsText(reply.Holds))
	case what < 4:
		req := wire.DrainRequest{Who: "ann", Drain: id, Journal: "j", Epoch: epoch, Deadline: b.Now().Add(time.Hour), Machine: machine}
		reply, err := r.dial(t, wire.Operate).Drain(ctx, req)
		return said(m.drain(req), holdsText(m.rec.holds)), said(err, holdsText(reply.Holds))
	case what == 4:
		req := wire.LiftRequest{Who: "ann", Drain: id, Epoch: epoch, Machine: machine, Theirs: epoch == 3}
		reply, err := r.dial(t, wire.Operate).Undrain(ctx, req)
		return said(m.undrain(req), holdsText(m.rec.holds)), said(err, holdsText(reply.Holds))
	case what == 5:
		req := wire.EpochRequest{Drain: id, Epoch: epoch}
		reply, err := r.dial(t, wire.Operate).Epoch(ctx, req)
		top, merr := m.announce(req)
		return said(merr, top), said(err, reply.Epoch)
	case what < 10:
		return bothAct(t, r, m, b, id, epoch, machine)
	case what == 10:
		req := wire.AdmissionRequest{Op: rapid.SampledFrom([]fleet.Op{fleet.OpClaim, fleet.OpRenew, fleet.OpAdopt}).Draw(t, "op"), Key: wk("new"), Who: "c"}
		reply, err := r.dial(t, wire.Admission).Admit(ctx, req)
		ticket, merr := m.admit(req)
		if ticket != nil && reply.Ticket != nil {
			*ours, *theirs = append(*ours, ticket.ID), append(*theirs, reply.Ticket.ID)
		}
		return said(merr, ticket != nil), said(err, reply.Ticket != nil)
	case what == 11 && len(*ours) > 0:
		i := rapid.IntRange(0, len(*ours)-1).Draw(t, "ticket")
		_, err := r.dial(t, wire.Admission).Settle(ctx, (*theirs)[i], wire.TicketReport{Closed: "done"})
		return said(m.settle((*ours)[i], "done")), said(err)
	case what == 12:
		r.stop()
		r.start(t)
		m.start()
	}
	f, err := r.dial(t, wire.Observe).Facts(ctx, false)
	return said(nil, holdsText(m.rec.holds), len(m.open())), said(err, holdsText(f.Holds), len(f.OpenTickets()))
}

// bothGate asks for an exception, a proof, a seal, the end.
func bothGate(t *rapid.T, r *rig, m *agent, what int, id string, epoch uint64, machine string, proofs *[2]wire.ProofReply, sure bool) (got, want string) {
	ctx := context.Background()
	draw := func(name string, all ...string) string { // the first is what works
		if sure {
			return all[0]
		}
		return rapid.SampledFrom(all).Draw(t, name)
	}
	switch what {
	case 13:
		req := wire.AcceptRequest{Key: wk(draw("key", "w", "w", "v")), Reason: draw("reason", "known", "known", "known", ""), Who: "ann", Typed: "vm/w", Machine: machine}
		_, err := r.dial(t, wire.Terminate).Accept(ctx, req)
		return said(m.accept(req)), said(err)
	case 14:
		asserted := draw("asserted", `{"claims":"c"}`, `{"claims":"c"}`, `{"claims":"c"}`, `{}`)
		key := ssh.FingerprintSHA256(keyOf(draw("host key", "m1", "m1", "m1", "m1", "m2")).PublicKey())
		req := wire.ProofRequest{Drain: id, Epoch: epoch, Machine: machine, Host: "p/h1", Nonce: "n", HostKey: key, Asserted: []byte(asserted)}
		reply, err := r.dial(t, wire.Operate).Proof(ctx, req)
		mine, merr := m.prove(req)
		if err == nil && merr == nil {
			proofs[0], proofs[1] = mine, reply
		}
		return said(merr, digest(mine)), said(err, digest(reply))
	case 15:
		req := wire.SealRequest{Who: "ann", Terminator: draw("how", "command", "command", "poweroff", "rm"), Machine: machine}
		ask := func(p wire.ProofReply) wire.SealRequest { req.Proof, req.Signature = p.Proof, p.Signature; return req }
		if proofs[0].Proof == nil {
			ask = func(wire.ProofReply) wire.SealRequest { req.Proof, req.Signature = []byte("{}"), "x"; return req }
		}
		reply, err := r.dial(t, wire.Terminate).Seal(ctx, ask(proofs[1]))
		merr := m.confirm(ask(proofs[0]))
		return said(merr, m.rec.seal), said(err, reply.Sealed)
	}
	req := wire.PoweroffRequest{Who: "ann", Drain: id, Machine: machine}
	_, err := r.dial(t, wire.Terminate).Poweroff(ctx, req)
	return said(m.poweroff(req)), said(err)
}

// digest is what two proofs of the same host have in common.
func digest(r wire.ProofReply) string {
	doc, err := proof.Parse(r.Proof)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(doc.Digest, doc.Items, doc.Drain, doc.Epoch, doc.Boot, doc.Made.UTC(), doc.MadeBoot, len(doc.Accepted), doc.Holds.Both())
}

func privateKey(t *rapid.T, name string) []byte {
	seed := sha256.Sum256([]byte(name))
	block, err := ssh.MarshalPrivateKey(ed25519.NewKeyFromSeed(seed[:]), "")
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

func bothAct(t *rapid.T, r *rig, m *agent, b *bench, id string, epoch uint64, machine string) (got, want string) {
	name := fmt.Sprintf("a%d", len(m.acts)) // a new one, or one that was used
	if len(m.acts) > 0 && rapid.IntRange(0, 4).Draw(t, "again") == 0 {
		name = fmt.Sprintf("a%d", rapid.IntRange(0, len(m.acts)-1).Draw(t, "act"))
	}
	req := wire.ActRequest{ID: name, Drain: id, Epoch: epoch,
		Machine: machine, Kind: wire.ActSignal, Key: rapid.SampledFrom([]fleet.Key{wk("w"), wk("w"), wk("w"), wk("w"), wk("w"), wk("v")}).Draw(t, "key"), Runs: []fleet.Run{b.run},
		Signal: rapid.SampledFrom([]string{"TERM", "TERM", "KILL"}).Draw(t, "signal"), Grace: time.Duration(rapid.SampledFrom([]int{0, 30}).Draw(t, "grace")) * time.Second}
	if req.Signal == "KILL" {
		req.Recorded, req.Named = rapid.SampledFrom([]string{"e1", "e1", "e1", "e1", ""}).Draw(t, "record"), "plan"
	}
	if rapid.IntRange(0, 9).Draw(t, "run") == 0 {
		req.Runs = []fleet.Run{{Boot: "another", PID: b.run.PID, Start: b.run.Start}}
	}
	c := r.dial(t, wire.Operate)
	reply, err := c.Act(context.Background(), req)
	for err == nil && reply.State == wire.ActBegun {
		reply, err = c.Follow(context.Background(), req.ID, time.Minute)
	}
	mine, merr := m.begin(req)
	return said(merr, actText(mine)), said(err, actText(reply))
}

// startOf reads field 22 of a stat file.
func startOf(t *rapid.T, pid int) uint64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	var start uint64
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if _, err := fmt.Sscan(fields[19], &start); err != nil {
		t.Fatal(err)
	}
	return start
}

package agent

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ebb/fleet"
	"ebb/probes/wire"
)

// child is a real process that a test may signal.
type child struct {
	run  fleet.Run
	done chan struct{}
	err  error
}

// spawn starts a shell script and waits until it has said that it is ready.
func spawn(t *testing.T, script string) *child {
	t.Helper()
	cmd := exec.Command("sh", "-c", script+"\necho ready; while :; do sleep 0.05; done")
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("child: %q %v", line, err)
	}
	start, _, err := readStart("/proc", cmd.Process.Pid)
	ok(t, err)
	c := &child{run: fleet.Run{Boot: testBoot, PID: cmd.Process.Pid, Start: start}, done: make(chan struct{})}
	go func() {
		_, _ = io.Copy(io.Discard, out)
		c.err = cmd.Wait()
		close(c.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-c.done
	})
	return c
}

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// showing is a host on which these processes run, as one workload.
func showing(key fleet.Key, grace time.Duration, children ...*child) func(time.Time) Readings {
	return func(now time.Time) Readings {
		r := empty(now)
		w := fleet.Workload{Key: key, Phase: fleet.Running, Grace: grace}
		for _, c := range children {
			if c.ended() {
				continue
			}
			w.Runs = append(w.Runs, c.run)
			r.Processes.Value = append(r.Processes.Value, fleet.Process{Run: c.run, Owner: key, Comm: "sh"})
		}
		if len(w.Runs) > 0 {
			w.Run = w.Runs[0]
			r.Workloads.Value = append(r.Workloads.Value, w)
		}
		return r
	}
}

func signalOf(id, sig string, key fleet.Key, runs ...fleet.Run) wire.ActRequest {
	r := wire.ActRequest{ID: id, Drain: "d1", Epoch: 1, Machine: testMachine, Kind: wire.ActSignal, Key: key, Runs: runs, Signal: sig}
	if sig == "KILL" {
		r.Recorded, r.Named = "event-1", "plan"
	}
	return r
}

func drained(t *testing.T, options ...func(*Config)) *rig {
	r := newRig(t, options...)
	ok(t, r.drain("d1", 1))
	return r
}

func TestTermEndsTheProcessAndARepeatSignalsNobody(t *testing.T) {
	r := drained(t)
	c := spawn(t, "")
	r.prober.set(showing(vm1, 0, c))
	reply, err := r.act(signalOf("a1", "TERM", vm1, c.run))
	ok(t, err)
	if !reply.OK || !strings.Contains(reply.Detail, "TERM sent to 1") {
		t.Fatalf("%+v", reply)
	}
	<-c.done
	again, err := r.act(signalOf("a1", "TERM", vm1, c.run))
	ok(t, err)
	if !again.OK || again.Detail != reply.Detail || !again.Begun.Equal(reply.Begun) {
		t.Fatalf("a repeat was answered with %+v, not with the first outcome", again)
	}
	gone, err := r.act(signalOf("a2", "TERM", vm1, c.run))
	ok(t, err)
	if !gone.OK || !strings.Contains(gone.Detail, "1 already gone") {
		t.Fatalf("a process that is gone: %+v", gone)
	}
	other := signalOf("a1", "TERM", vm1, c.run)
	other.Key.ID = "2"
	_, err = r.act(other)
	code(t, err, wire.CodeBadRequest)
}

// The pid has been taken over by another process since it was observed: start
// time and boot tell.
func TestAReusedPidIsNeverSignalled(t *testing.T) {
	r := drained(t)
	c, bystander := spawn(t, ""), spawn(t, "")
	r.prober.set(showing(vm1, 0, c, bystander))
	for name, run := range map[string]fleet.Run{
		"earlier start": {Boot: testBoot, PID: bystander.run.PID, Start: bystander.run.Start - 1},
		"other boot":    {Boot: "another", PID: bystander.run.PID, Start: bystander.run.Start},
	} {
		// The one that is right stands first: nothing may be sent to it either.
		reply, err := r.act(signalOf("reused-"+strings.ReplaceAll(name, " ", "-"), "TERM", vm1, c.run, run))
		failed(t, reply, err, wire.CodeOtherRun)
		if c.ended() || bystander.ended() {
			t.Fatalf("%s: a process was signalled", name)
		}
	}
}

// Even where /proc is made to lie the pidfd decides: the process that is shown
// under the pid is another one than the pid's.
func TestIdentityIsReadAfterThePidIsHeld(t *testing.T) {
	proc := t.TempDir()
	r := drained(t, func(c *Config) { c.Proc = proc })
	c := spawn(t, "")
	r.prober.set(showing(vm1, 0, c))
	stat := filepath.Join(proc, itoa(c.run.PID), "stat")
	ok(t, os.MkdirAll(filepath.Dir(stat), 0o755))
	ok(t, os.WriteFile(stat, fmt.Appendf(nil, "%d (sh) 1) S 1 %s %d 0\n", c.run.PID, strings.Repeat("0 ", 17), c.run.Start+5), 0o600))
	reply, err := r.act(signalOf("lie", "TERM", vm1, c.run))
	failed(t, reply, err, wire.CodeOtherRun)
	ok(t, os.Remove(stat))
	reply, err = r.act(signalOf("vanished", "TERM", vm1, c.run))
	ok(t, err)
	if !reply.OK || !strings.Contains(reply.Detail, "1 already gone") || c.ended() {
		t.Fatalf("%+v", reply)
	}
}

func TestWhoIsNeverSignalled(t *testing.T) {
	r := drained(t)
	c := spawn(t, "")
	for _, run := range []fleet.Run{{Boot: testBoot, PID: 1, Start: 1}, {Boot: testBoot, PID: 0, Start: 1}, {Boot: testBoot, PID: -1, Start: 1},
		{Boot: testBoot, PID: os.Getpid(), Start: 1}, {Boot: testBoot, PID: 77}, {UID: "x"}, {}} {
		_, err := r.act(signalOf("bad", "TERM", vm1, run))
		code(t, err, wire.CodeBadRequest)
	}
	shown := fleet.Process{Run: c.run, Owner: vm1}
	for name, change := range map[string]func(*Readings){
		"the host's own":    func(rd *Readings) { rd.Processes.Value[0].System = "unit ssh.service" },
		"another's":         func(rd *Readings) { rd.Processes.Value[0].Owner = fleet.Key{Kind: "vm", ID: "2"} },
		"outside the scope": func(rd *Readings) { rd.Processes.Value = nil },
		"unknown": func(rd *Readings) {
			rd.Processes = fleet.ReadFailed[[]fleet.Process]("/proc", r.clock.Now(), 0, os.ErrPermission)
		},
	} {
		r.prober.set(func(now time.Time) Readings {
			rd := empty(now)
			rd.Processes.Value = []fleet.Process{shown}
			change(&rd)
			return rd
		})
		_, err := r.dial(wire.Observe).Facts(t.Context(), true)
		ok(t, err)
		reply, err := r.act(signalOf("never-"+strings.Map(func(c rune) rune {
			if c == ' ' || c == '\'' {
				return '-'
			}
			return c
		}, name), "TERM", vm1, c.run))
		failed(t, reply, err, wire.CodeOtherRun)
		if c.ended() {
			t.Fatalf("%s: signalled", name)
		}
	}
}

func TestKillWaitsForEveryGap(t *testing.T) {
	r := drained(t)
	c := spawn(t, "trap '' TERM")
	r.prober.set(showing(vm1, 3*time.Minute, c)) // the owner's own grace is longer than what is asked
	kill := func(id string) (wire.ActReply, error) {
		req := signalOf(id, "KILL", vm1, c.run)
		req.Grace = time.Minute
		return r.act(req)
	}
	early := func(id string) wire.ActReply {
		t.Helper()
		reply, err := kill(id)
		failed(t, reply, err, wire.CodeTooEarly)
		if c.ended() {
			t.Fatal("killed too early")
		}
		return reply
	}
	term := func(id string) {
		t.Helper()
		reply, err := r.act(signalOf(id, "TERM", vm1, c.run))
		ok(t, err)
		if !reply.OK {
			t.Fatalf("%+v", reply)
		}
	}
	early("k0")
	term("t1")
	if reply := early("k1"); !reply.NotYet.Equal(r.clock.Now().Add(3*time.Minute + 30*time.Second)) {
		t.Fatalf("not yet until %v", reply.NotYet)
	}
	r.clock.advance(time.Minute)
	term("t2") // before the owner's grace is over: it does not count
	r.clock.advance(time.Minute)
	early("k2")
	r.restart() // the agent remembers what it has sent
	r.clock.advance(time.Minute)
	early("k3") // the grace is over, the second TERM is missing
	term("t3")
	early("k4")
	// The owner's word counts as it was when TERM was sent, even if it is gone.
	r.prober.set(showing(vm1, 0, c))
	r.clock.advance(30*time.Second - time.Nanosecond)
	if reply := early("k5"); !reply.NotYet.Equal(r.clock.Now().Add(time.Nanosecond)) {
		t.Fatalf("not yet until %v", reply.NotYet)
	}
	r.clock.advance(time.Nanosecond)
	reply, err := kill("k6")
	ok(t, err)
	if !reply.OK {
		t.Fatalf("due, and not done: %+v", reply)
	}
	<-c.done
}

func TestTheWallClockDoesNotShortenAGap(t *testing.T) {
	r := drained(t)
	c := spawn(t, "trap '' TERM")
	r.prober.set(showing(vm1, 0, c))
	req := signalOf("t1", "TERM", vm1, c.run)
	_, err := r.act(req)
	ok(t, err)
	r.clock.mu.Lock()
	r.clock.now = r.clock.now.Add(1000 * time.Hour)
	r.clock.mu.Unlock()
	kill := signalOf("k1", "KILL", vm1, c.run)
	kill.Grace = time.Minute
	reply, err := r.act(kill)
	failed(t, reply, err, wire.CodeTooEarly)
}

func TestATermOfAnotherBootIsNotRemembered(t *testing.T) {
	r := drained(t)
	c := spawn(t, "trap '' TERM")
	r.prober.set(showing(vm1, 0, c))
	_, err := r.act(signalOf("t1", "TERM", vm1, c.run))
	ok(t, err)
	r.cfg.Boot = "another-boot"
	r.restart()
	if n := len(r.agent.acts.terms); n != 0 {
		t.Fatalf("%d TERMs of another boot are remembered", n)
	}
	kill := signalOf("k1", "KILL", vm1, c.run)
	reply, err := r.act(kill)
	failed(t, reply, err, wire.CodeOtherRun)
}

func TestKillNeedsItsRecordAndItsName(t *testing.T) {
	r := drained(t)
	for _, spoil := range []func(*wire.ActRequest){
		func(q *wire.ActRequest) { q.Recorded = "" }, func(q *wire.ActRequest) { q.Named = "" },
		func(q *wire.ActRequest) { q.Signal = "HUP" }, func(q *wire.ActRequest) { q.Grace = -1 }, func(q *wire.ActRequest) { q.Runs = nil },
		func(q *wire.ActRequest) { q.Drain = "" }, // an operator alone never kills
	} {
		req := signalOf("k", "KILL", vm1, fleet.Run{Boot: testBoot, PID: 99999, Start: 1})
		spoil(&req)
		_, err := r.act(req)
		code(t, err, wire.CodeBadRequest)
	}
}

// Over every order of times: a KILL is due only if two TERMs lie at least the
// grace apart and the later one at least thirty seconds back.
func TestKillWaitProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		grace := time.Duration(rapid.IntRange(0, 100).Draw(t, "grace")) * time.Second
		var terms []sent
		at := time.Duration(0)
		for range rapid.IntRange(0, 6).Draw(t, "terms") {
			at += time.Duration(rapid.IntRange(0, 60).Draw(t, "gap")) * time.Second
			terms = append(terms, sent{At: at})
		}
		now := at + time.Duration(rapid.IntRange(0, 120).Draw(t, "since"))*time.Second
		left, _ := killWait(terms, grace, lastWait, now)
		due := false
		for i, a := range terms {
			for _, b := range terms[i+1:] {
				due = due || (b.At-a.At >= grace && now-b.At >= lastWait)
			}
		}
		if (left == 0) != due {
			t.Fatalf("left %v, due %v", left, due)
		}
	})
}

func TestFences(t *testing.T) {
	r := newRig(t)
	c := spawn(t, "")
	r.prober.set(showing(vm1, 0, c))
	_, err := r.act(signalOf("f1", "TERM", vm1, c.run))
	code(t, err, wire.CodeNotHeld)
	ok(t, r.drain("d1", 5))
	_, err = r.act(signalOf("f2", "TERM", vm1, c.run)) // epoch 1
	if p := code(t, err, wire.CodeStaleEpoch); p.Epoch != 5 {
		t.Fatalf("%+v", p)
	}
	other := signalOf("f3", "TERM", vm1, c.run)
	other.Drain = "d2"
	_, err = r.act(other)
	if p := code(t, err, wire.CodeOtherDrain); p.Hold == nil || p.Hold.Drain != "d1" {
		t.Fatalf("%+v", p)
	}
	newer := signalOf("f4", "TERM", fleet.Key{Kind: "vm", ID: "2"}, c.run) // refused in the act, and its epoch counts
	newer.Epoch = 9
	reply, err := r.act(newer)
	failed(t, reply, err, wire.CodeOtherRun)
	code(t, r.drain("d1", 8), wire.CodeStaleEpoch)
	if c.ended() {
		t.Fatal("signalled past the fence")
	}
}

// The epoch is asked for again in the instant of the act: a takeover between
// beginning and act stops it.
func TestATakeoverStopsAnActThatHasBegun(t *testing.T) {
	r := drained(t)
	c := spawn(t, "")
	r.prober.set(empty) // the process is not seen yet, so the act scans first
	gate := make(chan struct{})
	r.prober.mu.Lock()
	r.prober.gate = gate
	r.prober.mu.Unlock()
	op := r.dial(wire.Operate)
	_, err := op.Act(t.Context(), signalOf("t1", "TERM", vm1, c.run))
	ok(t, err)
	_, err = op.Epoch(t.Context(), wire.EpochRequest{Drain: "d1", Epoch: 2})
	ok(t, err)
	r.prober.mu.Lock()
	r.prober.gate = nil
	r.prober.mu.Unlock()
	r.prober.set(showing(vm1, 0, c))
	close(gate)
	reply, err := op.Follow(t.Context(), "t1", time.Minute)
	failed(t, reply, err, wire.CodeStaleEpoch)
	if c.ended() {
		t.Fatal("signalled by a driver that had been replaced")
	}
}

func TestAnOperatorEndsAnOrphanOnAHeldHostOnly(t *testing.T) {
	r := newRig(t)
	c := spawn(t, "")
	key := fleet.Process{Run: c.run}.Key()
	r.prober.set(func(now time.Time) Readings {
		rd := empty(now)
		if !c.ended() {
			rd.Processes.Value = []fleet.Process{{Run: c.run, Comm: "stray"}}
		}
		return rd
	})
	req := signalOf("o1", "TERM", key, c.run)
	req.Drain, req.Epoch = "", 0
	_, err := r.act(req)
	code(t, err, wire.CodeNotHeld)
	ticket, err := r.dial(wire.Admission).Admit(t.Context(), wire.AdmissionRequest{Op: fleet.OpClaim, Key: vm1})
	ok(t, err)
	r.cordon()
	_, err = r.act(req)
	code(t, err, wire.CodeTicketsOpen)
	_, err = r.dial(wire.Admission).Settle(t.Context(), ticket.Ticket.ID, wire.TicketReport{Closed: "failed"})
	ok(t, err)
	reply, err := r.act(req)
	ok(t, err)
	if !reply.OK {
		t.Fatalf("%+v", reply)
	}
	<-c.done
}

func FuzzParseStart(f *testing.F) {
	f.Add("4117 (web (v2)) S 1 4117 4117 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 88123 0 0\n")
	f.Add("1 () R\n")
	f.Add(")")
	f.Add("1 (a\nb) ) Z 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 18446744073709551615")
	f.Fuzz(func(t *testing.T, s string) {
		start, state, err := parseStart(s)
		if err == nil && (state == 0 || strings.LastIndexByte(s, ')') < 0) {
			t.Fatalf("%q: start %d state %q", s, start, state)
		}
	})
}

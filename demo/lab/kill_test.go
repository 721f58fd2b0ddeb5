//go:build linux

package lab_test

import (
	"os"
	"strings"
	"testing"

	"ebb/demo/lab"
	"ebb/drain"
	"ebb/fleet"
	"ebb/fleet/postgres/pgtest"
)

// Workloads of a drain in which things are killed: one moves, the other is
// escalated to the end.
var (
	page  = lab.Work{Kind: "service", ID: "page", Class: "stateless", Owner: "search", Serve: true}
	stuck = lab.Work{Kind: "box", ID: "stuck", Owner: "ci", IgnoreTerm: true}
)

// blow is one SIGKILL, and the moment at which it falls.
type blow struct {
	what string
	at   moment
}

// struck starts a drain of the first host and lets a blow fall at each moment;
// then the drain must come to its end as if nothing had happened.
func (b *bench) struck(host, target string, works []lab.Work, drive func() func() lab.Result, strike func(blow), blows ...blow) {
	b.Helper()
	b.countMoves()
	pids := b.run(host, works...)
	for _, work := range works {
		b.seen(host, fleet.Key{Kind: work.Kind, ID: work.ID})
	}
	w := b.watch()
	wait := drive()
	for _, blow := range blows {
		w.sees(host, blow.what, blow.at)
		strike(blow)
	}
	b.want(wait(), 0, host+" is empty")
	for i, pid := range pids {
		if b.Hosts[host].Runs(pid) {
			b.Errorf("%s still runs", works[i].ID)
		}
	}
	b.refuses(host, "new kernel")
	w.sound(host, target)
	for _, work := range works {
		if work.Serve {
			b.serves(target, work)
		}
	}
}

// serves wants exactly one process of a moved workload on its new host.
func (b *bench) serves(host string, work lab.Work) {
	b.Helper()
	deeds, err := b.Hosts[host].Deeds()
	b.must(err)
	up := 0
	for _, d := range deeds {
		if d.What == "up" && d.Key == work.Kind+"/"+work.ID && b.Hosts[host].Runs(d.PID) {
			up++
		}
	}
	if up != 1 {
		b.Errorf("%d processes of %s run on %s", up, work.ID, host)
	}
	if at, err := b.Ask(b.ctx, `select agent_id || ' ' || status from sandboxes where id = $1`, work.ID); err != nil || at != host+" running" {
		b.Errorf("%s is claimed on %q, %v", work.ID, at, err)
	}
}

// kernel are the arguments of a drain that is struck.
var kernel = []string{"--deadline", "20m", "--reason", "new kernel"}

// cordons is the moment before the cordon is told.
var cordons = body(func(b drain.DriveIntent) bool { return b.Act.Kind == drain.ActCordon })

// done is the moment after an act of a step.
func done(step drain.Step) moment {
	return body(func(b drain.DriveOutcome) bool {
		return b.Result == drain.Done && strings.Contains(b.Act, "/"+string(step)+"/")
	})
}

// recorded is the moment between the second TERM and KILL.
var recorded = body(func(drain.DriveRecord) bool { return true })

// The console is killed again and again, and the next one takes the drain up.
func TestKilledConsole(t *testing.T) {
	t.Parallel()
	t.Run("move", func(t *testing.T) {
		t.Parallel()
		b := setUp(t, nil, "", "ka1", "ka2")
		b.consoleDies("ka1", "ka2", page,
			blow{"the cordon's intent", cordons},
			blow{"the start's intent", intends(drain.ActExec, drain.StepStart)},
			blow{"the intent to flip", intends(drain.ActFlip, drain.StepFlip)})
	})
	t.Run("escalation", func(t *testing.T) {
		t.Parallel()
		b := setUp(t, nil, "", "kb1", "kb2")
		b.consoleDies("kb1", "kb2", stuck,
			blow{"the intent to send TERM", intends(drain.ActSignal, drain.StepTerm)},
			blow{"the record before KILL", recorded},
			blow{"verifying", enters(drain.Verifying)})
	})
}

func (b *bench) consoleDies(host, target string, work lab.Work, blows ...blow) {
	var r *relay
	drive := func() func() lab.Result {
		r = b.relay(host, kernel...)
		return r.wait
	}
	b.struck(host, target, []lab.Work{work}, drive, func(blow) { r.kill() }, blows...)
}

// The agent of the host that is drained is killed at every step, and started
// again.
func TestKilledSource(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "kc1", "kc2")
	b.agentDies("kc1", "kc1", "kc2", []lab.Work{page, stuck},
		blow{"the cordon's intent", cordons},
		blow{"the start's intent", intends(drain.ActExec, drain.StepStart)},
		blow{"the intent to stop the old one", intends(drain.ActSignal, drain.StepTerm)},
		blow{"the intent to send TERM", termOf("stuck")},
		blow{"the intent to send TERM again", intends(drain.ActSignal, drain.StepTerm2)},
		blow{"the intent to KILL", intends(drain.ActSignal, drain.StepKill)},
		blow{"verifying", enters(drain.Verifying)})
}

func termOf(id string) moment {
	return body(func(b drain.DriveIntent) bool { return b.Act.Step == drain.StepTerm && b.Act.Key.ID == id })
}

// agentDies kills the agent of one of the hosts.
func (b *bench) agentDies(victim, host, target string, works []lab.Work, blows ...blow) {
	h := b.Hosts[victim]
	drive := func() func() lab.Result {
		run := b.begin(append([]string{"drain", host}, kernel...)...)
		return func() lab.Result { return run.Wait(b.ctx) }
	}
	b.struck(host, target, works, drive, func(blow) {
		b.must(h.KillAgent(b.ctx))
		b.must(h.StartAgent(b.ctx))
	}, blows...)
}

// The agent of the host that a workload moves to is killed before its health is
// asked for, and before the claim moves.
func TestKilledTarget(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "kd1", "kd2")
	b.agentDies("kd2", "kd1", "kd2", []lab.Work{page},
		blow{"the start's outcome", done(drain.StepStart)},
		blow{"the intent to flip", intends(drain.ActFlip, drain.StepFlip)})
}

// The database of journal and control plane is killed at every step, and started
// again.
func TestKilledDatabase(t *testing.T) {
	t.Parallel()
	ownServer(t)
	server := pgtest.New(t, pgtest.Durable)
	b := setUp(t, server, "", "ke1", "ke2")
	drive := func() func() lab.Result {
		run := b.begin(append([]string{"drain", "ke1"}, kernel...)...)
		return func() lab.Result { return run.Wait(b.ctx) }
	}
	b.struck("ke1", "ke2", []lab.Work{page, stuck}, drive, func(blow) {
		b.must(server.Kill())
		b.must(server.Start())
	},
		blow{"the cordon's intent", cordons},
		blow{"the start's intent", intends(drain.ActExec, drain.StepStart)},
		blow{"the intent to flip", intends(drain.ActFlip, drain.StepFlip)},
		blow{"the intent to send TERM", termOf("stuck")},
		blow{"the record before KILL", recorded},
		blow{"verifying", enters(drain.Verifying)})
}

// terminates drains and proves a host, and strikes at the intent to terminate it.
// The terminator takes its time.
func (b *bench) terminates(host string, strike func(*lab.Run)) *lab.Run {
	b.Helper()
	b.must(os.WriteFile(b.File("terminator"), []byte("#!/bin/sh\nprintf '%s\\n' \"$*\" >> "+b.File("terminated")+"\nsleep 3\n"), 0o755))
	b.ebb(0, says("is empty"), append([]string{"drain", host}, kernel...)...)
	b.ebb(0, says("open: "), "verify", host, "--out", b.File("proof.json"))
	w := b.watch()
	run := b.begin("terminate", host, "--proof", b.File("proof.json"), "--confirm", host)
	w.sees(host, "the intent to terminate", body(func(drain.RecTerminateIntent) bool { return true }))
	strike(run)
	<-run.Ended()
	return run
}

// terminatedOnce wants the terminator to have run once at most, and the host to
// be kept from any more work by everybody.
func (b *bench) terminatedOnce(host string) {
	b.Helper()
	b.ebb(3, says("it was terminated at"), "terminate", host, "--proof", b.File("proof.json"), "--confirm", host)
	if ran, err := os.ReadFile(b.File("terminated")); err == nil && string(ran) != "terminate i-"+host+"\n" {
		b.Errorf("the terminator ran as %q", ran)
	}
	if got := b.flag(host); !strings.HasPrefix(got, "true") {
		b.Errorf("a terminated host is free in the database: %q", got)
	}
	b.refuses(host, "")
}

// A console that is killed between the intent to terminate and its outcome: the
// terminator is never run again, and a person settles what became of it.
func TestKilledAtTerminate(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "kf1")
	b.terminates("kf1", func(run *lab.Run) { b.must(run.Signal(os.Kill)) })
	b.ebb(3, says("has no outcome", "--outcome", "i-kf1"), "terminate", "kf1", "--proof", b.File("proof.json"), "--confirm", "kf1")
	b.refuses("kf1", "")
	b.ebb(0, says("settled as done"), "terminate", "kf1", "--outcome", "done", "--confirm", "kf1")
	b.terminatedOnce("kf1")
}

// The database is killed there: the outcome is kept until it is back, or a person
// settles it.
func TestDatabaseKilledAtTerminate(t *testing.T) {
	t.Parallel()
	ownServer(t)
	server := pgtest.New(t, pgtest.Durable)
	b := setUp(t, server, "", "kg1")
	run := b.terminates("kg1", func(*lab.Run) {
		b.must(server.Kill())
		b.must(server.Start())
	})
	if r := run.Wait(b.ctx); r.Code != 0 {
		b.Logf("terminate, with the database killed:\n%s", r)
		b.ebb(0, says("settled as done"), "terminate", "kg1", "--outcome", "done", "--confirm", "kg1")
	}
	b.terminatedOnce("kg1")
}

package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/probes/wire"
)

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "command")
	ok(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755))
	return path
}

func execOf(id, command string) wire.ActRequest {
	return wire.ActRequest{ID: id, Drain: "d1", Epoch: 1, Machine: testMachine, Kind: wire.ActExec, Key: fleet.Key{Kind: "service", ID: "web-7"}, Command: command}
}

// target is a host that is not held and has heard of the drain.
func targetRig(t *testing.T, commands map[string]config.Command) *rig {
	r := newRig(t, func(c *Config) { c.Commands = commands })
	_, err := r.dial(wire.Operate).Epoch(t.Context(), wire.EpochRequest{Drain: "d1", Epoch: 1})
	ok(t, err)
	return r
}

func TestACommandRunsByNameWithTheWorkloadInItsEnvironment(t *testing.T) {
	seen := filepath.Join(t.TempDir(), "seen")
	r := targetRig(t, map[string]config.Command{
		"start": {Run: []string{script(t, `echo "$EBB_KIND $EBB_ID $# $1" >> `+seen+`; echo out; echo err >&2; exit 3`), "fixed"}},
	})
	t.Setenv("NOTIFY_SOCKET", "/nowhere")
	for range 2 { // the second time it is only told what happened
		reply, err := r.act(execOf("e1", "start"))
		ok(t, err)
		if reply.OK || reply.Exit != 3 || reply.Output != "out\nerr\n" {
			t.Fatalf("%+v", reply)
		}
	}
	b, err := os.ReadFile(seen)
	ok(t, err)
	if string(b) != "service web-7 1 fixed\n" {
		t.Fatalf("ran as %q", b)
	}
}

func TestIdsOfActsMayHoldSlashes(t *testing.T) {
	r := targetRig(t, map[string]config.Command{"id": {Run: []string{script(t, `echo "$EBB_ACT"`)}}})
	for _, id := range []string{"d1~2/service/web-7/start/1", "a/../../etc/x", "q?x=1#f", "100%2F", ";:@&=+$,"} {
		reply, err := r.act(execOf(id, "id"))
		ok(t, err)
		if !reply.OK || reply.ID != id || reply.Output != id+"\n" {
			t.Fatalf("%q: %+v", id, reply)
		}
		again, err := r.dial(wire.Observe).Follow(t.Context(), id, 0)
		ok(t, err)
		if again.Output != reply.Output {
			t.Fatalf("%q: asked again: %+v", id, again)
		}
	}
	for _, id := range []string{"", "a b", "a\nb", "ü", ".", "..", strings.Repeat("a", 513)} {
		_, err := r.act(execOf(id, "id"))
		code(t, err, wire.CodeBadRequest)
	}
}

func TestWhatIsNotNamedDoesNotRun(t *testing.T) {
	r := targetRig(t, map[string]config.Command{"start": {Run: []string{"/bin/true"}}})
	_, err := r.act(execOf("e1", "/bin/true"))
	code(t, err, wire.CodeUnknownName)
	for _, id := range []string{"a b", "$(id)", "a\nb", "../x", strings.Repeat("a", 129), "ü"} {
		req := execOf("e2", "start")
		req.Key.ID = id
		_, err := r.act(req)
		code(t, err, wire.CodeBadRequest)
	}
	stranger := execOf("e3", "start")
	stranger.Drain = "never-announced"
	_, err = r.act(stranger)
	code(t, err, wire.CodeNotHeld)
	none := execOf("e4", "start")
	none.Drain = ""
	_, err = r.act(none)
	code(t, err, wire.CodeBadRequest)
}

func TestALateCommandGetsTermAndThenKill(t *testing.T) {
	r := targetRig(t, map[string]config.Command{
		"polite":   {Run: []string{script(t, "trap 'echo bye; exit 0' TERM\nwhile :; do sleep 0.02; done")}},
		"stubborn": {Run: []string{script(t, "trap '' TERM\nwhile :; do sleep 0.02; done")}},
	})
	req := execOf("e1", "polite")
	req.Timeout = 200 * time.Millisecond
	reply, err := r.act(req)
	ok(t, err)
	if reply.OK || !strings.HasSuffix(reply.Output, "bye\n") || !strings.Contains(reply.Detail, "not done after") {
		t.Fatalf("%+v", reply)
	}
	req = execOf("e2", "stubborn")
	req.Timeout = 100 * time.Millisecond
	begun := time.Now()
	reply, err = r.act(req)
	ok(t, err)
	if reply.Reason.Code != wire.ReasonTimedOut {
		t.Errorf("reason %+v", reply.Reason)
	}
	if reply.OK || reply.Exit == 0 && !strings.Contains(reply.Detail, "not done") || time.Since(begun) < killAfter {
		t.Fatalf("%+v after %v", reply, time.Since(begun))
	}
}

func TestOnlyTheEndOfLongOutputIsKept(t *testing.T) {
	r := targetRig(t, map[string]config.Command{"talk": {Run: []string{script(t, "head -c 100000 /dev/zero | tr '\\0' x; echo end")}}})
	reply, err := r.act(execOf("e1", "talk"))
	ok(t, err)
	if !reply.OK || len(reply.Output) != outputTail || !strings.HasSuffix(reply.Output, "xend\n") {
		t.Fatalf("%d bytes, ok %v", len(reply.Output), reply.OK)
	}
}

// The agent ends in mid-act: what it started goes on, and so does the act. How the
// command ends nobody can know, so that the act says "interrupted" from then on.
func TestACommandOutlivesTheAgent(t *testing.T) {
	dir := t.TempDir()
	r := targetRig(t, map[string]config.Command{
		"long": {Run: []string{script(t, "echo $$ > "+dir+"/pid.new; mv "+dir+"/pid.new "+dir+"/pid\nwhile [ -d "+dir+" ] && [ ! -e "+dir+"/go ]; do sleep 0.02; done\necho done > "+dir+"/done")}},
	})
	c := r.dial(wire.Operate)
	_, err := c.Act(t.Context(), execOf("e1", "long"))
	ok(t, err)
	until(t, "the command runs", func() bool { _, err := os.Stat(dir + "/pid"); return err == nil })
	for range 2 {
		r.restart()
		c = r.dial(wire.Operate)
		if reply, err := c.Act(t.Context(), execOf("e1", "long")); err != nil || reply.State != wire.ActBegun {
			t.Fatalf("while it runs: %+v, %v", reply, err)
		}
	}
	ok(t, os.WriteFile(dir+"/go", nil, 0o600))
	reply, err := r.act(execOf("e1", "long"))
	ok(t, err)
	if reply.State != wire.ActInterrupted || reply.OK {
		t.Fatalf("%+v", reply)
	}
	until(t, "the command ends by itself", func() bool { _, err := os.Stat(dir + "/done"); return err == nil })
	r.restart()
	if reply, err := r.act(execOf("e1", "long")); err != nil || reply.State != wire.ActInterrupted {
		t.Fatalf("after another restart: %+v %v", reply, err)
	}
}

func TestACommandRunsAsItsUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("changing the user needs root")
	}
	r := targetRig(t, map[string]config.Command{"who": {Run: []string{"/usr/bin/id", "-u"}, User: "nobody"}, "none": {Run: []string{"/usr/bin/id"}, User: "no-such-user"}})
	reply, err := r.act(execOf("e1", "who"))
	ok(t, err)
	if !reply.OK || reply.Output == "0\n" {
		t.Fatalf("%+v", reply)
	}
	reply, err = r.act(execOf("e2", "none"))
	ok(t, err)
	if reply.OK {
		t.Fatal("ran as nobody knows whom")
	}
}

func TestAnActThatCantBeRecordedDoesNotRun(t *testing.T) {
	dir := smallDisk(t)
	mark := filepath.Join(t.TempDir(), "ran")
	r := unstarted(t, func(c *Config) {
		c.Commands = map[string]config.Command{"mark": {Run: []string{"/usr/bin/touch", mark}}}
		c.StateDir = filepath.Join(dir, "state")
	})
	ok(t, Init(r.cfg.StateDir, testMachine))
	r.start()
	ok(t, r.drain("d1", 1))
	fill(t, dir)
	_, err := r.act(execOf("e1", "mark"))
	code(t, err, wire.CodeNotRecorded)
	if _, err := os.Stat(mark); err == nil {
		t.Fatal("it ran")
	}
}

func nobody(fleet.Run) bool { return false }

func TestCompactionKeepsWhatCounts(t *testing.T) {
	dir := t.TempDir()
	a := openActs(dir, testBoot, nobody, slog.New(slog.DiscardHandler))
	run := fleet.Run{Boot: testBoot, PID: 7, Start: 1}
	ok(t, a.append(actLine{Begun: &begun{Request: wire.ActRequest{ID: "open"}}}))
	a.add(&act{req: wire.ActRequest{ID: "open"}, reply: wire.ActReply{ID: "open", State: wire.ActBegun}, done: make(chan struct{})})
	a.term(sent{Run: run, Boot: testBoot, At: 1})
	for i := range keepActs + 10 {
		id := "act-" + itoa(i)
		a.add(&act{req: wire.ActRequest{ID: id}, reply: wire.ActReply{ID: id, State: wire.ActFinished, OK: true}, done: make(chan struct{})})
	}
	ok(t, a.compact())
	a.close()
	f, err := os.OpenFile(filepath.Join(dir, "acts.log"), os.O_APPEND|os.O_WRONLY, 0)
	ok(t, err)
	_, err = f.WriteString(`{"finished":{"id":"open","st`) // cut short
	ok(t, err)
	ok(t, f.Close())
	b := openActs(dir, testBoot, nobody, slog.New(slog.DiscardHandler))
	defer b.close()
	if s := b.byID["open"].reply.State; s != wire.ActInterrupted {
		t.Fatalf("an act in progress became %q", s)
	}
	if len(b.terms[run]) != 1 || b.byID["act-0"] != nil || b.byID["act-"+itoa(keepActs+9)] == nil {
		t.Fatal("compaction dropped what counts, or kept what does not")
	}
	if _, err := unix.FcntlInt(b.file.Fd(), unix.F_GETFD, 0); err != nil {
		t.Fatal(err)
	}
}

func TestACordonedTargetStartsNothingNew(t *testing.T) {
	r := targetRig(t, map[string]config.Command{"true": {Run: []string{"/bin/true"}}})
	reply, err := r.act(execOf("e1", "true"))
	ok(t, err)
	if !reply.OK {
		t.Fatalf("%+v", reply)
	}
	r.cordon()
	reply, err = r.act(execOf("e2", "true")) // begun before: its health is still asked for
	ok(t, err)
	if !reply.OK {
		t.Fatalf("%+v", reply)
	}
	other := execOf("e3", "true")
	other.Key.ID = "web-8"
	_, err = r.act(other)
	if p := code(t, err, wire.CodeHeld); p.Status != 429 || p.Hold == nil {
		t.Fatalf("%+v", p)
	}
	r.prober.set(func(now time.Time) Readings {
		rd := empty(now)
		rd.Workloads.Value = []fleet.Workload{{Key: other.Key, Phase: fleet.Running}}
		return rd
	})
	_, err = r.dial(wire.Observe).Facts(t.Context(), true)
	ok(t, err)
	reply, err = r.act(other)
	ok(t, err)
	if !reply.OK {
		t.Fatalf("%+v", reply)
	}
}

func TestATalkativeCommandDoesNotFillTheRunDirectory(t *testing.T) {
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "out"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	ok(t, err)
	defer f.Close()
	c := &capture{file: f}
	for i := range 5 {
		_, err := f.WriteString(strings.Repeat("x", outputMax) + "end " + itoa(i) + "\n")
		ok(t, err)
		c.bound()
		if info, err := f.Stat(); err != nil || info.Size() > outputMax {
			t.Fatalf("%d bytes, %v", info.Size(), err)
		}
	}
	_, err = f.WriteString("last\n")
	ok(t, err)
	if got := c.tail(); len(got) != outputTail || !strings.HasSuffix(got, "xend 4\nlast\n") {
		t.Fatalf("%d bytes ending in %q", len(got), got[max(0, len(got)-20):])
	}
}

// Over random histories of drivers, repeats and restarts: no id runs twice, and
// nothing runs for a driver that a newer one has replaced.
func TestActsRunOnceAndOnlyForTheNewestDriver(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	r := targetRig(t, map[string]config.Command{"note": {Run: []string{script(t, `echo "$EBB_ACT" >> `+log)}}})
	serial := 0
	rapid.Check(t, func(rt *rapid.T) {
		serial++
		drain := "drain-" + itoa(serial)
		var top uint64
		allowed := map[string]bool{}
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			epoch := rapid.Uint64Range(1, 3).Draw(rt, "epoch")
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0, 1, 2:
				_, err := r.dial(wire.Operate).Epoch(t.Context(), wire.EpochRequest{Drain: drain, Epoch: epoch})
				if (err == nil) != (epoch >= top) {
					rt.Fatalf("announce %d after %d: %v", epoch, top, err)
				}
				top = max(top, epoch)
			case 3:
				r.restart()
			default:
				req := execOf(drain+"-"+itoa(rapid.IntRange(0, 2).Draw(rt, "id")), "note")
				req.Drain, req.Epoch = drain, epoch
				_, err := r.act(req)
				if known := allowed[req.ID]; (err == nil) != (known || top > 0 && epoch >= top) {
					rt.Fatalf("act %s of epoch %d after %d: %v", req.ID, epoch, top, err)
				}
				if err == nil {
					if !allowed[req.ID] {
						top = max(top, epoch)
					}
					allowed[req.ID] = true
				}
			}
		}
		b, _ := os.ReadFile(log)
		ran := map[string]int{}
		for _, id := range strings.Fields(string(b)) {
			if strings.HasPrefix(id, drain+"-") {
				ran[id]++
			}
		}
		for id, n := range ran {
			if n != 1 || !allowed[id] {
				rt.Fatalf("act %s ran %d times, allowed %v", id, n, allowed[id])
			}
		}
		if len(ran) != len(allowed) {
			rt.Fatalf("ran %v, allowed %v", ran, allowed)
		}
	})
}

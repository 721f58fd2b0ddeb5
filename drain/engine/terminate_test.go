package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
	"ebb/fleet/proof"
)

// impostor shows another host's key in its handshake.
type impostor struct{ agents }

type masked struct{ engine.Agent }

func (masked) HostKey() ssh.PublicKey {
	return newBox(nil, "prod/other").signer.PublicKey()
}

func (a *impostor) Agent(ctx context.Context, h fleet.HostID, r engine.Role) (engine.Agent, error) {
	agent, err := a.agents.Agent(ctx, h, r)
	return masked{agent}, err
}

func gone(w *world) engine.Gone {
	return func(context.Context, fleet.HostID) bool { return w.boxes[source].isOff() }
}

// remade is a proof with one thing changed, signed again by the host's key.
func (w *world) remade(t *testing.T, p engine.SignedProof, change func(*proof.Document)) engine.SignedProof {
	t.Helper()
	doc, err := proof.Parse(p.Proof)
	if err != nil {
		t.Fatal(err)
	}
	change(&doc)
	raw, err := proof.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := proof.Sign(raw, w.boxes[source].signer)
	if err != nil {
		t.Fatal(err)
	}
	return engine.SignedProof{Proof: raw, Signature: sig}
}

func TestTerminateRefuses(t *testing.T) {
	type setup struct {
		t *testing.T
		w *world
		e *engine.Engine
		p *engine.SignedProof
		m *engine.Terminator
	}
	cases := map[string]struct {
		spoil func(setup)
		want  string
	}{
		"an edited proof": {func(s setup) {
			s.p.Proof = []byte(strings.Replace(string(s.p.Proof), `"epoch": 1`, `"epoch": 2`, 1))
		}, "does not fit"},
		"an old one":   {func(setup) { time.Sleep(proof.Lifetime + time.Second) }, "holds for"},
		"another host": {func(s setup) { *s.p = s.w.remade(s.t, *s.p, func(d *proof.Document) { d.Host = "prod/h9" }) }, "another host"},
		"another boot's": {func(s setup) {
			s.w.boxes[source].refuse = []fleet.Issue{{Check: fleet.CheckReach, Detail: "another boot"}}
		}, "another boot"},
		"a machine": {func(s setup) { *s.p = s.w.remade(s.t, *s.p, func(d *proof.Document) { d.Machine = "m9" }) }, "another machine"},
		"another drain": {func(s setup) {
			*s.p = s.w.remade(s.t, *s.p, func(d *proof.Document) { d.Drain = "d-9" })
		}, "another drain"},
		"claims have changed": {func(s setup) {
			s.w.plane.claims[vm("new")] = fleet.Claim{Key: vm("new"), Host: source, Phase: fleet.Running}
		}, "now claimed: vm/new running"},
		"the plane is away":     {func(s setup) { s.w.cut("plane", time.Hour) }, "can't be read"},
		"the host has changed":  {func(s setup) { s.w.boxes[source].probe = "x"; s.w.boxes[source].leaks = nil }, "changed"},
		"the drain was lifted":  {func(s setup) { _, _ = s.e.Undrain(s.t.Context(), source, false) }, "was lifted"},
		"release to nobody":     {func(s setup) { s.m.To = "" }, "nobody is named"},
		"an unknown terminator": {func(s setup) { s.m.Type = "shred" }, "unknown terminator"},
		"a placeholder": {func(s setup) {
			*s.m = engine.Terminator{Type: "command", Argv: func(fleet.Host) ([]string, error) { return nil, errors.New("{zone} is not known") }}
		}, "{zone}"},
		"no command": {func(s setup) {
			*s.m = engine.Terminator{Type: "command", Argv: func(fleet.Host) ([]string, error) { return nil, nil }}
		}, "names no command"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				e, p := empty(t, w)
				m := release("x")
				c.spoil(setup{t, w, e, &p, &m})
				refusedWith(t, e.Terminate(t.Context(), source, p, m, nil), c.want)
				if w.count("rec.terminate_intent") != 0 || w.count("rec.refused") != 1 {
					t.Error("the journal tells it otherwise")
				}
			})
		})
	}
}

func TestTerminateWithoutJournal(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		e, p := empty(t, w)
		w.hand(func(call string) {
			if call == "journal append rec.terminate_intent" {
				w.cut("journal", time.Minute)
			}
		})
		ran := filepath.Join(t.TempDir(), "ran")
		m := command("touch", ran)
		err := e.Terminate(t.Context(), source, p, m, nil)
		if err == nil || !strings.Contains(err.Error(), "nothing was run") {
			t.Errorf("got %v", err)
		}
		if _, err := os.Stat(ran); err == nil {
			t.Error("the terminator ran")
		}
	})
}

func command(argv ...string) engine.Terminator {
	return engine.Terminator{Type: "command", Argv: func(fleet.Host) ([]string, error) { return argv, nil }}
}

// A command runs once and to its end, whatever becomes of the one who called it;
// a failure is on record.
func TestTerminateCommand(t *testing.T) {
	dir := t.TempDir()
	play(t, func(t *testing.T, w *world) {
		e, p := empty(t, w)
		out := filepath.Join(dir, "out")
		ctx, cancel := context.WithCancel(t.Context())
		w.hand(func(call string) {
			if call == "journal append rec.terminate_outcome" {
				cancel()
			}
		})
		if err := e.Terminate(ctx, source, p, command("sh", "-c", "echo once >> "+out), nil); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(out); err != nil || string(got) != "once\n" {
			t.Errorf("%v, %q", err, got)
		}
	})
	play(t, func(t *testing.T, w *world) {
		e, p := empty(t, w)
		err := e.Terminate(t.Context(), source, p, command("sh", "-c", "echo no such instance >&2; exit 3"), nil)
		if err == nil || !strings.Contains(err.Error(), "no such instance") {
			t.Errorf("got %v", err)
		}
		if w.count("rec.terminate_outcome") != 1 {
			t.Error("the failure is not on record")
		}
	})
}

func TestPoweroff(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		e, p := empty(t, w)
		began := time.Now()
		if err := e.Terminate(t.Context(), source, p, engine.Terminator{Type: "poweroff"}, gone(w)); err != nil {
			t.Fatal(err)
		}
		if quiet := time.Since(began); quiet < 30*time.Second || quiet > 33*time.Second {
			t.Errorf("done after %v", quiet)
		}
	})
	play(t, func(t *testing.T, w *world) { // it comes back at once
		e, p := empty(t, w)
		err := e.Terminate(t.Context(), source, p, engine.Terminator{Type: "poweroff"}, func(context.Context, fleet.HostID) bool {
			return time.Now().Second()%20 < 10
		})
		if err == nil || !strings.Contains(err.Error(), "still answers") {
			t.Errorf("got %v", err)
		}
	})
	play(t, func(t *testing.T, w *world) { // its answer is lost, and it goes
		e, p := empty(t, w)
		w.hand(func(call string) {
			if strings.HasSuffix(call, "poweroff") {
				w.boxes[source].mu.Lock()
				w.boxes[source].off = true
				w.boxes[source].mu.Unlock()
				w.cut(string(source), time.Hour)
			}
		})
		if err := e.Terminate(t.Context(), source, p, engine.Terminator{Type: "poweroff"}, gone(w)); err != nil {
			t.Error(err)
		}
	})
}

// Cut short, the intent stays open; nobody terminates again before a person has
// said what became of it.
func TestCutShortIsSettledByAPerson(t *testing.T) {
	for _, done := range []bool{true, false} {
		play(t, func(t *testing.T, w *world) {
			e, p := empty(t, w)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err := e.Terminate(ctx, source, p, engine.Terminator{Type: "poweroff"}, gone(w))
			if err == nil || !strings.Contains(err.Error(), "cut short") || w.count("rec.terminate_outcome") != 0 {
				t.Fatalf("got %v", err)
			}
			for _, err := range []error{err, e.Terminate(t.Context(), source, p, release("x"), nil)} {
				var hinted interface{ Hint() string }
				if !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), "ebb terminate h1 --outcome done --confirm h1") {
					t.Errorf("no word of what to type: %v", err)
				}
			}
			refusedWith(t, e.Terminate(t.Context(), source, p, release("x"), nil), "has no outcome")
			_, _, err = e.Start(t.Context(), source, engine.Request{Deadline: time.Hour}, drain.Plan{Refused: "it can't be read"})
			refusedWith(t, err, "it is being terminated since")
			if err := e.Settle(t.Context(), source, done, "looked"); err != nil {
				t.Fatal(err)
			}
			refusedWith(t, e.Settle(t.Context(), source, done, "again"), "no terminate")
			_, _, err = e.Start(t.Context(), source, engine.Request{Deadline: time.Hour}, drain.Plan{Refused: "it can't be read"})
			if done {
				refusedWith(t, err, "it was terminated at")
			} else if err != nil {
				t.Errorf("after it had failed, its drain is not taken up: %v", err)
			}
			w.boxes[source].off = false
			err = e.Terminate(t.Context(), source, p, release("x"), nil)
			if done {
				refusedWith(t, err, "it was terminated")
			} else if err != nil {
				t.Errorf("after it had failed: %v", err)
			}
		})
	}
}

func TestTerminateNeedsTheHostsKey(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		_, p := empty(t, w)
		liar := w.engine(ann, func(c *engine.Config) { c.Agents = &impostor{agents{w}} })
		refusedWith(t, liar.Terminate(t.Context(), source, p, release("x"), nil), "signed by")
	})
}

// A machine that takes a terminated one's name is another host: it is cordoned
// and drained anew, as itself.
func TestAnotherMachineUnderATerminatedName(t *testing.T) {
	dir := t.TempDir()
	play(t, func(t *testing.T, w *world) {
		e, p := empty(t, w)
		if err := e.Terminate(t.Context(), source, p, command("touch", filepath.Join(dir, "gone")), nil); err != nil {
			t.Fatal(err)
		}
		old, err := e.State(t.Context(), source)
		if err != nil || old.Terminated.IsZero() || !old.Over() {
			t.Fatalf("%v: %+v", err, old)
		}
		req := engine.Request{Deadline: time.Hour}
		if _, _, err := e.Start(t.Context(), source, req, drain.Plan{Unread: "no route"}); err == nil || !strings.Contains(err.Error(), "it was terminated at") {
			t.Errorf("a drain of what is gone: %v", err)
		}
		b := w.boxes[source]
		b.mu.Lock()
		b.machine, b.holds = "m-new", fleet.Holds{}
		b.mu.Unlock()
		if _, err := e.Cordon(t.Context(), source, "new", false, nil); err != nil {
			t.Errorf("cordon: %v", err)
		}
		if id := start(t, e, time.Hour); id == old.Drain {
			t.Error("the terminated machine's drain was taken up again")
		}
	})
}

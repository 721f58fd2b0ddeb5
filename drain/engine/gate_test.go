package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

// empty is a world whose host has been drained, with a proof.
func empty(t *testing.T, w *world) (*engine.Engine, engine.SignedProof) {
	t.Helper()
	w.add("soft", fleet.Stuck)
	e := w.engine(ann)
	start(t, e, time.Hour)
	if s := drive(t, e); s.Phase != drain.Empty {
		t.Fatalf("phase %s", s.Phase)
	}
	ver, err := e.Verify(t.Context(), source, "console")
	if err != nil || len(ver.Issues) > 0 || ver.Proof == nil {
		t.Fatalf("verify: %v, %+v", err, ver.Issues)
	}
	return e, *ver.Proof
}

func details(issues []fleet.Issue) string {
	var all []string
	for _, is := range issues {
		all = append(all, is.Check+": "+is.Detail)
	}
	return strings.Join(all, "; ")
}

// refusedWith reports an error unless it is a refusal that says text.
func refusedWith(t *testing.T, err error, text string) {
	t.Helper()
	var r *engine.Refused
	if !errors.As(err, &r) || !strings.Contains(details(r.Issues), text) {
		t.Errorf("got %v, want a refusal that says %q", err, text)
	}
}

func TestVerifySigns(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		_, _ = empty(t, w)
		if w.count("rec.proof") != 1 {
			t.Error("the journal does not know the proof")
		}
	})
}

func TestVerifyRefuses(t *testing.T) {
	cases := map[string]struct {
		spoil func(*testing.T, *world, *engine.Engine)
		want  string
	}{
		"a probe failed":      {func(_ *testing.T, w *world, _ *engine.Engine) { w.boxes[source].probe = "stuck" }, "dirs"},
		"a leak":              {func(_ *testing.T, w *world, _ *engine.Engine) { w.leak() }, "dir/x"},
		"something arrived":   {func(_ *testing.T, w *world, _ *engine.Engine) { w.add("late", fleet.Stateless) }, "late"},
		"claims do not agree": {func(_ *testing.T, w *world, _ *engine.Engine) { w.unseen = true }, "do not agree"},
		"the plane is away":   {func(_ *testing.T, w *world, _ *engine.Engine) { w.cut("plane", time.Hour) }, "can't be read"},
		"the agent refuses": {func(_ *testing.T, w *world, _ *engine.Engine) {
			w.boxes[source].refuse = []fleet.Issue{{Check: fleet.CheckLeft, Detail: "a late process"}}
		}, "a late process"},
		"another drain's hold": {func(_ *testing.T, w *world, _ *engine.Engine) { w.boxes[source].holds.Drain.Drain = "d-x" }, "this journal knows"},
		"an open act": {func(t *testing.T, w *world, e *engine.Engine) {
			s, _ := e.State(t.Context(), source)
			l, err := w.log.Acquire(t.Context(), s.Drain, "x", 0)
			if err != nil {
				t.Fatal(err)
			}
			ev, _ := drain.NewEvent(source, "e1", s.Drain, l.Epoch, ann, drain.DriveIntent{Act: drain.Act{ID: "a1", Kind: drain.ActCordon}})
			if _, err := w.log.Append(t.Context(), drain.Batch{Stream: string(source), Lease: &l, Events: []drain.Event{ev}}); err != nil {
				t.Fatal(err)
			}
		}, "a1 has begun"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				e, _ := empty(t, w)
				c.spoil(t, w, e)
				ver, err := e.Verify(t.Context(), source, "console")
				if err != nil || ver.Proof != nil || !strings.Contains(details(ver.Issues), c.want) {
					t.Errorf("%v, proof %v, %s", err, ver.Proof != nil, details(ver.Issues))
				}
			})
		})
	}
}

func (w *world) leak() fleet.Resource {
	r := fleet.Resource{Key: fleet.Key{Kind: "dir", ID: "x"}, Identity: "inode 7", Owner: vm("soft"), Since: time.Now().Add(-time.Hour)}
	b := w.boxes[source]
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leaks = append(b.leaks, r)
	return r
}

// A proof that another key signed, or that answers another question, is none.
func TestVerifyTrustsOnlyTheHost(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		e, _ := empty(t, w)
		w.boxes[source].signer, w.boxes[target].signer = w.boxes[target].signer, w.boxes[source].signer
		if _, err := e.Verify(t.Context(), source, ""); err != nil {
			t.Fatalf("a key is a key: %v", err)
		}
		liar := w.engine(ann, func(c *engine.Config) { c.Agents = &impostor{agents{w}} })
		if _, err := liar.Verify(t.Context(), source, ""); err == nil || !strings.Contains(err.Error(), "signed by") {
			t.Errorf("got %v", err)
		}
	})
}

func TestAccept(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		e, _ := empty(t, w)
		r := w.leak()
		refusedWith(t, e.Accept(t.Context(), source, r.Key, "known", "dir/y"), "typed")
		refusedWith(t, e.Accept(t.Context(), source, vm("none"), "known", "vm/none"), "not among")
		w.boxes[source].probe = "stuck"
		k := fleet.Key{Kind: "probe", ID: "dirs"}
		refusedWith(t, e.Accept(t.Context(), source, k, "known", k.String()), "can't be accepted")
		w.boxes[source].probe = ""
		if err := e.Accept(t.Context(), source, r.Key, "known", r.Key.String()); err != nil {
			t.Fatal(err)
		}
		ver, err := e.Verify(t.Context(), source, "")
		if err != nil || ver.Proof == nil || len(ver.Doc.Accepted) != 1 || ver.Doc.Accepted[0].Reason != "known" {
			t.Errorf("%v, %s", err, details(ver.Issues))
		}
		if w.count("rec.accepted") != 1 {
			t.Error("the journal does not know it")
		}
	})
}

func TestClean(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		e, _ := empty(t, w)
		r := w.leak()
		v, _ := (&looker{w}).Look(t.Context(), source)
		leaks := engine.Leaks(v)
		if len(leaks) != 1 || leaks[0].Key != r.Key {
			t.Fatalf("leaks %+v, findings %+v", leaks, v.Findings)
		}
		other := r
		other.Identity = "inode 8"
		if a, err := e.Clean(t.Context(), source, other, "m-h1"); err != nil || a.Result != drain.Refused {
			t.Errorf("%v, %+v", err, a)
		}
		if a, err := e.Clean(t.Context(), source, r, "m-h1"); err != nil || a.Result != drain.Done {
			t.Errorf("%v, %+v", err, a)
		}
		if w.count("rec.cleaned") != 2 {
			t.Error("the journal does not know both")
		}
	})
}

func release(to string) engine.Terminator { return engine.Terminator{Type: "release", To: to} }

func TestTerminateOnce(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		e, p := empty(t, w)
		if err := e.Terminate(t.Context(), source, p, release("dc team"), nil); err != nil {
			t.Fatal(err)
		}
		if w.boxes[source].sealed == "" {
			t.Error("not sealed")
		}
		refusedWith(t, e.Terminate(t.Context(), source, p, release("dc team"), nil), "it was terminated at")
		if w.count("rec.terminate_intent") != 1 || w.count("rec.terminate_outcome") != 1 || w.count("rec.refused") != 1 {
			t.Error("the journal tells it otherwise")
		}
	})
}

// Two who terminate in the same moment: one of them does.
func TestTerminateRace(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		_, p := empty(t, w)
		w.hand(func(call string) {
			if call == "journal append rec.terminate_intent" {
				time.Sleep(time.Second) // both have looked by now
			}
		})
		errs := make(chan error, 2)
		for _, who := range []drain.Actor{ann, bob} {
			go func() { errs <- w.engine(who).Terminate(t.Context(), source, p, release("x"), nil) }()
		}
		got := []error{<-errs, <-errs}
		if n := slices.Index(got, nil); n < 0 || got[1-n] == nil {
			t.Errorf("got %v", got)
		}
		if w.count("rec.terminate_intent") != 1 {
			t.Error("two intents")
		}
	})
}

// Of a host that does not answer nothing is known but what the journal has.
func TestCheckOfASilentHost(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		e, _ := empty(t, w)
		ver, _, _, err := e.Check(t.Context(), source)
		if err != nil || ver.Unread {
			t.Fatalf("it answers, and: %v, %+v", err, ver)
		}
		w.cut(string(source), time.Hour)
		ver, _, _, err = e.Check(t.Context(), source)
		if err != nil || !ver.Unread || len(ver.Issues) != 1 || ver.Issues[0].Check != fleet.CheckReach {
			t.Errorf("it is silent, and: %v, %+v", err, ver)
		}
	})
}

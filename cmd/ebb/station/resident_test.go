package station

import (
	"crypto/ed25519"
	"crypto/rand"
	"log/slog"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/drain"
	"ebb/drain/engine"
)

// Whoever can write to a shared journal and is no operator starts nothing: a
// resident does not even look at the host.
func TestResidentDrivesOnlyForOperators(t *testing.T) {
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromSigner(priv)
	if err != nil {
		t.Fatal(err)
	}
	s := &Station{Trust: engine.Trust{Required: true, Operators: []engine.Operator{{Name: "mira", Key: key.PublicKey()}}}, log: slog.New(slog.DiscardHandler)}
	start := func(id string, sign bool) drain.Event {
		ev, err := drain.NewEvent("prod/gpu-041", "e-"+id, "d-1", 0, drain.Actor{Name: "mira"}, drain.AskStart{Deadline: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if sign {
			if ev, err = engine.Sign(ev, key); err != nil {
				t.Fatal(err)
			}
		}
		ev.Num, ev.At = 1, time.Now()
		return ev
	}
	r := NewResident(s)
	r.fold(t.Context(), []drain.Event{start("1", false)})
	if st := r.states["prod/gpu-041"]; wantsDriver(st) {
		t.Fatalf("an unsigned ask starts a drain: %+v", st)
	}
	r.fold(t.Context(), []drain.Event{start("2", true)})
	if st := r.states["prod/gpu-041"]; !wantsDriver(st) || st.By.Name != "mira" {
		t.Fatalf("an operator's ask starts none: %+v", st)
	}
}

func TestWantsDriver(t *testing.T) {
	for _, c := range []struct {
		phase  drain.Phase
		undone bool
		want   bool
	}{
		{drain.Planned, false, true}, {drain.Draining, false, true}, {drain.Verifying, false, true}, {drain.Draining, true, false},
		{drain.Empty, false, false}, {drain.Stopped, false, false}, {drain.DeadlineReached, false, false}, {drain.NoDrain, false, false},
	} {
		s := drain.State{Drain: "d-1", Phase: c.phase, Undone: c.undone}
		if c.phase == drain.NoDrain {
			s.Drain = ""
		}
		if got := wantsDriver(s); got != c.want {
			t.Errorf("%s, undone %v: %v", c.phase, c.undone, got)
		}
	}
}

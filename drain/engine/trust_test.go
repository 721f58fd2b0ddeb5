package engine

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/drain"
)

func operatorKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromSigner(priv)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ask(t *testing.T, name string, body drain.Body) drain.Event {
	t.Helper()
	ev, err := drain.NewEvent("prod/gpu-041", "e-1", "d-1", 0, drain.Actor{Name: name, Console: "bastion"}, body)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func signed(t *testing.T, ev drain.Event, key ssh.Signer) drain.Event {
	t.Helper()
	ev, err := Sign(ev, key)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func TestTrust(t *testing.T) {
	mira, mallory := operatorKey(t), operatorKey(t)
	trust := Trust{Required: true, Operators: []Operator{{Name: "mira", Key: mira.PublicKey()}}}
	start := drain.AskStart{Deadline: time.Date(2026, 11, 29, 18, 0, 0, 0, time.UTC)}
	good := signed(t, ask(t, "mira", start), mira)
	change := func(f func(*drain.Event)) drain.Event {
		ev := good
		f(&ev)
		return ev
	}
	for name, c := range map[string]struct {
		ev   drain.Event
		obey bool
	}{
		"signed by an operator":                       {good, true},
		"as the journal hands it back":                {change(func(e *drain.Event) { e.Seq, e.Num, e.At = 9, 3, time.Now() }), true},
		"unsigned":                                    {ask(t, "mira", start), false},
		"signed by somebody else":                     {signed(t, ask(t, "mallory", start), mallory), false},
		"somebody else in an operator's name":         {signed(t, ask(t, "mira", start), mallory), false},
		"an operator in somebody else's name":         {signed(t, ask(t, "noor", start), mira), false},
		"another host":                                {change(func(e *drain.Event) { e.Stream = "prod/gpu-042" }), false},
		"another drain":                               {change(func(e *drain.Event) { e.Drain = "d-2" }), false},
		"another ask":                                 {change(func(e *drain.Event) { e.Kind = "ask.stop" }), false},
		"another body":                                {change(func(e *drain.Event) { e.Body = json.RawMessage(`{"deadline":"2027-01-01T00:00:00Z"}`) }), false},
		"another id, so that it could be asked twice": {change(func(e *drain.Event) { e.ID = "e-2" }), false},
		"a broken signature":                          {change(func(e *drain.Event) { e.Sig = "x" }), false},
		"no ask":                                      {ask(t, "anybody", drain.RecCordon{}), true},
	} {
		t.Run(name, func(t *testing.T) {
			err := trust.Check(c.ev)
			if c.obey != (err == nil) || err != nil && !errors.Is(err, ErrUntrusted) {
				t.Errorf("obeyed: %v (%v)", err == nil, err)
			}
			if err := (Trust{}).Check(c.ev); err != nil {
				t.Errorf("a journal of one's own refuses it: %v", err)
			}
		})
	}
}

// A database writer who is no operator starts nothing, and is passed over.
func TestTrustPassesOver(t *testing.T) {
	trust := Trust{Required: true}
	ev := ask(t, "mallory", drain.AskStart{Deadline: time.Now().Add(time.Hour)})
	ev.Num = 7
	s, err := trust.Apply(drain.State{Num: 6}, ev)
	if !errors.Is(err, ErrUntrusted) || s.Drain != "" || s.Num != 7 {
		t.Errorf("state %+v, error %v", s, err)
	}
}

package engine

import (
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"

	"ebb/drain"
	"ebb/fleet/sshsig"
)

// Trust says whose asks are obeyed. Without it whoever can write to a shared
// journal could start a drain, past every role that the hosts keep.
type Trust struct {
	// Required is set where the journal is shared. A journal of one machine's own
	// takes unsigned asks: its file's mode decides who can write.
	Required  bool
	Operators []Operator
}

// Operator is a person whose signed asks are obeyed.
type Operator struct {
	Name string
	Key  ssh.PublicKey
}

// ErrUntrusted says that an ask is not signed by an operator: it is shown, and
// not obeyed.
var ErrUntrusted = errors.New("not signed by an operator")

// Check reports why an event is not to be obeyed; nil for everything but asks.
// Drives and records are not signed: a drive needs the lease, and a record
// changes nothing.
func (t Trust) Check(ev drain.Event) error {
	if !t.Required || !ev.Kind.IsAsk() {
		return nil
	}
	if ev.Sig == "" {
		return fmt.Errorf("%s by %s: %w: it has no signature", ev.Kind, ev.By.Name, ErrUntrusted)
	}
	sig, err := sshsig.Parse(drain.AskNamespace, ev.Sig)
	if err != nil {
		return fmt.Errorf("%s by %s: %w: %v", ev.Kind, ev.By.Name, ErrUntrusted, err)
	}
	for _, o := range t.Operators {
		if string(o.Key.Marshal()) != string(sig.Key.Marshal()) {
			continue
		}
		if err := sshsig.Verify(drain.AskNamespace, ev.Signed(), ev.Sig, o.Key); err != nil {
			return fmt.Errorf("%s by %s: %w: %v", ev.Kind, ev.By.Name, ErrUntrusted, err)
		}
		if o.Name != ev.By.Name {
			return fmt.Errorf("%s by %s: %w: the key is that of %s", ev.Kind, ev.By.Name, ErrUntrusted, o.Name)
		}
		return nil
	}
	return fmt.Errorf("%s by %s: %w: key %s is not among [[operator]]", ev.Kind, ev.By.Name, ErrUntrusted, ssh.FingerprintSHA256(sig.Key))
}

// Sign signs an ask with the asker's key, where there is one.
func Sign(ev drain.Event, key ssh.Signer) (drain.Event, error) {
	if key == nil || !ev.Kind.IsAsk() {
		return ev, nil
	}
	ev.By.Key = ssh.FingerprintSHA256(key.PublicKey())
	sig, err := sshsig.Sign(drain.AskNamespace, ev.Signed(), key)
	if err != nil {
		return ev, fmt.Errorf("sign %s: %w", ev.Kind, err)
	}
	ev.Sig = sig
	return ev, nil
}

// sign signs an ask before it is appended. One that nobody would obey is not
// appended at all.
func (t Trust) sign(ev drain.Event, key ssh.Signer) (drain.Event, error) {
	if t.Required && ev.Kind.IsAsk() && key == nil {
		return ev, &NoKeyError{Kind: ev.Kind, Who: ev.By.Name}
	}
	return Sign(ev, key)
}

// NoKeyError says that whoever asks holds no operator's key.
type NoKeyError struct {
	Kind drain.Kind
	Who  string
}

func (e *NoKeyError) Error() string {
	return fmt.Sprintf("%s by %s: the journal is shared, and asks in it are signed: no key of an [[operator]] is at hand", e.Kind, e.Who)
}

// Final says that asking again changes nothing.
func (e *NoKeyError) Final() bool { return true }

// Hint says what to do about it.
func (e *NoKeyError) Hint() string {
	return "ssh-add the key that [[operator]] in fleet.toml names, or have yours added there"
}

// Apply folds an event, unless it is an ask that is not to be obeyed: that is
// passed over, and the reader goes on behind it.
func (t Trust) Apply(s drain.State, ev drain.Event) (drain.State, error) {
	if err := t.Check(ev); err != nil {
		s.Num = ev.Num
		return s, err
	}
	return drain.Apply(s, ev)
}

package station

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ebb/drain/engine"
	"ebb/fleet"
)

// writeProof keeps a proof of the console's in the state directory, under the
// names of host and drain.
func writeProof(getenv func(string) string, host fleet.HostID, drainID string, p engine.SignedProof) (string, error) {
	dir := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(getenv("HOME"), ".local", "state")
	}
	dir = filepath.Join(dir, "ebb", "proofs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("write the proof of %s: %w", host, err)
	}
	name := strings.NewReplacer("/", "_", "\x00", "_").Replace(string(host)+"-"+drainID) + ".json"
	path := filepath.Join(dir, name)
	return path, WriteProof(path, p)
}

// WriteProof writes proof.json and its detached signature beside it.
func WriteProof(path string, p engine.SignedProof) error {
	if err := os.WriteFile(path, p.Proof, 0o600); err != nil {
		return fmt.Errorf("write the proof: %w", err)
	}
	if err := os.WriteFile(path+".sig", []byte(p.Signature), 0o600); err != nil {
		return fmt.Errorf("write the proof's signature: %w", err)
	}
	return nil
}

// ReadProof reads what WriteProof wrote.
func ReadProof(path string) (engine.SignedProof, error) {
	doc, err := os.ReadFile(path)
	if err != nil {
		return engine.SignedProof{}, fmt.Errorf("read the proof: %w", err)
	}
	sig, err := os.ReadFile(path + ".sig")
	if err != nil {
		return engine.SignedProof{}, fmt.Errorf("read the proof's signature: %w", err)
	}
	return engine.SignedProof{Proof: doc, Signature: string(sig)}, nil
}

// Terminator is the configured one; to says who takes a released host.
func (s *Station) Terminator(to string) engine.Terminator {
	t := s.Config.Terminate
	return engine.Terminator{Type: t.Type, To: to, Argv: t.Argv, Quiet: scaled(30*time.Second, s.Config.Speed, 2*time.Second)}
}

// Gone reports whether a host no longer answers over SSH.
func (s *Station) Gone(ctx context.Context, host fleet.HostID) bool {
	h, err := s.host(ctx, host)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	agent, err := s.agents.observe(ctx, h)
	if err != nil {
		return true
	}
	_, err = agent.Summary(ctx)
	return err != nil
}

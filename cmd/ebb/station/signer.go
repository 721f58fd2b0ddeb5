package station

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
	sshagent "golang.org/x/crypto/ssh/agent"

	"ebb/drain/engine"
	"ebb/fleet/config"
)

// trustOf says whose asks are obeyed: those of the configured operators, where
// the journal is shared. A shared journal without operators obeys every writer,
// and doctor says so.
func trustOf(cfg config.Fleet) (engine.Trust, error) {
	t := engine.Trust{Required: len(cfg.Operators) > 0 && sharedJournal(cfg)}
	for _, o := range cfg.Operators {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(o.Key))
		if err != nil {
			return t, fmt.Errorf("%s: operator %s: %w", cfg.Path, o.Name, err)
		}
		t.Operators = append(t.Operators, engine.Operator{Name: o.Name, Key: key})
	}
	return t, nil
}

func sharedJournal(cfg config.Fleet) bool {
	return strings.HasPrefix(cfg.Journal.URL, "postgres://") || strings.HasPrefix(cfg.Journal.URL, "postgresql://")
}

// signerOf finds a key of an operator that this person holds: in the SSH agent,
// or in a file without a passphrase. It returns nil where there is none: then
// this person can look, cordon and terminate, and ask nothing of a shared
// journal.
func signerOf(cfg config.Fleet, t engine.Trust, getenv func(string) string) (ssh.Signer, string, func()) {
	nothing := func() {}
	if len(t.Operators) == 0 {
		return nil, "", nothing
	}
	if socket := getenv("SSH_AUTH_SOCK"); socket != "" {
		if conn, err := net.Dial("unix", socket); err == nil {
			signers, err := sshagent.NewClient(conn).Signers()
			if err == nil {
				if s, name := ours(signers, t); s != nil {
					return s, name, func() { _ = conn.Close() }
				}
			}
			_ = conn.Close()
		}
	}
	var signers []ssh.Signer
	for _, file := range keyFiles(cfg, getenv) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if s, err := ssh.ParsePrivateKey(text); err == nil {
			signers = append(signers, s)
		}
	}
	s, name := ours(signers, t)
	return s, name, nothing
}

func keyFiles(cfg config.Fleet, getenv func(string) string) []string {
	var files []string
	if cfg.SSH.Identity != "" {
		files = append(files, cfg.SSH.Identity)
	}
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		files = append(files, filepath.Join(getenv("HOME"), ".ssh", name))
	}
	return files
}

// ours picks the first signer whose key is an operator's.
func ours(signers []ssh.Signer, t engine.Trust) (ssh.Signer, string) {
	for _, s := range signers {
		for _, o := range t.Operators {
			if string(o.Key.Marshal()) == string(s.PublicKey().Marshal()) {
				return s, o.Name
			}
		}
	}
	return nil, ""
}

package sshlink

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
)

// A known_hosts line is
//
//	[@cert-authority|@revoked] hosts keytype base64-key [comment]
//
// where hosts is a list of patterns ("gpu-*,!gpu-9", "[gpu-1]:2222") or one
// hashed name ("|1|salt|HMAC-SHA1"). The format is that of sshd(8).

const (
	markerAuthority = "@cert-authority"
	markerRevoked   = "@revoked"
)

// KnownKey is a key that known_hosts holds, and where.
type KnownKey struct {
	Type string // as on the line: ssh-ed25519, ssh-rsa, …
	File string
	Line int

	marker string
	hosts  string
	blob   []byte
}

// Fingerprint is the key's, as ssh-keygen -l prints it.
func (k KnownKey) Fingerprint() string {
	sum := sha256.Sum256(k.blob)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// Where is the line, as file:line.
func (k KnownKey) Where() string { return fmt.Sprintf("%s:%d", k.File, k.Line) }

func (k KnownKey) is(key ssh.PublicKey) bool { return bytes.Equal(k.blob, key.Marshal()) }

// knownHosts are the lines of all files that speak of one host.
type knownHosts struct {
	keys        []KnownKey
	authorities []KnownKey
	revoked     []KnownKey
	malformed   []string // "file:line: why", for the error that an unknown key makes
}

// readKnownHosts reads the lines for the first of names that any key line
// matches, and the revoked keys of all of them. A file that does not exist holds
// nothing. A line that can't be read is passed over, except for a revocation: not
// knowing what is revoked, nothing is trusted.
func readKnownHosts(files, names []string) (knownHosts, error) {
	found := make([]knownHosts, len(names))
	var all knownHosts
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return all, fmt.Errorf("read known_hosts: %w", err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			k, err := parseKnownHost(line)
			if k.File, k.Line = file, i+1; err != nil {
				if k.marker == markerRevoked {
					return all, fmt.Errorf("read known_hosts: %s: @revoked: %w", k.Where(), err)
				}
				all.malformed = append(all.malformed, fmt.Sprintf("%s: %v", k.Where(), err))
				continue
			}
			for n, name := range names {
				if k.blob != nil && matchHosts(k.hosts, name) {
					found[n].add(k)
				}
			}
		}
	}
	for _, f := range found {
		all.revoked = append(all.revoked, f.revoked...)
		all.authorities = append(all.authorities, f.authorities...)
		if len(all.keys) == 0 {
			all.keys = f.keys
		}
	}
	return all, nil
}

func (h *knownHosts) add(k KnownKey) {
	switch k.marker {
	case markerRevoked:
		h.revoked = append(h.revoked, k)
	case markerAuthority:
		h.authorities = append(h.authorities, k)
	default:
		h.keys = append(h.keys, k)
	}
}

// parseKnownHost reads one line. A comment or blank line gives no blob and no
// error.
func parseKnownHost(line string) (KnownKey, error) {
	var k KnownKey
	fields := strings.Fields(line)
	if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
		return k, nil
	}
	if strings.HasPrefix(fields[0], "@") {
		k.marker, fields = fields[0], fields[1:]
		if k.marker != markerAuthority && k.marker != markerRevoked {
			return k, fmt.Errorf("unknown marker %q", k.marker)
		}
	}
	if len(fields) < 3 {
		return k, errors.New("expected hosts, key type and key")
	}
	k.hosts, k.Type = fields[0], fields[1]
	if strings.HasPrefix(k.hosts, "|") {
		if _, _, err := splitHash(k.hosts); err != nil {
			return k, err
		}
	}
	blob, err := base64.StdEncoding.DecodeString(fields[2])
	if err != nil {
		return k, fmt.Errorf("key is not base64: %w", err)
	}
	if inner := blobType(blob); inner != k.Type {
		return k, fmt.Errorf("key type %q on the line, %q in the key", k.Type, inner)
	}
	k.blob = blob
	return k, nil
}

// blobType is the type that a key in wire format begins with.
func blobType(blob []byte) string {
	if len(blob) < 4 {
		return ""
	}
	n := binary.BigEndian.Uint32(blob)
	if n > 64 || int(n) > len(blob)-4 {
		return ""
	}
	return string(blob[4 : 4+n])
}

func splitHash(s string) (salt, sum []byte, err error) {
	parts := strings.Split(s, "|")
	if len(parts) != 4 || parts[0] != "" || parts[1] != "1" {
		return nil, nil, errors.New("hashed host is not |1|salt|hash")
	}
	if salt, err = base64.StdEncoding.DecodeString(parts[2]); err == nil {
		sum, err = base64.StdEncoding.DecodeString(parts[3])
	}
	if err != nil {
		return nil, nil, fmt.Errorf("hashed host is not base64: %w", err)
	}
	return salt, sum, nil
}

// matchHosts reports whether a line's host field speaks of name. A negated
// pattern that matches settles it.
func matchHosts(hosts, name string) bool {
	if strings.HasPrefix(hosts, "|") {
		salt, sum, err := splitHash(hosts)
		if err != nil {
			return false
		}
		mac := hmac.New(sha1.New, salt)
		mac.Write([]byte(name))
		return hmac.Equal(mac.Sum(nil), sum)
	}
	matched := false
	for _, p := range strings.Split(hosts, ",") {
		pattern, negated := strings.CutPrefix(p, "!")
		if pattern == "" || !matchPattern(strings.ToLower(pattern), name) {
			continue
		}
		if negated {
			return false
		}
		matched = true
	}
	return matched
}

// matchPattern is ssh's: * for any run of characters, ? for one. It works in
// time proportional to the product of the lengths, whatever the pattern.
func matchPattern(pattern, s string) bool {
	p, i, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			p = star + 1
			mark++
			i = mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// knownNames are what the target is called in known_hosts: its alias alone if
// it has one, else the host with its port, and as ssh does it, then without.
func (t Target) knownNames() []string {
	switch {
	case t.HostKeyAlias != "":
		return []string{strings.ToLower(t.HostKeyAlias)}
	case t.Port == 22:
		return []string{t.Host}
	}
	return []string{fmt.Sprintf("[%s]:%d", t.Host, t.Port), t.Host}
}

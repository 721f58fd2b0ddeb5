package sshlink

import (
	"encoding/base64"
	"strings"

	"golang.org/x/crypto/ssh"
)

// ProofNamespace is the SSHSIG namespace that a host signs its proof in.
const ProofNamespace = "ebb-proof"

// Fingerprint is the SHA256 form that ssh and ssh-keygen -l print. For a
// certificate it is that of the certified key.
func Fingerprint(key ssh.PublicKey) string { return ssh.FingerprintSHA256(plainKey(key)) }

// AllowedSigners is the line with which `ssh-keygen -Y verify` accepts a proof
// signed by key in the name of hostIdentity:
//
//	gpu-041 namespaces="ebb-proof" ssh-ed25519 AAAA…
//
// A character of hostIdentity that would widen the pattern or break the line
// becomes an underscore, so that the line never allows more than was meant.
func AllowedSigners(hostIdentity string, key ssh.PublicKey) string {
	key = plainKey(key)
	name := strings.Map(func(r rune) rune {
		if unsafeRune(r) || strings.ContainsRune(`*?!,"#`, r) {
			return '_'
		}
		return r
	}, hostIdentity)
	return name + ` namespaces="` + ProofNamespace + `" ` + keyLine(key.Type(), key.Marshal())
}

// plainKey is the key inside a certificate, or the key itself.
func plainKey(key ssh.PublicKey) ssh.PublicKey {
	if cert, ok := key.(*ssh.Certificate); ok {
		return cert.Key
	}
	return key
}

func keyLine(kind string, blob []byte) string {
	return kind + " " + base64.StdEncoding.EncodeToString(blob)
}

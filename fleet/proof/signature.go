package proof

import (
	"fmt"

	"golang.org/x/crypto/ssh"

	"ebb/fleet/sshsig"
)

// Signature is a parsed signature. The key in it proves nothing by itself:
// Verify compares it with the key that is expected.
type Signature = sshsig.Signature

// Sign signs proof.json and returns the armoured signature.
func Sign(data []byte, s ssh.Signer) (string, error) {
	sig, err := sshsig.Sign(Namespace, data, s)
	if err != nil {
		return "", fmt.Errorf("sign proof: %w", err)
	}
	return sig, nil
}

// ParseSignature reads the signature of a proof.
func ParseSignature(armoured string) (Signature, error) { return sshsig.Parse(Namespace, armoured) }

// Verify checks that armoured is a signature of data by exactly this key.
func Verify(data []byte, armoured string, key ssh.PublicKey) error {
	if err := sshsig.Verify(Namespace, data, armoured, key); err != nil {
		return fmt.Errorf("proof: %w", err)
	}
	return nil
}

// Package sshsig makes and checks detached SSH signatures, as "ssh-keygen -Y
// sign" writes them: proofs by a host's key, asks by an operator's.
//
// A signature is bound to a namespace: one that was made for another purpose
// never serves. Only ed25519, ECDSA and RSA with rsa-sha2-512 are taken, in the
// one spelling that ssh-keygen writes.
package sshsig

import (
	"bytes"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// The armour of a detached SSH signature, as ssh-keygen -Y sign writes it
// (PROTOCOL.sshsig of OpenSSH): base64 in lines of 70 between these two.
const (
	armourBegin = "-----BEGIN SSH SIGNATURE-----\n"
	armourEnd   = "-----END SSH SIGNATURE-----\n"
	armourWidth = 70
	hashName    = "sha512"
)

var magic = [6]byte{'S', 'S', 'H', 'S', 'I', 'G'}

// sigBlob is the signature file without its armour.
type sigBlob struct {
	Magic     [6]byte
	Version   uint32
	PublicKey []byte
	Namespace string
	Reserved  string
	Hash      string
	Signature []byte
}

// signedBlob is what the key signs: not the document but its hash, bound to the
// namespace.
type signedBlob struct {
	Magic     [6]byte
	Namespace string
	Reserved  string
	Hash      string
	Sum       []byte
}

func toBeSigned(namespace string, data []byte) []byte {
	sum := sha512.Sum512(data)
	return ssh.Marshal(signedBlob{Magic: magic, Namespace: namespace, Hash: hashName, Sum: sum[:]})
}

// Sign signs data for a namespace and returns the armoured signature. RSA keys sign with
// rsa-sha2-512, since ssh-keygen refuses the older ways.
func Sign(namespace string, data []byte, s ssh.Signer) (string, error) {
	sig, err := signBytes(toBeSigned(namespace, data), s)
	if err != nil {
		return "", fmt.Errorf("sign with %s: %w", ssh.FingerprintSHA256(s.PublicKey()), err)
	}
	return armour(ssh.Marshal(sigBlob{
		Magic: magic, Version: 1, PublicKey: s.PublicKey().Marshal(),
		Namespace: namespace, Hash: hashName, Signature: ssh.Marshal(sig),
	})), nil
}

func signBytes(data []byte, s ssh.Signer) (*ssh.Signature, error) {
	if s.PublicKey().Type() != ssh.KeyAlgoRSA {
		return s.Sign(rand.Reader, data)
	}
	as, ok := s.(ssh.AlgorithmSigner)
	if !ok {
		return nil, errors.New("this RSA key can't choose its algorithm")
	}
	return as.SignWithAlgorithm(rand.Reader, data, ssh.KeyAlgoRSASHA512)
}

func armour(raw []byte) string {
	var b strings.Builder
	b.WriteString(armourBegin)
	text := base64.StdEncoding.EncodeToString(raw)
	for len(text) > 0 {
		n := min(armourWidth, len(text))
		b.WriteString(text[:n])
		b.WriteByte('\n')
		text = text[n:]
	}
	b.WriteString(armourEnd)
	return b.String()
}

// Signature is a parsed signature. The key in it proves nothing by itself:
// Verify compares it with the key that is expected.
type Signature struct {
	Key ssh.PublicKey
	sig ssh.Signature
}

// Parse reads an armoured signature that was made for a namespace and returns the key that it names. It takes the one spelling that Sign and
// ssh-keygen write: base64 has several for the same bytes.
func Parse(namespace, armoured string) (Signature, error) {
	s, err := parse(namespace, armoured)
	if err != nil {
		return Signature{}, fmt.Errorf("read signature: %w", err)
	}
	return s, nil
}

func parse(namespace, armoured string) (Signature, error) {
	body, ok := strings.CutPrefix(armoured, armourBegin)
	if !ok {
		return Signature{}, errors.New("not an SSH signature")
	}
	if body, ok = strings.CutSuffix(body, armourEnd); !ok {
		return Signature{}, errors.New("cut short")
	}
	raw, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return Signature{}, err
	}
	if armour(raw) != armoured {
		return Signature{}, errors.New("not in canonical form")
	}
	var b sigBlob
	if err := ssh.Unmarshal(raw, &b); err != nil {
		return Signature{}, err
	}
	switch {
	case b.Magic != magic || b.Version != 1:
		return Signature{}, errors.New("not an SSH signature of version 1")
	case b.Namespace != namespace:
		return Signature{}, fmt.Errorf("made for %q, not for %q", b.Namespace, namespace)
	case b.Reserved != "":
		return Signature{}, errors.New("the reserved field is not empty")
	case b.Hash != hashName:
		return Signature{}, fmt.Errorf("hash %q, want %s", b.Hash, hashName)
	}
	key, err := ssh.ParsePublicKey(b.PublicKey)
	if err != nil {
		return Signature{}, err
	}
	if !bytes.Equal(key.Marshal(), b.PublicKey) {
		return Signature{}, errors.New("its key is not in canonical form")
	}
	s := Signature{Key: key}
	if err := ssh.Unmarshal(b.Signature, &s.sig); err != nil {
		return Signature{}, err
	}
	if len(s.sig.Rest) > 0 && !strings.HasPrefix(s.sig.Format, "sk-") {
		return Signature{}, errors.New("data after the signature")
	}
	if key.Type() == ssh.KeyAlgoRSA && s.sig.Format != ssh.KeyAlgoRSASHA512 {
		return Signature{}, fmt.Errorf("RSA signature %q, want %s", s.sig.Format, ssh.KeyAlgoRSASHA512)
	}
	return s, nil
}

// Verify checks that armoured is a signature of data, made for the namespace, by
// exactly this key.
func Verify(namespace string, data []byte, armoured string, key ssh.PublicKey) error {
	s, err := Parse(namespace, armoured)
	if err != nil {
		return err
	}
	if !bytes.Equal(s.Key.Marshal(), key.Marshal()) {
		return fmt.Errorf("verify: signed by %s, want %s", ssh.FingerprintSHA256(s.Key), ssh.FingerprintSHA256(key))
	}
	if err := key.Verify(toBeSigned(namespace, data), &s.sig); err != nil {
		return fmt.Errorf("verify: the signature does not fit the document: %w", err)
	}
	return nil
}

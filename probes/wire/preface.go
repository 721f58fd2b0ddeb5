package wire

import (
	"encoding/json"
	"fmt"
	"io"
)

// Claimed is what a caller says about itself, and where it came from. It is
// recorded as said, never relied on.
type Claimed struct {
	Operator string `json:"operator,omitempty"`
	SSH      string `json:"ssh,omitempty"` // SSH_CONNECTION
	Key      string `json:"key,omitempty"` // fingerprint of the key that sshd let in
}

// Preface is what may be written to the agent's socket before HTTP. It is
// optional, one line:
//
//	EBBC/1 {"ssh":"192.0.2.7 51022 192.0.2.9 22","key":"SHA256:…"}
//
// dial-stdio passes on in it what sshd told it. A console that sshd has let
// through to the socket asks in it for the magic line, which dial-stdio would
// have written:
//
//	EBBC/1 {"hello":true}
type Preface struct {
	Claimed
	Hello bool `json:"hello,omitempty"`
}

const (
	PrefaceMagic = "EBBC/1 "
	PrefaceMax   = 8 << 10
)

// WritePreface writes the line.
func WritePreface(w io.Writer, p Preface) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if len(b) > PrefaceMax/2 {
		b, _ = json.Marshal(Preface{Hello: p.Hello}) // without what would make it too long
	}
	_, err = fmt.Fprintf(w, "%s%s\n", PrefaceMagic, b)
	return err
}

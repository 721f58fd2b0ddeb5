package drain

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// AskNamespace is that of the signatures of asks.
const AskNamespace = "ebb-ask"

// IsAsk reports whether an event is an operator's ask.
func (k Kind) IsAsk() bool { return strings.HasPrefix(string(k), "ask.") }

// Signed returns what an ask's signature covers: everything that the asker
// decided, and the event's id, so that one ask can't be turned into another or
// made twice. What the journal adds (seq, num, time) is not part of it. The form
// is injective: every field stands behind its length.
func (e Event) Signed() []byte {
	var b []byte
	for _, field := range []string{"ebb-ask-1", e.Stream, e.ID, string(e.Kind), e.Drain, e.By.Name, e.By.Console, e.By.Key} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(field)))
		b = append(b, field...)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(e.V))
	sum := sha256.Sum256(e.Body)
	return append(b, hex.EncodeToString(sum[:])...)
}

package drain

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// Two asks that differ in anything that the asker decided are never signed by
// the same bytes.
func TestSignedIsInjective(t *testing.T) {
	text := rapid.StringMatching(`[a-z/:]{0,6}`)
	ask := rapid.Custom(func(t *rapid.T) Event {
		return Event{Stream: text.Draw(t, "stream"), ID: text.Draw(t, "id"), Kind: Kind(text.Draw(t, "kind")), V: rapid.IntRange(0, 3).Draw(t, "v"),
			Drain: text.Draw(t, "drain"), By: Actor{Name: text.Draw(t, "name"), Console: text.Draw(t, "console"), Key: text.Draw(t, "key")},
			Body: json.RawMessage(text.Draw(t, "body"))}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := ask.Draw(t, "a"), ask.Draw(t, "b")
		same := a.Stream == b.Stream && a.ID == b.ID && a.Kind == b.Kind && a.V == b.V && a.Drain == b.Drain && a.By == b.By && bytes.Equal(a.Body, b.Body)
		if bytes.Equal(a.Signed(), b.Signed()) != same {
			t.Fatalf("%+v and %+v", a, b)
		}
	})
}

func TestSignedLeavesOutWhatTheJournalAdds(t *testing.T) {
	a := Event{Stream: "p/h", ID: "1", Kind: "ask.stop", V: 1, Body: json.RawMessage(`{}`)}
	b := a
	b.Seq, b.Num, b.Epoch, b.Sig = 7, 3, 2, "x"
	if !bytes.Equal(a.Signed(), b.Signed()) {
		t.Error("the journal's own fields change what is signed")
	}
}

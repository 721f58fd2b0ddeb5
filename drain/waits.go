package drain

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"ebb/fleet"
)

// news reports whether a reason says something that the journal does not say
// yet. The wording of an error is no news: a port number that changes with every
// attempt would fill the journal.
func news(have, now fleet.Reason) bool {
	if have.Code != now.Code || len(have.Args) != len(now.Args) {
		return true
	}
	for k, v := range now.Args {
		if old, ok := have.Args[k]; !ok || k != "detail" && old != v {
			return true
		}
	}
	return false
}

// wait records why the drain as a whole waits, if that is news.
func (d *decider) wait(r fleet.Reason) {
	if news(d.s.Waiting, r) {
		d.emit(DriveWaits{Reasons: []Wait{{Reason: r}}})
	}
}

// because records why one workload waits, if that is news.
func (d *decider) because(it Item, r fleet.Reason) {
	if news(it.Reason, r) {
		d.waits = append(d.waits, Wait{Key: it.Key, Reason: r})
	}
}

// becauseAt is because with a time as the only argument. Most of what waits, waits
// for a time, and in most passes that is no news: then no reason is made.
func (d *decider) becauseAt(it Item, code, name string, at time.Time) {
	var room [len(time.RFC3339) + 8]byte
	if have := it.Reason; have.Code == code && len(have.Args) == 1 && !at.IsZero() && have.Args[name] == string(at.UTC().AppendFormat(room[:0], time.RFC3339)) {
		return
	}
	d.because(it, fleet.Because(code, name, stamp(at)))
}

// flushWaits records the reasons that are news. What the drain as a whole waited
// for is over unless this pass said it again.
func (d *decider) flushWaits() {
	if news(d.s.Waiting, d.whole) {
		d.waits = append(d.waits, Wait{Reason: d.whole})
	}
	if len(d.waits) > 0 {
		d.emit(DriveWaits{Reasons: d.waits})
	}
}

// flushReasons records the reasons of workloads only.
func (d *decider) flushReasons() {
	if len(d.waits) > 0 {
		d.emit(DriveWaits{Reasons: d.waits})
	}
}

func sortedKeys(m map[fleet.Key]Item) []fleet.Key {
	keys := make([]fleet.Key, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, fleet.Key.Compare)
	return keys
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// handle is a key as it stands in an act's id: readable where it is short and
// plain, else a digest, because ids become file names and paths elsewhere.
func handle(k fleet.Key) string {
	s := k.String()
	plain := len(s) <= 100
	for i := 0; plain && i < len(s); i++ {
		c := s[i]
		plain = c > ' ' && c < 0x7f && c != '%' && c != '~'
	}
	if plain {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "~" + hex.EncodeToString(sum[:16])
}

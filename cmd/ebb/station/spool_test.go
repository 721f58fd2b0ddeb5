package station

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/drain/journal"
	"ebb/fleet"
)

func record(t *testing.T, host fleet.HostID, id, reason string) drain.Event {
	t.Helper()
	ev, err := drain.NewEvent(host, id, "", 0, drain.Actor{Name: "ann"}, drain.RecCordon{Reason: reason})
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func testSpool(t *testing.T) *spool {
	return &spool{path: filepath.Join(t.TempDir(), "ebb", "spool.jsonl"), journal: "sqlite:a"}
}

func openJournal(t *testing.T) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func stored(t *testing.T, j *journal.Journal) string {
	t.Helper()
	events, err := j.All(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, ev := range events {
		ids = append(ids, ev.ID)
	}
	return strings.Join(ids, " ")
}

// limited is a journal that takes only so many batches.
type limited struct {
	*journal.Journal
	left int
}

func (l *limited) Append(ctx context.Context, b drain.Batch) ([]drain.Event, error) {
	if l.left--; l.left < 0 {
		return nil, errors.New("away")
	}
	return l.Journal.Append(ctx, b)
}

func TestSpoolKeepsAndGives(t *testing.T) {
	s, j := testSpool(t), openJournal(t)
	for _, id := range []string{"e1", "e2", "e3"} {
		if err := s.keep(record(t, "p/a", id, "a hunch")); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(s.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", err, info.Mode())
	}
	if n, err := s.flush(t.Context(), &limited{j, 1}); n != 1 || err == nil || s.waiting() != 2 {
		t.Fatalf("%d appended, %v, %d wait", n, err, s.waiting())
	}
	// One that got through without our knowing is not there twice.
	if _, err := j.Append(t.Context(), drain.Batch{Stream: "p/a", Events: []drain.Event{record(t, "p/a", "e2", "a hunch")}}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.flush(t.Context(), j); n != 2 || err != nil || s.waiting() != 0 {
		t.Fatalf("%d appended, %v, %d wait", n, err, s.waiting())
	}
	if got := stored(t, j); got != "e1 e2 e3" {
		t.Errorf("stored %s", got)
	}
	if n, err := s.flush(t.Context(), &limited{nil, 0}); n != 0 || err != nil {
		t.Errorf("an empty spool asked the journal: %d, %v", n, err)
	}
}

// Records of another journal stay, and so does what can't be read; a line that
// was cut short does not swallow the next.
func TestSpoolLeavesWhatIsNotItsOwn(t *testing.T) {
	s, j := testSpool(t), openJournal(t)
	other := &spool{path: s.path, journal: "postgres://db/other"}
	if err := other.keep(record(t, "p/a", "theirs", "")); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(s.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, `{"journal":"sqlite:a","event":{"id":"cut`)
	f.Close()
	if err := s.keep(record(t, "p/a", "ours", "")); err != nil {
		t.Fatal(err)
	}
	if n, err := s.flush(t.Context(), j); n != 1 || err != nil || s.waiting() != 2 || stored(t, j) != "ours" {
		t.Errorf("%d appended, %v, %d wait, stored %s", n, err, s.waiting(), stored(t, j))
	}
	if n, err := other.flush(t.Context(), j); n != 1 || err != nil {
		t.Errorf("theirs: %d, %v", n, err)
	}
}

// Processes of one person share a spool.
func TestSpoolIsShared(t *testing.T) {
	s, j := testSpool(t), openJournal(t)
	var wg sync.WaitGroup
	for p := range 4 {
		mine := &spool{path: s.path, journal: s.journal}
		wg.Go(func() {
			for i := range 10 {
				if err := mine.keep(record(t, "p/a", fmt.Sprintf("%d-%d", p, i), "")); err != nil {
					t.Error(err)
				}
				if _, err := mine.flush(t.Context(), j); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(strings.Fields(stored(t, j))); n != 40 || s.waiting() != 0 {
		t.Errorf("%d of 40 stored, %d wait", n, s.waiting())
	}
}

func TestJournalIDHoldsNoSecret(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://ebb:secret@db.internal:5432/ebb?sslmode=disable&password=secret": "postgres://db.internal:5432/ebb",
		"sqlite:/var/lib/ebb/journal.db":                                             "sqlite:/var/lib/ebb/journal.db",
	} {
		if got := journalID(url); got != want {
			t.Errorf("%s: %s", url, got)
		}
	}
}

// A record that an engine could not journal is in the journal once it is back.
func TestCordonRecordOutlivesTheJournal(t *testing.T) {
	s, j := testSpool(t), openJournal(t)
	dead := engine.New(engine.Config{Journal: journalOr{nil, errors.New("down")}, Spool: s.keep, Actor: drain.Actor{Name: "ann"},
		Retry:  1,
		Agents: nobody{}, Plane: func(fleet.HostID) (engine.Cordoner, error) { return nil, errors.New("down") }})
	r, err := dead.Cordon(t.Context(), "p/a", "a hunch", false, nil)
	if err == nil || !strings.Contains(r.Journal, "kept here") {
		t.Fatalf("%v, %+v", err, r)
	}
	if n, err := s.flush(t.Context(), j); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	events, _ := j.Stream(t.Context(), "p/a", 0, 0)
	var body drain.RecCordon
	for _, ev := range events {
		if ev.Kind == body.Kind() {
			_ = json.Unmarshal(ev.Body, &body)
		}
	}
	if body.Reason != "a hunch" {
		t.Errorf("events %+v", events)
	}
}

type nobody struct{}

func (nobody) Agent(context.Context, fleet.HostID, engine.Role) (engine.Agent, error) {
	return nil, errors.New("down")
}

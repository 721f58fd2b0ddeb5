package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

var t0 = time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC)

const h1, h2 = fleet.HostID("prod/gpu-041"), fleet.HostID("prod/gpu-042")

// history is a journal being written.
type history struct {
	t      *testing.T
	events []drain.Event
	nums   map[fleet.HostID]uint64
}

func (h *history) add(after time.Duration, host fleet.HostID, by string, b drain.Body) {
	h.t.Helper()
	n := len(h.events) + 1
	e, err := drain.NewEvent(host, fmt.Sprintf("e%d", n), "d-"+host.Name(), 1, drain.Actor{Name: by}, b)
	if err != nil {
		h.t.Fatal(err)
	}
	if h.nums == nil {
		h.nums = map[fleet.HostID]uint64{}
	}
	h.nums[host]++
	e.Seq, e.Num, e.At = uint64(n), h.nums[host], t0.Add(after)
	h.events = append(h.events, e)
}

var etl = fleet.Key{Kind: "batch", ID: "etl"}

// story is a drain of one host, and a cordon of another beside it.
func story(t *testing.T) *history {
	h := &history{t: t}
	run := fleet.Run{Boot: "b", PID: 7, Start: 70}
	h.add(0, h1, "mira", drain.RecCordon{Reason: "CVE"})
	h.add(time.Second, h1, "mira", drain.RecCordoned{State: fleet.Cordoned})
	h.add(2*time.Second, h1, "mira", drain.AskStart{Deadline: t0.Add(time.Hour), MayDie: []fleet.Key{etl}})
	h.add(3*time.Second, h1, "bastion", drain.DriveTook{Driver: "bastion", Machine: "m", Boot: "b"})
	h.add(4*time.Second, h1, "bastion", drain.DrivePhase{Phase: drain.Cordoning})
	h.add(5*time.Second, h1, "bastion", drain.DriveIntent{Act: drain.Act{ID: "c1", Kind: drain.ActCordon}})
	h.add(6*time.Second, h1, "bastion", drain.DriveOutcome{Act: "c1", Result: drain.Done})
	h.add(7*time.Second, h1, "bastion", drain.DrivePhase{Phase: drain.Draining})
	h.add(8*time.Second, h1, "bastion", drain.DriveFound{Items: []drain.Found{{Key: etl, Run: run, Runs: []fleet.Run{run}, Class: fleet.Stuck, Owner: "data", Verdict: fleet.Agreed, MayDie: true, Budget: fleet.Budget{Grace: 5 * time.Minute}}}})
	h.add(9*time.Second, h2, "lena", drain.RecCordon{Reason: "slow"})
	h.add(10*time.Second, h2, "lena", drain.RecCordoned{State: fleet.HostOnly})
	h.add(time.Minute, h1, "bastion", drain.DriveWaits{Reasons: []drain.Wait{{Key: etl, Reason: fleet.Because(drain.WaitUnclassified)}}})
	h.add(10*time.Minute, h1, "mira", drain.AskStop{Reason: "enough"})
	h.add(11*time.Minute, h1, "mira", drain.RecUndrain{})
	h.add(12*time.Minute, h2, "lena", drain.RecUncordon{})
	return h
}

func lines(t *testing.T, events []drain.Event) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, e := range events {
		if err := enc.Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestReadTakesAJournal(t *testing.T) {
	want := story(t).events
	tape, err := Read(strings.NewReader(lines(t, want)))
	if err != nil {
		t.Fatal(err)
	}
	if tape.Len() != len(want) || len(tape.Notes) > 0 || !tape.Start().Equal(t0) || !tape.End().Equal(t0.Add(12*time.Minute)) {
		t.Errorf("%d events, %v to %v, notes %q", tape.Len(), tape.Start(), tape.End(), tape.Notes)
	}
}

func TestReadPutsRightWhatItCan(t *testing.T) {
	all := lines(t, story(t).events)
	rows := strings.SplitAfter(strings.TrimSuffix(all, "\n"), "\n")
	n := len(rows)
	for name, tc := range map[string]struct {
		in   string
		n    int
		note string
	}{
		"cut off":      {all[:len(all)-30], n - 1, fmt.Sprintf("line %d is cut off", n)},
		"no last end":  {strings.TrimSuffix(all, "\n"), n, ""},
		"mixed up":     {rows[3] + strings.Join(rows[:3], "") + strings.Join(rows[4:], ""), n, "out of order"},
		"twice":        {all + rows[0], n, fmt.Sprintf("line %d repeats", n+1)},
		"blank lines":  {"\n\n" + strings.ReplaceAll(all, "\n", "\n\n"), n, ""},
		"windows":      {"\xef\xbb\xbf" + strings.ReplaceAll(all, "\n", "\r\n"), n, ""},
		"unknown kind": {all + `{"seq":99,"stream":"prod/x","num":1,"id":"z","at":"2026-11-29T15:00:00Z","kind":"ask.levitate","v":3,"body":{"how":"high"}}` + "\n", n + 1, ""},
		"broken body":  {all + `{"seq":99,"stream":"prod/x","num":1,"id":"z","at":"2026-11-29T15:00:00Z","kind":"ask.start","v":1,"body":[1]}` + "\n", n + 1, ""},
		"clock went":   {all + `{"seq":99,"stream":"prod/x","num":1,"id":"z","at":"1999-01-01T00:00:00Z","kind":"rec.undrain","v":1}` + "\n", n + 1, ""},
	} {
		tape, err := Read(strings.NewReader(tc.in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if tape.Len() != tc.n || strings.Contains(strings.Join(tape.Notes, "\n"), tc.note) == (tc.note == "" && len(tape.Notes) > 0) {
			t.Errorf("%s: %d events of %d, notes %q", name, tape.Len(), tc.n, tape.Notes)
		}
		for i := 1; i < tape.Len(); i++ {
			if tape.times[i].Before(tape.times[i-1]) {
				t.Errorf("%s: time runs back", name)
			}
		}
		if seq := tape.Events(); seq[3].Seq != 4 {
			t.Errorf("%s: the fourth event is number %d", name, seq[3].Seq)
		}
	}
}

func TestReadNamesTheLine(t *testing.T) {
	all := lines(t, story(t).events)
	for name, tc := range map[string]struct{ in, want string }{
		"other text":  {"it was a dark night\n" + all, "line 1: not an event"},
		"in between":  {all + "Segmentation fault\n" + all, fmt.Sprintf("line %d: not an event", strings.Count(all, "\n")+1)},
		"other json":  {`{"level":"info","msg":"hello"}` + "\n", "line 1: not an event of a journal: it has no kind"},
		"a list":      {"[1,2]\n", "line 1: not an event"},
		"two on one":  {strings.Replace(all, "\n", " ", 1), "line 1: not an event"},
		"huge":        {all + strings.Repeat("x", maxLine+1) + "\n", fmt.Sprintf("line %d: longer than 4 MiB", strings.Count(all, "\n")+1)},
		"cut, alone":  {`{"seq":1,"stre`, "line 1: not an event"},
		"not utf-8":   {"\xff\xfe\x00\n", "line 1: not an event"},
		"bad year":    {`{"seq":1,"stream":"p/h","id":"a","kind":"rec.undrain","at":"99999-01-01T00:00:00Z"}` + "\n", "line 1: not an event"},
		"no identity": {`{"seq":1,"stream":"p/h","kind":"rec.undrain"}` + "\n", "line 1: not an event of a journal: it has no id"},
	} {
		_, err := Read(strings.NewReader(tc.in))
		var at *LineError
		if !errors.As(err, &at) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
	if _, err := Read(strings.NewReader("\n\n")); !errors.Is(err, ErrEmpty) {
		t.Errorf("nothing: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"seq":1,"stream":"p/h","num":1,"id":"a","at":"2026-11-29T14:00:00Z","kind":"ask.start","v":1,"drain":"d","by":{"name":"m"},"body":{"deadline":"2026-11-29T15:00:00Z"}}` + "\n" +
		`{"seq":2,"stream":"p/h","num":2,"id":"b","at":"2026-11-29T14:00:01Z","kind":"drive.took","v":1,"drain":"d","epoch":1,"by":{"name":"m"},"body":{"driver":"x"}}`))
	f.Add([]byte("{\"kind\":\"drive.found\",\"v\":1,\"stream\":\"\\u001b[2J\",\"id\":\"x\",\"body\":{\"items\":[{\"key\":\"a/b\"}]}}\n{"))
	f.Add([]byte("text\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tape, err := Read(bytes.NewReader(data))
		if err != nil {
			var at *LineError
			if !errors.Is(err, ErrEmpty) && (!errors.As(err, &at) || at.Line < 1 || at.Line > bytes.Count(data, []byte("\n"))+1) {
				t.Fatalf("an error that names no line of the file: %v", err)
			}
			return
		}
		p := NewPlayer("f", tape)
		for p, i := p, 0; i < min(tape.Len(), 50); i++ {
			if p.Frame(); p.Now().Before(tape.Start()) || p.Now().After(tape.End()) {
				t.Fatalf("the player is at %v, outside of %v to %v", p.Now(), tape.Start(), tape.End())
			}
			p = p.Step(1)
		}
		var out bytes.Buffer
		if err := Lines(&out, tape, time.UTC); err != nil {
			t.Fatal(err)
		}
		for _, l := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
			if !strings.HasPrefix(l, Mark+"  ") || strings.ContainsAny(l, "\x1b\x07\r\u009b") {
				t.Fatalf("a line that is not marked, or not clean: %q", l)
			}
		}
	})
}

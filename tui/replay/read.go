package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"ebb/drain"
)

// Limits on what is read. A drain has some thousands of events of some hundred
// bytes each; what is far beyond that is no journal.
const (
	maxLine   = 4 << 20
	maxEvents = 1 << 20
)

// LineError is a line that no journal has.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// Hint says where such a file comes from.
func (e *LineError) Hint() string { return "ebb log --export FILE writes a journal as lines" }

// ErrEmpty says that a file has no event.
var ErrEmpty = errors.New("no event is in it")

// Read reads a journal as ebb log --export writes it: one event a line, as JSON.
//
// What can be put right is noted in the tape and played: a last line that was
// cut off is left out, events out of order are put in order, an event that
// stands there twice is played once. A line that is no event is an error that
// names it. Events of a kind this program does not know are events.
func Read(r io.Reader) (*Tape, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	t := &Tape{}
	seen := map[string]bool{}
	for n := 1; ; n++ {
		line, whole, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, &LineError{n, err}
		}
		end := err != nil
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			e, err := parse(line)
			switch {
			case err != nil && !whole && n > 1:
				t.Notes = append(t.Notes, fmt.Sprintf("line %d is cut off, and left out", n))
			case err != nil:
				return nil, &LineError{n, err}
			case seen[e.ID]:
				t.Notes = append(t.Notes, fmt.Sprintf("line %d repeats an event, and is left out", n))
			case len(t.events) == maxEvents:
				return nil, &LineError{n, fmt.Errorf("more than %d events", maxEvents)}
			default:
				seen[e.ID] = true
				t.events = append(t.events, e)
			}
		}
		if end {
			break
		}
	}
	if len(t.events) == 0 {
		return nil, ErrEmpty
	}
	t.order()
	t.index()
	return t, nil
}

// Of makes a tape of events that were read from a journal already.
func Of(events []drain.Event) (*Tape, error) {
	if len(events) == 0 {
		return nil, ErrEmpty
	}
	t := &Tape{events: slices.Clone(events)}
	t.order()
	t.index()
	return t, nil
}

// readLine reads up to the end of a line; whole says that the end was there.
func readLine(in *bufio.Reader) (line []byte, whole bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return nil, false, fmt.Errorf("longer than %d MiB", maxLine>>20)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err == nil, err
		}
	}
}

func parse(line []byte) (drain.Event, error) {
	var e drain.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return e, fmt.Errorf("not an event of a journal: %w", err)
	}
	switch {
	case e.Kind == "" || e.Stream == "":
		return e, errors.New("not an event of a journal: it has no kind, or no stream")
	case e.ID == "":
		return e, errors.New("not an event of a journal: it has no id")
	}
	return e, nil
}

// order puts the events in the order of the journal: by their sequence where all
// have one, else as they stand, and each stream by its numbers.
func (t *Tape) order() {
	numbered := !slices.ContainsFunc(t.events, func(e drain.Event) bool { return e.Seq == 0 })
	by := func(a, b drain.Event) int {
		if numbered {
			return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Num, b.Num))
		}
		if a.Stream == b.Stream {
			return cmp.Compare(a.Num, b.Num)
		}
		return 0
	}
	if numbered {
		if !slices.IsSortedFunc(t.events, by) {
			t.Notes = append(t.Notes, "its events were out of order, and are put in order")
			slices.SortStableFunc(t.events, by)
		}
		return
	}
	// Without a sequence the places stay as they are, and each stream is put in
	// order on its own places.
	places := map[string][]int{}
	for i, e := range t.events {
		places[e.Stream] = append(places[e.Stream], i)
	}
	was := slices.Clone(t.events)
	moved := false
	for _, at := range places {
		of := make([]drain.Event, len(at))
		for i, p := range at {
			of[i] = was[p]
		}
		if slices.IsSortedFunc(of, by) {
			continue
		}
		moved = true
		slices.SortStableFunc(of, by)
		for i, p := range at {
			t.events[p] = of[i]
		}
	}
	if moved {
		t.Notes = append(t.Notes, "its events were out of order, and are put in order")
	}
}

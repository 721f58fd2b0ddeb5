package journal

import (
	"context"
	"errors"
	"sync"
	"time"
)

// tail knows where the streams end that are read again and again, so that however
// many ask whether theirs has anything new, one question to the database answers
// all of them. An answer is never older than its question: who asks while the
// database is being read waits for the next reading.
//
// It believes only a journal that still has the event which it saw last. Before
// any other one (a replica that was promoted without the newest events) it forgets
// what it knew.
type tail struct {
	mu   sync.Mutex
	ends map[string]streamEnd
	last line   // the event that was seen last
	era  uint64 // changes whenever what was known no longer counts

	reading bool
	next    *reading // for those who ask now
}

// streamEnd is what is known of a stream. Until it has been read to its end by
// itself it is not sure: what is appended is noted, but not what was there before.
type streamEnd struct {
	num  uint64
	sure bool
}

// line is an event's place.
type line struct {
	seq    uint64
	id     string
	stream string
	num    uint64
}

// reading is one look at the newest events, and who waits for it.
type reading struct {
	done chan struct{}
	err  error
}

// quiet reports whether a stream is known to have nothing after a number. Who only
// reads a stream once asks nothing more than that. The era goes to ended.
func (j *Journal) quiet(ctx context.Context, stream string, after uint64) (nothing bool, era uint64, err error) {
	t := &j.tail
	if _, noted, era := t.note(stream); !noted {
		return false, era, nil
	}
	if err := j.lookTail(ctx); err != nil && !errors.Is(err, ErrRewound) {
		return false, 0, err
	}
	end, _, era := t.note(stream)
	return end.sure && end.num <= after, era, nil
}

// note returns what is known of a stream. From then on its events are noted.
func (t *tail) note(stream string) (end streamEnd, noted bool, era uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ends == nil {
		t.ends = map[string]streamEnd{}
	}
	if end, noted = t.ends[stream]; !noted {
		t.ends[stream] = streamEnd{}
	}
	if t.last.id == "" {
		return end, noted, 0 // what comes is noted only once the journal's end is known
	}
	return end, noted, t.era
}

// ended takes in that a stream was read up to its end, by a question that was
// asked after it was noted in that era.
func (t *tail) ended(stream string, num, era uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if end, noted := t.ends[stream]; noted && era > 0 && era == t.era {
		t.ends[stream] = streamEnd{max(end.num, num), true}
	}
}

// lookTail waits for a reading that begins from now on.
func (j *Journal) lookTail(ctx context.Context) error {
	t := &j.tail
	t.mu.Lock()
	r := t.next
	if r == nil {
		r = &reading{done: make(chan struct{})}
		t.next = r
	}
	if !t.reading {
		t.reading = j.begin(j.readTail)
	}
	started := t.reading
	t.mu.Unlock()
	if !started {
		return ErrClosed
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readTail reads for as long as somebody asks.
func (j *Journal) readTail() {
	t := &j.tail
	for {
		t.mu.Lock()
		r := t.next
		t.next = nil
		if t.reading = r != nil; !t.reading {
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		ctx, cancel := context.WithTimeout(j.closed, 10*time.Second)
		for more := true; more && r.err == nil; {
			more, r.err = j.readOn(ctx)
		}
		cancel()
		close(r.done)
	}
}

// readOn reads the event that was seen last again, and some of those after it; at
// first, and after another journal was met, only where the journal ends.
func (j *Journal) readOn(ctx context.Context) (more bool, err error) {
	const page = 1000
	t := &j.tail
	order, limit := "seq", int64(page)
	if t.last.id == "" {
		order, limit = "seq desc", 1
	}
	var lines []line
	rows, err := j.db.QueryContext(ctx, j.dialect.sql(`select seq, id, stream, num from {s}events where seq >= $1 order by `+order+` limit $2`), position(t.last.seq), limit)
	err = scanAll(rows, err, func() error {
		var l line
		var seq, num int64
		err := rows.Scan(&seq, &l.id, &l.stream, &num)
		l.seq, l.num = uint64(seq), uint64(num)
		lines = append(lines, l)
		return err
	})
	if err != nil {
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.last.id == "" && len(lines) == 0:
		return false, nil // nothing was ever appended
	case t.last.id == "":
		t.era++
	case len(lines) == 0 || lines[0] != t.last:
		clear(t.ends)
		t.last, t.era = line{}, t.era+1
		return false, ErrRewound
	}
	for _, l := range lines {
		if end, noted := t.ends[l.stream]; noted {
			t.ends[l.stream] = streamEnd{max(end.num, l.num), end.sure}
		}
	}
	t.last = lines[len(lines)-1]
	return len(lines) == page, nil
}

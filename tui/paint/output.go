package paint

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/charmbracelet/colorprofile"
)

const (
	// restoreWait is how long [Output.Write] waits for a terminal that is being
	// given back: the process may be stopped right after.
	restoreWait = time.Second
	// A write that takes this long, at less than this many bytes a second, is one
	// to a terminal that can't keep up.
	slowWrite = 150 * time.Millisecond
	slowRate  = 20_000
	// slowFor is how long such a terminal is held for slow.
	slowFor = 30 * time.Second
	// syncFrom is how many bytes of a screen are worth being shown at once.
	syncFrom = 400
)

// Output is a terminal. Its methods may be called from any goroutine, and none
// of them waits for the terminal but Close, and Write where it is given back.
type Output struct {
	to io.Writer

	mu       sync.Mutex
	queue    [][]byte // the program's own sequences, in their order
	text     string   // the latest screen
	w, h     int
	shown    int // screens handed over
	sent     int // the last of them that has been written
	awaited  int // the one that Sent is about
	sentAt   time.Time
	profile  colorprofile.Profile
	sync     bool
	err      error
	slowTill time.Time
	writing  bool
	began    time.Time // when the write that is under way was
	closed   bool
	idle     *sync.Cond
	work     chan struct{}
	done     chan struct{}
	lost     chan struct{}

	// Of the writing goroutine alone:
	pen     *Pen // nil until the colours are known
	on      bool // the alternate screen is
	painted int  // the last screen that was painted
}

// NewOutput begins to write to a terminal. No screen is painted before it is
// known which colours it shows (SetProfile).
func NewOutput(to io.Writer) *Output {
	o := &Output{to: to, work: make(chan struct{}, 1), done: make(chan struct{}), lost: make(chan struct{})}
	o.idle = sync.NewCond(&o.mu)
	go o.run()
	return o
}

// Show hands over the latest screen: lines of text with SGR sequences. It says
// which screen that is, for Await.
func (o *Output) Show(text string, width, height int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text, o.w, o.h = text, width, height
	o.shown++
	o.poke()
	return o.shown
}

// Sent says when a screen, or a newer one, was handed to the terminal; ok is
// false while it is not. It is asked of one screen at a time, see Await.
func (o *Output) Sent() (at time.Time, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sentAt, o.sent >= o.awaited
}

// Await makes Sent about a screen.
func (o *Output) Await(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.awaited = n
	o.sentAt = time.Now()
}

// Slow says whether the terminal can't keep up.
func (o *Output) Slow() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	return now.Before(o.slowTill) || o.writing && now.Sub(o.began) > slowWrite
}

// SetProfile says which colours the terminal shows.
func (o *Output) SetProfile(p colorprofile.Profile) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.profile = p
	o.poke()
}

// SetSync says whether the terminal is to show larger changes at once (mode
// 2026).
func (o *Output) SetSync(on bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sync = on
}

// Write takes sequences of the program. It returns at once, except where they
// leave the alternate screen: then it waits for a moment until they are out. It
// fails once the terminal is lost.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	if o.err != nil {
		defer o.mu.Unlock()
		return 0, o.err
	}
	o.queue = append(o.queue, bytes.Clone(b))
	o.poke()
	o.mu.Unlock()
	if bytes.Contains(b, leaves) {
		o.flush(restoreWait)
	}
	return len(b), nil
}

// Close writes what is left and ends, within a limit: a terminal that takes
// nothing is left to itself.
func (o *Output) Close(limit time.Duration) {
	o.flush(limit)
	o.mu.Lock()
	o.closed = true
	o.poke()
	o.mu.Unlock()
	select {
	case <-o.done:
	case <-time.After(limit):
	}
}

// Err is what went wrong with the terminal.
func (o *Output) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Lost is closed when the terminal is gone.
func (o *Output) Lost() <-chan struct{} { return o.lost }

// flush waits until all that was handed over is out, or a limit has passed.
func (o *Output) flush(limit time.Duration) {
	late := false
	t := time.AfterFunc(limit, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		late = true
		o.idle.Broadcast()
	})
	defer t.Stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for !late && o.err == nil && (o.writing || len(o.queue) > 0) {
		o.idle.Wait()
	}
}

// poke wakes the writer; called with the lock held.
func (o *Output) poke() {
	select {
	case o.work <- struct{}{}:
	default:
	}
}

// batch is what is written at once.
type batch struct {
	queue   [][]byte
	text    string
	w, h    int
	screen  int
	profile colorprofile.Profile
	sync    bool
}

func (o *Output) take() (b batch, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed && len(o.queue) == 0 {
		return b, false
	}
	b = batch{o.queue, o.text, o.w, o.h, o.shown, o.profile, o.sync}
	o.queue = nil
	o.writing, o.began = true, time.Now()
	return b, true
}

func (o *Output) run() {
	defer close(o.done)
	for range o.work {
		for {
			b, ok := o.take()
			if !ok {
				return
			}
			out := o.compose(b)
			began := time.Now()
			var err error
			if len(out) > 0 {
				_, err = o.to.Write(out)
			}
			if !o.wrote(b, len(out), time.Since(began), err) {
				break
			}
		}
	}
}

// wrote notes how a write went, and says whether there is more to do.
func (o *Output) wrote(b batch, n int, took time.Duration, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = false
	if o.painted == b.screen {
		if o.sent < o.awaited && b.screen >= o.awaited {
			o.sentAt = time.Now()
		}
		o.sent = b.screen
	}
	if took > slowWrite && float64(n)/took.Seconds() < slowRate {
		o.slowTill = time.Now().Add(slowFor)
	}
	if err != nil && o.err == nil {
		o.err = err
		o.queue = nil
		close(o.lost)
	}
	more := o.err == nil && (len(o.queue) > 0 || o.shown != b.screen || o.profile != b.profile)
	if !more {
		o.idle.Broadcast()
	}
	return more || o.closed
}

func (o *Output) forget() {
	if o.pen != nil {
		o.pen.Forget()
	}
}

// compose is the bytes of a batch: the screen before any sequence, since one may
// be a query, and again behind one that changed what is shown.
func (o *Output) compose(b batch) []byte {
	if b.profile != colorprofile.Unknown && (o.pen == nil || b.profile != o.pen.palette.profile) {
		o.pen = NewPen(b.profile)
	}
	var out []byte
	paint := func() {
		if !o.on || o.pen == nil || b.screen == 0 || b.w < 1 || b.h < 1 || o.painted == b.screen && o.pen.have != nil {
			return
		}
		o.painted = b.screen
		diff := o.pen.Draw(b.text, b.w, b.h)
		if b.sync && len(diff) >= syncFrom {
			diff = append(append([]byte("\x1b[?2026h"), diff...), "\x1b[?2026l"...)
		}
		out = append(out, diff...)
	}
	for _, seq := range b.queue {
		switch effect(seq) {
		case enters:
			o.on = true
			o.forget()
		case leavesScreen:
			o.on = false
			o.forget()
		case draws:
			o.forget()
		default:
			paint()
		}
		out = append(out, seq...)
	}
	paint()
	return out
}

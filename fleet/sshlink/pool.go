package sshlink

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// DialFunc opens the TCP connection to a host or to the first jump host.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Options of a Pool. The zero value is what ebb uses.
type Options struct {
	Sources // ssh_config, keys, agent and known_hosts

	Dial DialFunc // net.Dialer's by default

	Handshakes      int           // at a time, over all hosts; 32 by default, of which one address gets 6 at most
	Sessions        int           // at a time, per connection; 8 by default, below the 10 of sshd's MaxSessions
	ConnectTimeout  time.Duration // for TCP and handshake, where ssh_config sets none; 15 s by default
	KeepaliveEvery  time.Duration // 5 s by default
	KeepaliveWithin time.Duration // 5 s by default
	BackoffBase     time.Duration // 500 ms by default
	BackoffMax      time.Duration // 30 s by default
}

func (o *Options) fill() {
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	o.Handshakes = cmp.Or(o.Handshakes, 32)
	o.Sessions = cmp.Or(o.Sessions, 8)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 15*time.Second)
	o.KeepaliveEvery = cmp.Or(o.KeepaliveEvery, 5*time.Second)
	o.KeepaliveWithin = cmp.Or(o.KeepaliveWithin, 5*time.Second)
	o.BackoffBase = cmp.Or(o.BackoffBase, 500*time.Millisecond)
	o.BackoffMax = cmp.Or(o.BackoffMax, 30*time.Second)
}

// startups is how many handshakes one address gets at a time: sshd begins to drop
// connections at 10 (MaxStartups), and several destinations may be one server.
const startups = 6

// Pool holds one connection per destination, and makes it anew when it is asked
// for after it was lost. Jump hosts are destinations like any other, and shared.
type Pool struct {
	opt    Options
	config *Config
	slots  chan struct{} // one token per handshake under way

	life context.Context // ends with Close; dials belong to the pool, not to who asked first
	end  context.CancelCauseFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	links  map[string]*link         // by Target.key
	doors  map[string]chan struct{} // by address and the way there: one token per handshake under way with it
}

// link is one destination. Guarded by Pool.mu.
type link struct {
	conn    *Conn    // the latest; it may have ended
	attempt *attempt // under way, or nil
	backoff backoff
}

// attempt is one dial that any number of callers wait for.
type attempt struct {
	done chan struct{}
	conn *Conn // set before done is closed, as is err
	err  error
}

// New reads the configuration. It connects to nothing.
func New(opt Options) (*Pool, error) {
	opt.fill()
	config, err := LoadConfig(opt.Sources)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancelCause(context.Background())
	return &Pool{
		opt: opt, config: config, life: life, end: end,
		slots: make(chan struct{}, opt.Handshakes), links: make(map[string]*link), doors: make(map[string]chan struct{}),
	}, nil
}

// Config is the ssh_config that the pool goes by.
func (p *Pool) Config() *Config { return p.config }

type noWaitKey struct{}

// NoWait marks a context for callers who want no waiting between attempts: while
// a destination is backing off, Conn returns the last error at once.
func NoWait(ctx context.Context) context.Context {
	return context.WithValue(ctx, noWaitKey{}, true)
}

// Conn returns the connection to dest, making it if there is none. A failure
// that may pass is tried again until ctx ends; one that a person has to settle
// (an unknown host key, no accepted key, a bad destination) is returned at once.
func (p *Pool) Conn(ctx context.Context, dest string) (*Conn, error) {
	t, err := p.config.Resolve(dest)
	if err != nil {
		return nil, err
	}
	return p.to(ctx, t)
}

func (p *Pool) to(ctx context.Context, t Target) (*Conn, error) {
	var last error
	for {
		conn, try, b, err := p.join(t)
		if conn != nil || err != nil {
			return conn, err
		}
		if b.err != nil {
			last = b.err
		}
		var ready <-chan time.Time
		var done <-chan struct{}
		if try != nil {
			done = try.done
		} else {
			if permanent(b.err) {
				return nil, b.err
			}
			if ctx.Value(noWaitKey{}) != nil {
				return nil, &NotConnectedError{Dest: t.Name, Last: b.err, Next: b.next}
			}
			ready = time.After(time.Until(b.next))
		}
		select {
		case <-done:
			if try.err == nil {
				return try.conn, nil
			}
			if permanent(try.err) || ctx.Value(noWaitKey{}) != nil {
				return nil, try.err
			}
		case <-ready:
		case <-ctx.Done():
			return nil, &NotConnectedError{Dest: t.Name, Last: last, Next: b.next, Cause: ctx.Err()}
		case <-p.life.Done():
			return nil, &NotConnectedError{Dest: t.Name, Last: last, Cause: ErrClosed}
		}
	}
}

// join finds what there is for t: a connection, an attempt (begun here if it is
// time), or else how long to stand off.
func (p *Pool) join(t Target) (*Conn, *attempt, backoff, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, backoff{}, &NotConnectedError{Dest: t.Name, Cause: ErrClosed}
	}
	l := p.links[t.key()]
	if l == nil {
		l = new(link)
		p.links[t.key()] = l
	}
	p.bury(l)
	switch {
	case l.conn != nil:
		return l.conn, nil, backoff{}, nil
	case l.attempt == nil && !time.Now().Before(l.backoff.next):
		l.attempt = &attempt{done: make(chan struct{})}
		p.wg.Go(func() { p.try(l, t) })
	}
	return nil, l.attempt, l.backoff, nil
}

// bury notices that l's connection has ended. One that stood for a while is made
// anew at once; one that keeps dying young is treated like a failed attempt.
func (p *Pool) bury(l *link) {
	if l.conn == nil || l.conn.Err() == nil {
		return
	}
	age, at := l.conn.lived()
	if age >= youngDeath {
		l.backoff = backoff{err: l.conn.Err()}
	} else {
		l.backoff.fail(l.conn.Err(), at, p.opt)
	}
	l.conn = nil
}

// try makes one attempt and stays until the connection it made has ended.
func (p *Pool) try(l *link, t Target) {
	conn, err := p.dial(t)
	p.mu.Lock()
	a := l.attempt
	a.conn, a.err, l.attempt = conn, err, nil
	if err != nil {
		l.backoff.fail(err, time.Now(), p.opt)
	} else {
		l.conn = conn
		l.backoff.err, l.backoff.next = nil, time.Time{}
	}
	closed := p.closed
	close(a.done)
	p.mu.Unlock()
	if conn == nil {
		return
	}
	if closed {
		conn.fail(ErrClosed)
	}
	conn.wait()
}

// dial reaches t. The jump host comes first and is not waited for while holding
// a slot, or chains could block each other.
func (p *Pool) dial(t Target) (*Conn, error) {
	var via *Conn
	if t.Via != nil {
		var err error
		if via, err = p.to(NoWait(p.life), *t.Via); err != nil {
			return nil, &JumpError{Target: t, Err: err}
		}
	}
	for _, slots := range []chan struct{}{p.door(t), p.slots} {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-p.life.Done():
			return nil, ErrClosed
		}
	}
	timeout := cmp.Or(t.ConnectTimeout, p.opt.ConnectTimeout)
	ctx, cancel := context.WithTimeoutCause(p.life, timeout, &timeoutError{timeout})
	defer cancel()
	return connect(ctx, t, via, p.opt.Dial, limits{
		keepaliveEvery: p.opt.KeepaliveEvery, keepaliveWithin: p.opt.KeepaliveWithin, sessions: p.opt.Sessions,
	})
}

// door is where the handshakes with t's server queue.
func (p *Pool) door(t Target) chan struct{} {
	at := t.Address()
	for via := t.Via; via != nil; via = via.Via {
		at += " via " + via.Address()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doors[at] == nil {
		p.doors[at] = make(chan struct{}, startups)
	}
	return p.doors[at]
}

// Last is the state of dest between attempts: when the next may start, and why
// the latest failed or the connection ended. Both are zero while a connection
// stands and before the first attempt has ended.
func (p *Pool) Last(dest string) (next time.Time, err error) {
	t, err := p.config.Resolve(dest)
	if err != nil {
		return time.Time{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.links[t.key()]
	if l == nil {
		return time.Time{}, nil
	}
	p.bury(l)
	return l.backoff.next, l.backoff.err
}

// Retry forgets dest's failures, so that the next call tries at once: for a
// person who has just put right what was wrong.
func (p *Pool) Retry(dest string) error {
	t, err := p.config.Resolve(dest)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := &t; at != nil; at = at.Via {
		if l := p.links[at.key()]; l != nil {
			p.bury(l)
			l.backoff = backoff{}
		}
	}
	return nil
}

// Close ends every connection and returns when nothing of the pool runs any more.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	var open []*Conn
	for _, l := range p.links {
		if l.conn != nil {
			open = append(open, l.conn)
		}
	}
	p.mu.Unlock()
	p.end(ErrClosed)
	for _, c := range open {
		c.fail(ErrClosed)
	}
	p.wg.Wait()
	return nil
}

// timeoutError is a handshake that took longer than ConnectTimeout.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string { return "no answer within " + e.after.String() }
func (e *timeoutError) Timeout() bool { return true }

// JumpError is a destination that can't be reached because a host on the way to
// it can't.
type JumpError struct {
	Target Target
	Err    error
}

func (e *JumpError) Error() string {
	return "connect " + e.Target.Name + " through " + e.Target.Via.Name + ": " + e.Err.Error()
}

func (e *JumpError) Unwrap() error { return e.Err }

// Hint is what the jump host needs.
func (e *JumpError) Hint() string {
	if h := Hint(e.Err); h != "" {
		return h
	}
	return "try by hand: " + e.Target.Via.command()
}

func (e *JumpError) permanent() bool { return permanent(errors.Unwrap(e)) }

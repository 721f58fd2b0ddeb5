package sshlink

import (
	"sync"
	"time"
)

// beats asks the host for signs of life, one request at a time: SSH answers them
// in order, and a keepalive must not queue behind others on a slow link. Whoever
// asks while a request is out shares the next one with all others who did.
type beats struct {
	mu     sync.Mutex
	next   *beat // not sent yet
	asking bool  // a goroutine is sending
}

type beat struct {
	done chan struct{}
	err  error // set before done is closed
}

// keepalive asks at every tick and ends the connection if no answer comes in
// time. Any answer will do; most servers refuse the request.
func (c *Conn) keepalive() {
	tick := time.NewTicker(c.limits.keepaliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.dead:
			return
		case <-tick.C:
		}
		if err := c.alive(c.limits.keepaliveWithin); err != nil {
			c.fail(err)
			return
		}
	}
}

// alive asks once, after everything that was sent before, and waits for the
// answer. It judges only; ending the connection is the caller's.
func (c *Conn) alive(within time.Duration) error {
	b, err := c.ask()
	if err != nil {
		return err
	}
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case <-b.done:
		if b.err != nil {
			return &LostError{Target: c.target, Err: b.err}
		}
		return nil
	case <-timeout.C:
		return &KeepaliveError{Target: c.target, Waited: within}
	case <-c.dead:
		return c.Err()
	}
}

// ask joins the next request.
func (c *Conn) ask() (*beat, error) {
	c.beats.mu.Lock()
	defer c.beats.mu.Unlock()
	if c.beats.next == nil {
		c.beats.next = &beat{done: make(chan struct{})}
	}
	if !c.beats.asking {
		if err := c.spawn(c.sendBeats); err != nil {
			return nil, err
		}
		c.beats.asking = true
	}
	return c.beats.next, nil
}

// sendBeats sends requests as long as somebody has joined one. On a connection
// that ends, each fails at once.
func (c *Conn) sendBeats() {
	for {
		c.beats.mu.Lock()
		b := c.beats.next
		c.beats.next = nil
		c.beats.asking = b != nil
		c.beats.mu.Unlock()
		if b == nil {
			return
		}
		_, _, b.err = c.client.SendRequest("keepalive@openssh.com", true, nil)
		close(b.done)
	}
}

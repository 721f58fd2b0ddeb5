package sshlink

import (
	"context"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Conn is one SSH connection to one host, over one TCP connection or one channel
// of a jump host. Many may use it at once; the [Pool] owns it.
type Conn struct {
	target   Target
	limits   limits
	client   ssh.Conn
	link     net.Conn // what client runs over; closing it is what really ends things
	hostKey  ssh.PublicKey
	sessions chan struct{} // holds one token for each session in use
	since    time.Time

	mu    sync.Mutex
	err   error         // set before dead is closed
	ended time.Time     // likewise
	dead  chan struct{} // closed once, under mu
	wg    sync.WaitGroup

	beats beats
}

// limits are the numbers of Options that a connection lives by.
type limits struct {
	keepaliveEvery  time.Duration
	keepaliveWithin time.Duration
	sessions        int
}

// newConn takes over a connection that has been authenticated.
func newConn(t Target, l limits, link net.Conn, client ssh.Conn, key ssh.PublicKey,
	chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) *Conn {
	c := &Conn{
		target: t, limits: l, client: client, link: link, hostKey: key, since: time.Now(),
		sessions: make(chan struct{}, l.sessions), dead: make(chan struct{}),
	}
	c.spawn(func() { ssh.DiscardRequests(reqs) })
	c.spawn(func() {
		for ch := range chans { // nothing may be opened towards us
			_ = ch.Reject(ssh.Prohibited, "no channels to the console")
		}
	})
	c.spawn(func() { c.fail(&LostError{Target: t, Err: client.Wait()}) })
	c.spawn(c.keepalive)
	return c
}

// Target is where the connection leads.
func (c *Conn) Target() Target { return c.target }

// HostKey is the key that the host proved to hold in the handshake. Where it
// showed a certificate, this is the key inside it.
func (c *Conn) HostKey() ssh.PublicKey { return c.hostKey }

// LocalAddr is our end of the TCP connection; through a jump host, its far end.
func (c *Conn) LocalAddr() net.Addr { return c.link.LocalAddr() }

// RemoteAddr is the host's end; through a jump host, the name and port that the
// jump host was asked for.
func (c *Conn) RemoteAddr() net.Addr { return c.link.RemoteAddr() }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.dead }

// Err says why the connection ended; nil while it stands.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// lived is how long the connection stood, and when it ended.
func (c *Conn) lived() (time.Duration, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended.Sub(c.since), c.ended
}

// fail ends the connection, once: the first reason stays. It closes what lies
// below SSH, since a farewell message would wait for a peer that may be frozen.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err, c.ended = err, time.Now()
	close(c.dead)
	c.mu.Unlock()
	c.link.Close()
}

// spawn runs f in a goroutine that wait waits for; it refuses once the
// connection has ended.
func (c *Conn) spawn(f func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.wg.Go(f)
	return nil
}

// wait returns when the connection has ended and everything on it has too.
func (c *Conn) wait() {
	<-c.dead
	c.wg.Wait()
}

// open opens a channel. If ctx ends first the channel is closed when it comes.
func (c *Conn) open(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	type opened struct {
		ch   ssh.Channel
		reqs <-chan *ssh.Request
		err  error
	}
	result := make(chan opened)
	err := c.spawn(func() {
		ch, reqs, err := c.client.OpenChannel(kind, payload)
		select {
		case result <- opened{ch, reqs, err}:
		case <-ctx.Done():
			if err == nil {
				ch.Close()
				ssh.DiscardRequests(reqs) // ends when the other side has closed, too
			}
		}
	})
	if err != nil {
		return nil, nil, err
	}
	select {
	case o := <-result:
		return o.ch, o.reqs, o.err
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	case <-c.dead:
		return nil, nil, c.Err()
	}
}

// noDeadlines are a net.Conn's deadlines where there can be none: an SSH channel
// has no way to give up on a read. Keepalive bounds the wait instead.
type noDeadlines struct{}

func (noDeadlines) SetDeadline(time.Time) error      { return nil }
func (noDeadlines) SetReadDeadline(time.Time) error  { return nil }
func (noDeadlines) SetWriteDeadline(time.Time) error { return nil }

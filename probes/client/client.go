// Package client speaks with an agent over any stream of bytes: an SSH channel,
// a Unix socket, a pipe.
//
// A stream carries one magic line and then HTTP/2 without TLS. The connection
// is made once and used by every call; when it breaks, calls fail, Done is
// closed, and the caller dials anew. The pooled transport of net/http is never
// used: it opens streams of its own.
//
// It promises that every answer which is not a success is a *Problem, that a
// watch never hands over facts with a hole in them, and that nothing here tries
// an act again.
//
// Data in: calls as values of wire. Data out: values of wire and fleet.
package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"ebb/probes/wire"
)

// helloTimeout is how long an agent may take to say who it is.
const helloTimeout = 20 * time.Second

// Dialer opens the stream to the agent.
type Dialer func(ctx context.Context) (net.Conn, error)

// Options say who calls.
type Options struct {
	Role     wire.Role // the channel that is wanted
	Version  string    // of the caller
	Operator string    // $EBB_OPERATOR, else user@console
	Machine  string    // expected machine id; empty: not compared
	// NoHello is for the agent's own sockets, which speak HTTP at once.
	NoHello bool
}

// Client is one connection to one agent.
type Client struct {
	hello wire.Hello
	opts  Options
	conn  net.Conn
	http  *http.ClientConn
	tr    *http.Transport

	once sync.Once
	done chan struct{}
}

// Dial opens a stream, finds the magic line and speaks HTTP/2.
func Dial(ctx context.Context, dial Dialer, opts Options) (*Client, error) {
	stream, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	c := &Client{opts: opts, done: make(chan struct{})}
	conn := &watched{Conn: stream, ended: c.ended}
	c.conn = conn
	if !opts.NoHello {
		if err := c.greet(ctx, conn); err != nil {
			stream.Close()
			return nil, err
		}
	}
	if err := c.connect(ctx, conn); err != nil {
		stream.Close()
		return nil, fmt.Errorf("speak with the agent: %w", err)
	}
	return c, nil
}

// greet reads the magic line and checks that this client can go on. The wait
// ends with ctx: the stream is closed then.
func (c *Client) greet(ctx context.Context, conn *watched) error {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Conn.Close() })
	br := bufio.NewReaderSize(conn.Conn, 4<<10)
	hello, noise, err := wire.ReadHello(br)
	if !stop() && err != nil {
		return fmt.Errorf("wait for the agent: %w", context.Cause(ctx))
	}
	if err != nil {
		return noAgent(noise, err)
	}
	conn.br = br
	c.hello = hello
	return c.checkHello()
}

func (c *Client) checkHello() error {
	h := c.hello
	switch {
	case h.Proto != wire.Proto:
		return &VersionError{Agent: h.Version, AgentProto: h.Proto, Console: c.opts.Version, ConsoleProto: wire.Proto}
	case c.opts.Machine != "" && h.Machine != c.opts.Machine:
		return &MachineError{Want: c.opts.Machine, Got: h.Machine}
	case c.opts.Role != "" && !h.Role.Covers(c.opts.Role):
		return &RoleError{Want: c.opts.Role, Got: h.Role}
	}
	return nil
}

func (c *Client) connect(ctx context.Context, conn *watched) error {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	given := false
	c.tr = &http.Transport{
		Protocols: &p,
		HTTP2:     &http.HTTP2Config{SendPingTimeout: wire.PingEvery, PingTimeout: wire.PingPatience},
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			if given {
				return nil, errors.New("the stream is used up")
			}
			given = true
			return conn, nil
		},
	}
	cc, err := c.tr.NewClientConn(ctx, "http", "ebbd:80")
	if err != nil {
		return err
	}
	c.http = cc
	return nil
}

// Hello is what the agent said about itself before HTTP.
func (c *Client) Hello() wire.Hello { return c.hello }

// Done is closed once the connection can't be used any more.
func (c *Client) Done() <-chan struct{} { return c.done }

// Busy reports whether a call is under way.
func (c *Client) Busy() bool { return c.http.InFlight() > 0 }

// Close ends the connection and every call on it.
func (c *Client) Close() error {
	err := c.http.Close()
	c.tr.CloseIdleConnections()
	return errors.Join(err, ignoreClosed(c.conn.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (c *Client) ended() { c.once.Do(func() { close(c.done) }) }

// watched is a stream that tells when it has ended. Reads come from the buffer
// in which the magic line was found.
type watched struct {
	net.Conn
	br    *bufio.Reader
	ended func()
}

func (w *watched) Read(p []byte) (n int, err error) {
	if w.br != nil && w.br.Buffered() == 0 {
		w.br = nil // what came with the magic line has been read: it is not kept for as long as the connection lives
	}
	if w.br != nil {
		n, err = w.br.Read(p)
	} else {
		n, err = w.Conn.Read(p)
	}
	if err != nil && !timeout(err) {
		w.ended()
	}
	return n, err
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	if err != nil && !timeout(err) {
		w.ended()
	}
	return n, err
}

func (w *watched) Close() error {
	w.ended()
	return w.Conn.Close()
}

func timeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

package sshlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	stderrTail = 4 << 10
	// exitPatience is how long a reader at the end of output waits to hear how the
	// command ended. sshd says so at once, unless the command closed its output and
	// lives on.
	exitPatience = time.Second
)

// ExitError is a command that did not end with status 0.
type ExitError struct {
	Command string
	Target  Target
	Code    int    // -1 when it was killed or the server did not say
	Signal  string // without SIG; empty unless killed
	Stderr  string // its last 4 KiB, raw: clean it before drawing
}

func (e *ExitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %q on %s: ", e.Command, e.Target.describe())
	switch {
	case e.Signal != "":
		fmt.Fprintf(&b, "killed by %q", e.Signal)
	case e.Code < 0:
		b.WriteString("ended without an exit status")
	default:
		fmt.Fprintf(&b, "exit status %d", e.Code)
	}
	if last := lastLine(e.Stderr); last != "" {
		fmt.Fprintf(&b, ": %q", last)
	}
	return b.String()
}

// ExitStatus is Code, for those who tell exit statuses apart without this
// package: 127 is a shell that found no such command.
func (e *ExitError) ExitStatus() int { return e.Code }

// Hint is the same command by hand.
func (e *ExitError) Hint() string {
	return "try by hand: " + e.Target.command() + " " + ShellQuote(e.Command)
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}

// Stream is one running command: its input and output as bytes, the tail of its
// stderr, and how it ended. Close it when done, whatever happened.
type Stream struct {
	*duplex
	command string

	mu     sync.Mutex
	stderr []byte

	quiet chan struct{} // closed at the end of stderr
	over  chan struct{} // closed when the other side has closed the channel
	exit  error         // set before over is closed
}

// Exec runs command in the host user's shell. Beyond the limit of sessions it
// waits for one to end. The stream lives on when ctx ends: ctx bounds the
// opening only.
func (c *Conn) Exec(ctx context.Context, command string) (*Stream, error) {
	select {
	case c.sessions <- struct{}{}:
	case <-ctx.Done():
		return nil, &SessionLimitError{Target: c.target, Limit: c.limits.sessions, Err: ctx.Err()}
	case <-c.dead:
		return nil, c.Err()
	}
	started := make(chan execResult)
	// The token goes back when the session is over on the other side too: until
	// then sshd counts it. It does so even a little longer, until it has looked at
	// its channels again; what it answers after that comes when it has.
	err := c.spawn(func() {
		defer func() { <-c.sessions }()
		c.session(ctx, command, started)
		_ = c.alive(c.limits.keepaliveWithin)
	})
	if err != nil {
		<-c.sessions
		return nil, err
	}
	select {
	case r := <-started:
		return r.stream, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("open session on %s: %w", c.target.describe(), ctx.Err())
	case <-c.dead:
		return nil, c.Err()
	}
}

type execResult struct {
	stream *Stream
	err    error
}

// session lives as long as the session on the host. Whoever asked may have gone
// by the time it is open; then it is closed again.
func (c *Conn) session(ctx context.Context, command string, started chan<- execResult) {
	tell := func(s *Stream, err error) {
		select {
		case started <- execResult{s, err}:
		case <-ctx.Done():
			if s != nil {
				s.Close()
			}
		case <-c.dead:
		}
	}
	ch, reqs, err := c.client.OpenChannel("session", nil)
	if err != nil {
		tell(nil, c.refusal("session", err))
		return
	}
	s := &Stream{command: command, quiet: make(chan struct{}), over: make(chan struct{})}
	if s.duplex, err = newDuplex(c, ch, s.ending); err == nil {
		err = c.spawn(s.pumpStderr)
	}
	if err != nil {
		tell(nil, err)
		return
	}
	if err := c.spawn(func() { s.start(command, tell) }); err != nil {
		tell(nil, err)
		return
	}
	s.follow(reqs)
}

// start asks for the command. It runs beside follow, which must be taking
// requests meanwhile.
func (s *Stream) start(command string, tell func(*Stream, error)) {
	ok, err := s.ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{command}))
	if err == nil && !ok {
		err = errors.New("the server would not run it")
	}
	if err != nil {
		s.Close()
		tell(nil, s.conn.refusal("command", err))
		return
	}
	tell(s, nil)
}

// refusal gives a failure to open its type: a dead connection is not a refusal.
func (c *Conn) refusal(what string, err error) error {
	var open *ssh.OpenChannelError
	switch {
	case errors.As(err, &open):
		return &SessionRefusedError{Target: c.target, What: what, Err: errors.New(open.Message)}
	case c.Err() != nil:
		return c.Err()
	case errors.Is(err, io.EOF):
		if alive := c.alive(c.limits.keepaliveWithin); alive != nil {
			return alive
		}
	}
	return &SessionRefusedError{Target: c.target, What: what, Err: err}
}

// follow takes the requests of the channel, among them the exit status, until
// the other side has closed it.
func (s *Stream) follow(reqs <-chan *ssh.Request) {
	e := &ExitError{Command: s.command, Target: s.conn.target, Code: -1}
	told := false
	for req := range reqs {
		var status struct{ Code uint32 }
		var killed struct {
			Signal string
			Core   bool
			Text   string
			Lang   string
		}
		switch {
		case req.Type == "exit-status" && ssh.Unmarshal(req.Payload, &status) == nil:
			e.Code, told = int(status.Code), true
		case req.Type == "exit-signal" && ssh.Unmarshal(req.Payload, &killed) == nil:
			e.Signal, told = killed.Signal, true
		}
		_ = req.Reply(false, nil)
	}
	<-s.quiet // stderr has ended with the channel
	e.Stderr = s.Stderr()
	switch {
	case told && e.Code == 0 && e.Signal == "":
	case told:
		s.exit = e
	default:
		// The channel is gone. Was it closed, or is that the connection going down?
		if s.exit = s.conn.alive(s.conn.limits.keepaliveWithin); s.exit == nil {
			s.exit = e
		}
	}
	close(s.over)
}

// pumpStderr keeps the last of stderr, so that a noisy command neither blocks
// nor fills our memory.
func (s *Stream) pumpStderr() {
	defer close(s.quiet)
	buf := make([]byte, 4<<10)
	from := s.ch.Stderr()
	for {
		n, err := from.Read(buf)
		s.mu.Lock()
		s.stderr = append(s.stderr, buf[:n]...)
		if cut := len(s.stderr) - stderrTail; cut > 0 {
			s.stderr = append(s.stderr[:0], s.stderr[cut:]...)
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// ending is what a reader is told at the end: how a command failed that wrote
// nothing, or that the connection was lost.
func (s *Stream) ending(d *duplex, got int64) error {
	patience := time.NewTimer(exitPatience)
	defer patience.Stop()
	select {
	case <-s.over:
	case <-d.closed:
		return nil
	case <-patience.C:
		return nil
	}
	var exit *ExitError
	if errors.As(s.exit, &exit) && got > 0 {
		return nil
	}
	return s.exit
}

// Stderr is the last 4 KiB that the command wrote there so far.
func (s *Stream) Stderr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.stderr)
}

// Wait waits for the command to end and its output to have been sent; the output
// has to be read meanwhile. A status other than 0 is an *ExitError. After Close
// it waits for nothing.
func (s *Stream) Wait() error {
	select {
	case <-s.over:
		return s.exit
	default:
	}
	select {
	case <-s.over:
		return s.exit
	case <-s.closed:
		return io.ErrClosedPipe
	case <-s.conn.dead:
		return s.conn.Err()
	}
}

// NetConn is the stream as a net.Conn, for HTTP/2. Its deadlines do nothing.
func (s *Stream) NetConn() net.Conn { return &streamConn{Stream: s} }

type streamConn struct {
	*Stream
	noDeadlines
}

func (c *streamConn) LocalAddr() net.Addr  { return c.conn.LocalAddr() }
func (c *streamConn) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

package sshlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// testServer is an SSH server in this process, for what the real one can't be
// made to do, and for fake time. Its commands are: cat; exit N; hang; say TEXT.
type testServer struct {
	config   *ssh.ServerConfig
	hostKey  ssh.Signer
	accepted atomic.Int64 // handshakes begun
	sessions atomic.Int64 // open now
	most     atomic.Int64 // open at once at most
	mu       sync.Mutex
	fail     error       // what the next dials meet
	conns    []*pipeConn // our ends
	wg       sync.WaitGroup
}

func newServer(t *testing.T, client ssh.PublicKey) *testServer {
	s := &testServer{hostKey: newSigner(t)}
	s.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(client.Marshal()) {
			return nil, errors.New("no")
		}
		return nil, nil
	}}
	s.config.AddHostKey(s.hostKey)
	return s
}

// serverPool is a server and a pool that knows it under any name.
func serverPool(t *testing.T, opt Options) (*testServer, *Pool) {
	t.Helper()
	dir := t.TempDir()
	key, signer := writeKey(t, filepath.Join(dir, "id"), "")
	s := newServer(t, signer.PublicKey())
	opt.Identity = []string{key}
	opt.KnownHosts = []string{writeFile(t, filepath.Join(dir, "known_hosts"), s.line("*"))}
	opt.User = "me"
	opt.Dial = s.dial
	return s, newPool(t, opt)
}

func (s *testServer) line(host string) string {
	return knownhosts.Line([]string{host}, s.hostKey.PublicKey()) + "\n"
}

func (s *testServer) failWith(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// dial is a DialFunc that leads here, whatever the address.
func (s *testServer) dial(context.Context, string, string) (net.Conn, error) {
	s.accepted.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	client, server := newPipe()
	s.conns = append(s.conns, server)
	s.wg.Go(func() { s.serve(server) })
	return client, nil
}

// last is our end of the latest connection.
func (s *testServer) last() *pipeConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[len(s.conns)-1]
}

func (s *testServer) serve(conn net.Conn) {
	defer conn.Close()
	sc, chans, reqs, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return
	}
	s.wg.Go(func() { ssh.DiscardRequests(reqs) })
	for nc := range chans {
		if nc.ChannelType() != "session" {
			_ = nc.Reject(ssh.UnknownChannelType, "no")
			continue
		}
		ch, reqs, err := nc.Accept()
		if err != nil {
			continue
		}
		s.wg.Go(func() { s.session(ch, reqs) })
	}
	_ = sc.Wait()
}

func (s *testServer) session(ch ssh.Channel, reqs <-chan *ssh.Request) {
	now := s.sessions.Add(1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	var once sync.Once
	leave := func() { once.Do(func() { s.sessions.Add(-1) }) }
	defer leave()
	for req := range reqs {
		var cmd struct{ Text string }
		if req.Type != "exec" || ssh.Unmarshal(req.Payload, &cmd) != nil || cmd.Text == "refuse" {
			_ = req.Reply(false, nil)
			continue
		}
		_ = req.Reply(true, nil)
		s.wg.Go(func() {
			if code := run(cmd.Text, ch); code >= 0 {
				leave()
				_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(code)}))
				ch.Close()
			}
		})
	}
}

func run(command string, ch ssh.Channel) int {
	name, arg, _ := strings.Cut(command, " ")
	switch name {
	case "cat":
		_, _ = io.Copy(ch, ch)
	case "say":
		fmt.Fprint(ch, arg)
	case "exit":
		code, _ := strconv.Atoi(arg)
		return code
	case "vanish":
		ch.Close()
		return -1
	case "hang":
		return -1
	}
	return 0
}

// newPipe is two ends of a buffered stream whose delivery can be frozen. All its
// waiting is seen by synctest.
func newPipe() (client, server *pipeConn) {
	a, b := newHalf(), newHalf()
	return &pipeConn{in: a, out: b}, &pipeConn{in: b, out: a}
}

type pipeConn struct {
	noDeadlines
	in, out *half
}

type half struct {
	mu             sync.Mutex
	changed        *sync.Cond
	data           []byte
	closed, frozen bool
}

func newHalf() *half {
	h := new(half)
	h.changed = sync.NewCond(&h.mu)
	return h
}

func (c *pipeConn) Read(p []byte) (int, error) {
	h := c.in
	h.mu.Lock()
	defer h.mu.Unlock()
	for !h.closed && (h.frozen || len(h.data) == 0) {
		h.changed.Wait()
	}
	if len(h.data) == 0 || h.frozen {
		return 0, io.EOF
	}
	n := copy(p, h.data)
	h.data = h.data[n:]
	return n, nil
}

func (c *pipeConn) Write(p []byte) (int, error) {
	h := c.out
	h.mu.Lock()
	defer h.mu.Unlock()
	// A frozen reader's buffers fill up in the end.
	for !h.closed && h.frozen && len(h.data) > 64<<10 {
		h.changed.Wait()
	}
	if h.closed {
		return 0, io.ErrClosedPipe
	}
	h.data = append(h.data, p...)
	h.changed.Broadcast()
	return len(p), nil
}

func (c *pipeConn) Close() error {
	c.in.set(func(h *half) { h.closed = true })
	c.out.set(func(h *half) { h.closed = true })
	return nil
}

// freeze stops what this end would read, as a stopped process would.
func (c *pipeConn) freeze() { c.in.set(func(h *half) { h.frozen = true }) }

func (h *half) set(f func(*half)) {
	h.mu.Lock()
	f(h)
	h.mu.Unlock()
	h.changed.Broadcast()
}

func (c *pipeConn) LocalAddr() net.Addr  { return hostAddr("local:1") }
func (c *pipeConn) RemoteAddr() net.Addr { return hostAddr("remote:22") }

package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"ebb/probes/wire"
)

// roleListener accepts connections of one role and asks the kernel who each is.
type roleListener struct {
	Listener
	proc   string
	hello  wire.Hello // for whoever asks for it
	places *places
}

// connsMax is how many connections one user may have on one socket: whoever
// opens more, and says nothing on them, must not keep others out.
const connsMax = 256

// places counts connections by user.
type places struct {
	max int
	mu  sync.Mutex
	by  map[int]int
}

func newPlaces(most int) *places { return &places{max: most, by: map[int]int{}} }

func (p *places) take(uid int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[uid] >= p.max {
		return false
	}
	p.by[uid]++
	return true
}

func (p *places) leave(uid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[uid]--; p.by[uid] <= 0 {
		delete(p.by, uid)
	}
}

// Accept closes at once what a user has no place for.
func (l roleListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := l.admit(c)
		uid := conn.caller.UID
		if !l.places.take(uid) {
			c.Close()
			continue
		}
		conn.left = sync.OnceFunc(func() { l.places.leave(uid) })
		return conn, nil
	}
}

func (l roleListener) admit(c net.Conn) *roleConn {
	conn := &roleConn{Conn: c, hello: l.hello, caller: Caller{UID: -1, Role: l.Role}}
	if u, ok := c.(*net.UnixConn); ok {
		if cred, err := peerOf(u); err == nil {
			conn.caller.UID, conn.caller.PID = int(cred.Uid), int(cred.Pid)
			if cred.Uid == 0 {
				conn.caller.SudoUID = sudoUID(l.proc, int(cred.Pid))
			}
		}
	}
	return conn
}

// Close gives the place back, too.
func (c *roleConn) Close() error {
	c.left()
	return c.Conn.Close()
}

func peerOf(u *net.UnixConn) (*unix.Ucred, error) {
	raw, err := u.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var sys error
	if err := raw.Control(func(fd uintptr) {
		cred, sys = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return cred, sys
}

// sudoUID reads who became root to make the call.
func sudoUID(proc string, pid int) string {
	b, err := os.ReadFile(filepath.Join(proc, itoa(pid), "environ"))
	if err != nil {
		return ""
	}
	for v := range bytes.SplitSeq(b, []byte{0}) {
		if uid, ok := strings.CutPrefix(string(v), "SUDO_UID="); ok {
			return clip(uid, 16)
		}
	}
	return ""
}

// roleConn is a connection that knows its caller. The preface is read with the
// first read, by the goroutine that serves the connection: one that stays
// silent holds up nobody else.
type roleConn struct {
	net.Conn
	hello wire.Hello
	left  func()
	once  sync.Once
	br    *bufio.Reader
	err   error

	mu     sync.Mutex
	caller Caller
}

func (c *roleConn) Read(p []byte) (int, error) {
	c.once.Do(c.readPreface)
	if c.err != nil {
		return 0, c.err
	}
	return c.br.Read(p)
}

func (c *roleConn) readPreface() {
	c.br = bufio.NewReaderSize(c.Conn, wire.PrefaceMax)
	first, err := c.br.Peek(1)
	if err != nil || first[0] != wire.PrefaceMagic[0] {
		return // the error comes again with the next read
	}
	if head, err := c.br.Peek(len(wire.PrefaceMagic)); err != nil || string(head) != wire.PrefaceMagic {
		return
	}
	line, err := c.br.ReadSlice('\n')
	if err != nil {
		c.err = fmt.Errorf("preface: %w", err)
		return
	}
	var p wire.Preface
	if json.Unmarshal(line[len(wire.PrefaceMagic):], &p) != nil {
		return
	}
	c.mu.Lock()
	c.caller.Claimed = wire.Claimed{SSH: printable(p.SSH), Key: printable(p.Key), Operator: printable(p.Operator)}
	c.mu.Unlock()
	if p.Hello {
		c.err = wire.WriteHello(c.Conn, c.hello)
	}
}

// printable bounds and cleans what a caller says about itself.
func printable(s string) string {
	return clip(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "")), maxText)
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// callerOf returns who made a request; operator is its header.
func callerOf(ctx context.Context, operator string) Caller {
	c, ok := ctx.Value(connKey{}).(*roleConn)
	if !ok {
		return Caller{UID: -1, Role: wire.Observe}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	caller := c.caller
	if operator != "" {
		caller.Claimed.Operator = printable(operator)
	}
	return caller
}

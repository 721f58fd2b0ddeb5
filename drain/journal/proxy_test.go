package journal

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between a journal and PostgreSQL and reads the protocol, so that
// a test can cut it at an exact message.
type proxy struct {
	l    net.Listener
	to   string
	wg   sync.WaitGroup
	mu   sync.Mutex
	ends map[net.Conn]bool

	deaf   bool   // drops notifications, as behind a transaction pooler
	commit string // what happens to the next commit: "lose" (its answer), "drop" (the request)
	refuse bool   // takes no new connection after that
}

// through returns a proxy and the URL that leads through it.
func through(t *testing.T, target string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, to: u.Host, ends: map[net.Conn]bool{}}
	u.Host = l.Addr().String()
	p.wg.Go(p.serve)
	t.Cleanup(func() { l.Close(); p.cut(); p.wg.Wait() })
	return p, u.String()
}

func (p *proxy) set(f func(*proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.ends {
		c.Close()
	}
}

func (p *proxy) serve() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", p.to)
		p.mu.Lock()
		if err != nil || p.refuse {
			c.Close()
			if s != nil {
				s.Close()
			}
			p.mu.Unlock()
			continue
		}
		p.ends[c], p.ends[s] = true, true
		p.mu.Unlock()
		lost := make(chan struct{}) // closed: the server's answers go nowhere
		p.wg.Go(func() { p.requests(c, s, lost); c.Close(); s.Close() })
		p.wg.Go(func() { p.answers(c, s, lost); c.Close(); s.Close() })
	}
}

func (p *proxy) requests(c, s net.Conn, lost chan struct{}) {
	head := make([]byte, 4) // the first message has no type
	if _, err := io.ReadFull(c, head); err != nil {
		return
	}
	rest := make([]byte, binary.BigEndian.Uint32(head)-4)
	if _, err := io.ReadFull(c, rest); err != nil {
		return
	}
	if _, err := s.Write(append(head, rest...)); err != nil {
		return
	}
	for {
		msg, err := message(c)
		if err != nil {
			return
		}
		if (msg[0] == 'Q' || msg[0] == 'P') && len(msg) < 40 && bytes.Contains(msg, []byte("commit\x00")) {
			p.mu.Lock()
			what := p.commit
			p.commit = ""
			if what != "" && p.refuse {
				p.l.Close()
			}
			p.mu.Unlock()
			switch what {
			case "drop":
				return
			case "lose":
				close(lost)
			}
		}
		if _, err := s.Write(msg); err != nil {
			return
		}
	}
}

func (p *proxy) answers(c, s net.Conn, lost chan struct{}) {
	for {
		msg, err := message(s)
		if err != nil {
			return
		}
		select {
		case <-lost:
			if msg[0] == 'Z' { // the server is done: now the client loses it
				return
			}
			continue
		default:
		}
		p.mu.Lock()
		deaf := p.deaf
		p.mu.Unlock()
		if msg[0] == 'A' && deaf {
			continue
		}
		if _, err := c.Write(msg); err != nil {
			return
		}
	}
}

func message(r io.Reader) ([]byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	rest := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
	_, err := io.ReadFull(r, rest)
	return append(head, rest...), err
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"ebb/drain"
)

// pageLever moves an HTTP server: it is started elsewhere, and the proxy in front
// of it is told where once that answers.
var pageLever = map[drain.Step]step{
	drain.StepStart: {do: func(l *lever) error {
		if l.target.up() {
			return nil
		}
		_, err := Launch(l.target.Place, l.target.s)
		return err
	}, undo: func(l *lever) error { return l.target.kill() }},
	drain.StepHealth: {do: func(l *lever) error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return Healthy(ctx, l.target.Root, l.target.s.Kind, l.target.s.ID)
	}, undo: nothing},
	drain.StepFlip: {do: func(l *lever) error {
		addr, err := os.ReadFile(portFile(l.target.Root, l.target.s))
		if err != nil {
			return err
		}
		return writeFile(l.shared(".addr"), string(addr))
	}, undo: nothing},
}

// Proxy stands in front of a page: it asks, with every request, where the page is
// now.
type Proxy struct {
	Addr string
	srv  *http.Server
}

// StartProxy serves a page on loopback.
func StartProxy(f *Fleet, s Spec) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	where := shared(f.Dir, fileName(s.Kind+"-"+s.ID)+".addr")
	rp := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		addr, _ := os.ReadFile(where)
		r.Out.URL.Scheme, r.Out.URL.Host = "http", string(addr)
	}}
	p := &Proxy{Addr: l.Addr().String(), srv: &http.Server{Handler: rp, ReadHeaderTimeout: time.Second}}
	go func() { _ = p.srv.Serve(l) }()
	return p, nil
}

// Close ends the proxy.
func (p *Proxy) Close() { _ = p.srv.Close() }

// Load asks for something again and again, and counts.
type Load struct {
	OK, Failed atomic.Int64
	first      atomic.Pointer[error]
	stop       context.CancelFunc
	done       chan struct{}
}

// StartLoad runs a few clients until Stop.
func StartLoad(ctx context.Context, clients int, ask func(ctx context.Context, n int) error) *Load {
	ctx, cancel := context.WithCancel(ctx)
	l := &Load{stop: cancel, done: make(chan struct{})}
	left := atomic.Int64{}
	left.Store(int64(clients))
	for c := range clients {
		go func() {
			for n := c; ; n += clients {
				err := ask(ctx, n)
				switch {
				case ctx.Err() != nil:
				case err != nil:
					l.Failed.Add(1)
					l.first.CompareAndSwap(nil, &err)
				default:
					l.OK.Add(1)
				}
				if !pause(ctx, 5*time.Millisecond) {
					break
				}
			}
			if left.Add(-1) == 0 {
				close(l.done)
			}
		}()
	}
	return l
}

// Stop ends the clients and returns the first failure.
func (l *Load) Stop() error {
	l.stop()
	<-l.done
	if err := l.first.Load(); err != nil {
		return *err
	}
	return nil
}

// getPage asks a proxy for a page and looks that it is the right one.
func getPage(addr, id string) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		switch {
		case err != nil:
			return err
		case resp.StatusCode != http.StatusOK:
			return errors.New(resp.Status)
		case strings.TrimSpace(string(body)) != id:
			return fmt.Errorf("the page says %.40q", body)
		}
		return nil
	}
}

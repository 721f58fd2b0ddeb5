package agent

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"ebb/probes/wire"
)

// longestAnswer is how long the longest answers last.
func longestAnswer() time.Duration {
	if os.Getenv("EBB_LONG") != "" {
		return 90 * time.Second
	}
	return 8 * time.Second
}

// load is clients that each ask again as soon as they have been answered.
type load struct {
	mu     sync.Mutex
	good   map[string]int // by backend
	broken []string
}

// run keeps clients busy until stop is closed; what is in flight then is read to
// its end.
func (l *load) run(ctx context.Context, clients int, longest time.Duration, url string, stop <-chan struct{}) {
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer c.CloseIdleConnections()
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for turn := 0; ; turn++ {
				select {
				case <-stop:
					return
				default:
				}
				d := time.Duration(rand.Int64N(int64(longest / 10))).Truncate(time.Millisecond)
				if i%4 == 0 {
					d = longest
				}
				backend, err := ask(ctx, c, url, d)
				l.mu.Lock()
				if err != nil {
					l.broken = append(l.broken, fmt.Sprintf("%s, %v: %v", backend, d, err))
				} else {
					l.good[backend]++
				}
				l.mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// ask reads one answer to its end and checks that it is whole.
func ask(ctx context.Context, c *http.Client, url string, d time.Duration) (backend string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/stream?for="+d.String(), nil)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", fmt.Errorf("refused: %w", err)
	}
	defer resp.Body.Close()
	backend = resp.Header.Get("X-Backend")
	if resp.StatusCode != http.StatusOK {
		return backend, fmt.Errorf("refused with status %d", resp.StatusCode)
	}
	tokens, last := 0, ""
	for sc := bufio.NewScanner(resp.Body); ; tokens++ {
		if !sc.Scan() {
			err = sc.Err()
			break
		}
		last = sc.Text()
	}
	if want := int(d/piece) + 1; err != nil || last != "end" || tokens != want {
		return backend, fmt.Errorf("cut after %d of %d lines: %v", tokens, want, err)
	}
	return backend, nil
}

func (l *load) served(backend string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.good[backend]
}

// underLoad runs leave while clients ask, and returns how they fared.
func underLoad(t *testing.T, longest time.Duration, leave func(h *servingHost, metrics string, aEnded <-chan struct{})) *load {
	binary, err := exec.LookPath("haproxy")
	if err != nil {
		if binary = "/usr/sbin/haproxy"; exec.Command(binary, "-v").Run() != nil {
			t.Skip("HAProxy is not installed")
		}
	}
	h := newServingHost(t)
	a, aEnded := h.server("a")
	b, _ := h.server("b")
	url := h.proxy(binary, a, b)
	until(t, "both serve", func() bool {
		seen := map[string]bool{}
		for range 4 {
			if backend, err := ask(t.Context(), http.DefaultClient, url, 0); err == nil {
				seen[backend] = true
			}
		}
		return seen["a"] && seen["b"]
	})
	http.DefaultClient.CloseIdleConnections()
	l, stop, done := &load{good: map[string]int{}}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		l.run(context.WithoutCancel(t.Context()), 24, longest, url, stop)
	}()
	finish := sync.OnceFunc(func() { close(stop); <-done })
	defer finish()
	until(t, "both serve under load", func() bool { return l.served("a") > 3 && l.served("b") > 3 })
	ok(t, h.hold())
	leave(h, "http://"+a+"/metrics", aEnded)
	before := l.served("b")
	until(t, "b serves on", func() bool { return l.served("b") > before+5 })
	finish() // what is in flight is still read to its end
	return l
}

// term sends TERM to server a through the agent and waits for its end.
func (h *servingHost) term(ended <-chan struct{}) {
	h.t.Helper()
	f, err := h.op.Facts(h.t.Context(), true)
	ok(h.t, err)
	for _, w := range f.Workloads.Value {
		if w.Key.ID == "a" {
			h.act(wire.ActRequest{ID: "term", Kind: wire.ActSignal, Signal: "TERM", Runs: w.Runs}, func(wire.ActReply) {})
			select {
			case <-ended:
			case <-time.After(30 * time.Second):
				h.t.Fatal("server a does not end")
			}
			return
		}
	}
	h.t.Fatalf("server a is not among %+v", f.Workloads)
}

func TestNoAnswerIsCutAndNoneRefused(t *testing.T) {
	longest, most := longestAnswer(), 0.0
	l := underLoad(t, longest, func(h *servingHost, metrics string, ended <-chan struct{}) {
		h.act(wire.ActRequest{ID: "ready-off", Kind: wire.ActExec, Command: "not-ready"}, func(wire.ActReply) {})
		reply := h.act(wire.ActRequest{
			ID: "quiet", Kind: wire.ActQuiet, URL: metrics, Gauges: []string{"requests_running", "requests_waiting"},
			Window: 2 * time.Second, Timeout: 3 * longest,
		}, func(r wire.ActReply) {
			if r.Progress != nil {
				most = max(most, r.Progress.InFlight)
			}
		})
		t.Logf("in flight at most %v; %s", most, reply.Detail)
		h.term(ended)
	})
	if most == 0 {
		t.Error("nothing was ever in flight: this shows nothing")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.broken {
		t.Errorf("broken: %s", b)
	}
	t.Logf("answered whole: %v", l.good)
}

// The same without waiting breaks answers: the test above can fail.
func TestWithoutWaitingAnswersAreCut(t *testing.T) {
	l := underLoad(t, 3*time.Second, func(h *servingHost, _ string, ended <-chan struct{}) { h.term(ended) })
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.broken) == 0 {
		t.Errorf("nothing was cut: %v", l.good)
	}
}

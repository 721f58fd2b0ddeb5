package agent

import (
	"net/http"
	"os"
	"testing"
	"time"

	"ebb/demo/balancer"
	"ebb/probes/wire"
)

// longestAnswer is how long the longest answers last.
func longestAnswer() time.Duration {
	if os.Getenv("EBB_LONG") != "" {
		return 90 * time.Second
	}
	return 8 * time.Second
}

// underLoad runs leave while clients ask, and returns how they fared.
func underLoad(t *testing.T, longest time.Duration, leave func(h *servingHost, metrics string, aEnded <-chan struct{})) *balancer.Load {
	h := newServingHost(t)
	a, aEnded := h.server("a")
	b, _ := h.server("b")
	proxy := balancer.Start(t, h.dir, balancer.Server{Name: "a", Address: a}, balancer.Server{Name: "b", Address: b})
	until(t, "both serve", func() bool {
		seen := map[string]bool{}
		for range 4 {
			if backend, err := balancer.Ask(t.Context(), http.DefaultClient, proxy.URL, 0, piece); err == nil {
				seen[backend] = true
			}
		}
		return seen["a"] && seen["b"]
	})
	http.DefaultClient.CloseIdleConnections()
	l := balancer.Begin(proxy.URL, 24, longest, piece)
	defer l.Stop()
	until(t, "both serve under load", func() bool { return l.Count("a") > 3 && l.Count("b") > 3 })
	ok(t, h.hold())
	leave(h, "http://"+a+"/metrics", aEnded)
	before := l.Count("b")
	until(t, "b serves on", func() bool { return l.Count("b") > before+5 })
	l.Stop() // what is in flight is still read to its end
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
	for _, b := range l.Broken() {
		t.Errorf("broken: %s", b)
	}
	t.Logf("answered whole: %v", l.Whole())
}

// The same without waiting breaks answers: the test above can fail.
func TestWithoutWaitingAnswersAreCut(t *testing.T) {
	l := underLoad(t, 3*time.Second, func(h *servingHost, _ string, ended <-chan struct{}) { h.term(ended) })
	if len(l.Broken()) == 0 {
		t.Errorf("nothing was cut: %v", l.Whole())
	}
}

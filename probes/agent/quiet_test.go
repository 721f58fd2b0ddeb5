package agent

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/probes/client"
	"ebb/probes/wire"
)

const gauges = "# TYPE run gauge\nrun{m=\"a\"} %d\nrun{m=\"b\"} 0\n# HELP wait waiting\nwait 0\nother NaN\n"

// serving is a server whose /metrics answers with what a test stores.
func serving(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL + "/metrics"
}

func quietOf(id, url string) wire.ActRequest {
	return wire.ActRequest{
		ID: id, Drain: "d1", Epoch: 1, Machine: testMachine, Kind: wire.ActQuiet, Key: fleet.Key{Kind: "service", ID: "web-7"},
		URL: url, Gauges: []string{"run", "wait"}, Window: 600 * time.Millisecond, Timeout: 20 * time.Second,
	}
}

func quietRig(t *testing.T) *rig {
	r := newRig(t, func(c *Config) { c.Clock = SystemClock{} })
	ok(t, r.drain("d1", 1))
	return r
}

func TestQuietTellsWhatIsInFlightAndEndsOnceNothingIs(t *testing.T) {
	var flying, reads atomic.Int64
	flying.Store(31)
	r := quietRig(t)
	url := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		reads.Add(1)
		fmt.Fprintf(w, gauges, flying.Load())
	})
	op := r.dial(wire.Operate)
	_, err := op.Act(t.Context(), quietOf("q1", url))
	ok(t, err)
	seen := func(text string) func() bool {
		return func() bool {
			reply, err := op.Follow(t.Context(), "q1", 0)
			ok(t, err)
			return reply.State == wire.ActBegun && reply.Detail == text && reply.Progress != nil && reply.Progress.Was == 31
		}
	}
	until(t, "31 of 31", seen("31 requests in flight, was 31"))
	flying.Store(7)
	until(t, "7 of 31", seen("7 requests in flight, was 31"))
	before := reads.Load()
	flying.Store(0)
	reply, err := op.Follow(t.Context(), "q1", time.Minute)
	ok(t, err)
	if !reply.OK || reply.Progress.InFlight != 0 || reply.Progress.Zero < 600*time.Millisecond || reads.Load()-before < 3 {
		t.Fatalf("%+v after %d readings", reply, reads.Load()-before)
	}
}

// What can't be read is never zero, however long it lasts.
func TestWhatIsNotKnownIsNotQuiet(t *testing.T) {
	r := quietRig(t)
	elsewhere := serving(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, gauges, 0) })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	ok(t, closed.Close())
	text := func(s string) string {
		return serving(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s) })
	}
	for name, c := range map[string]struct{ url, why string }{
		"nobody listens":  {"http://" + closed.Addr().String() + "/metrics", "unreachable: connect: connection refused"},
		"redirected":      {serving(t, func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, elsewhere, http.StatusFound) }), "status 302"},
		"an error":        {serving(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret", http.StatusServiceUnavailable) }), "status 503"},
		"one is missing":  {text("run 0\n"), "gauge wait is missing"},
		"NaN":             {text("run 0\nwait NaN\n"), "gauge wait has a sample of NaN"},
		"infinite":        {text("run 0\nwait +Inf\n"), "sample of +Inf"},
		"they cancel out": {text("run 1\nwait -1\n"), "sample of -1"},
		"a counter":       {text("run 0\n# TYPE wait counter\nwait 0\n"), "wait is no gauge"},
		"malformed":       {text("run 0\nwait 0\nsecret token here\n"), "line 3 is not Prometheus text"},
		"cut":             {text("run 0\nwait 0"), "is not Prometheus text"},
		"empty":           {text(""), "gauge run is missing"},
		"cut by length": {serving(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "run 0\nwait 0\n")
		}), "it ended too early"},
		"endless": {serving(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "run 0\nwait 0\n")
			for range 40 {
				fmt.Fprintln(w, "#"+strings.Repeat("x", 64<<10))
			}
		}), "larger than 1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			req := quietOf("q-"+strings.ReplaceAll(name, " ", "-"), c.url)
			req.Window, req.Timeout = time.Nanosecond, 700*time.Millisecond
			reply, err := r.act(req)
			failed(t, reply, err, wire.ReasonUnknown)
			if !strings.Contains(reply.Reason.Args["error"], c.why) || strings.Contains(reply.Detail, "secret") {
				t.Fatalf("%+v", reply)
			}
		})
	}
}

func TestASilentServerIsUnknown(t *testing.T) {
	block := make(chan struct{})
	url := serving(t, func(_ http.ResponseWriter, q *http.Request) {
		select {
		case <-block:
		case <-q.Context().Done():
		}
	})
	t.Cleanup(func() { close(block) })
	_, err := readGauges(t.Context(), gaugeReader(), url, []string{"run"})
	if err == nil || !strings.Contains(err.Error(), "no answer within 2s") {
		t.Fatal(err)
	}
}

// Quiet that is broken, by a request or by a reading that failed, begins anew.
func TestABreakBeginsTheWindowAnew(t *testing.T) {
	r := quietRig(t)
	var n atomic.Int64
	url := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		switch i := n.Add(1); {
		case i == 3:
			http.Error(w, "", 500)
		case i == 6:
			fmt.Fprintf(w, gauges, 1)
		default:
			fmt.Fprintf(w, gauges, 0)
		}
	})
	reply, err := r.act(quietOf("q1", url))
	ok(t, err)
	if !reply.OK || n.Load() < 6+3 {
		t.Fatalf("%+v after %d readings", reply, n.Load())
	}
}

func TestQuietGivesUpWhileBusy(t *testing.T) {
	r := quietRig(t)
	req := quietOf("q1", serving(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, gauges, 2) }))
	req.Timeout = 600 * time.Millisecond
	reply, err := r.act(req)
	failed(t, reply, err, wire.ReasonBusy)
	if reply.Reason.Args["in_flight"] != "2" || reply.Detail != "2 requests in flight, was 2" {
		t.Fatalf("%+v", reply)
	}
}

func TestQuietLooksAtThisHostOnly(t *testing.T) {
	r := quietRig(t)
	for _, url := range []string{
		"", "127.0.0.1:80", "https://127.0.0.1/", "http://127.0.0.1.evil.example/", "http://192.0.2.1/", "http://169.254.169.254/",
		"http://0.0.0.0/", "http://[::]/", "http://[::ffff:127.0.0.1]/", "http://[::1%25lo]/", "http://user:pw@127.0.0.1/", "http://localhost.example/",
		"http://127.1/", "http://2130706433/", "unix:///run/x", "http:127.0.0.1", "http://127.0.0.1:0/", "http://127.0.0.1:99999/", "http://127.0.0.1\n/",
		"http://127.0.0.1/" + strings.Repeat("x", 3000),
	} {
		_, err := r.act(quietOf("q1", url))
		code(t, err, wire.CodeBadRequest)
	}
	for _, url := range []string{"http://127.0.0.1/m", "http://127.200.3.4:8000/m?x=1", "http://[::1]:8000/", "http://localhost:8000/metrics"} {
		if err := checkLoopback(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	good := "http://127.0.0.1:1/"
	for name, change := range map[string]func(*wire.ActRequest){
		"no gauges":       func(q *wire.ActRequest) { q.Gauges = nil },
		"a strange gauge": func(q *wire.ActRequest) { q.Gauges = []string{"run", "a b"} },
		"twice":           func(q *wire.ActRequest) { q.Gauges = []string{"run", "run"} },
		"no drain":        func(q *wire.ActRequest) { q.Drain = "" },
		"negative":        func(q *wire.ActRequest) { q.Window = -1 },
		"for ever":        func(q *wire.ActRequest) { q.Timeout = 25 * time.Hour },
	} {
		req := quietOf("q1", good)
		change(&req)
		if _, err := r.act(req); !client.HasCode(err, wire.CodeBadRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestQuietNeedsTheHoldToItsEnd(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Clock = SystemClock{} })
	url := serving(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, gauges, 1) })
	_, err := r.act(quietOf("q1", url))
	code(t, err, wire.CodeNotHeld)
	ok(t, r.drain("d1", 1))
	op := r.dial(wire.Operate)
	_, err = op.Act(t.Context(), quietOf("q2", url))
	ok(t, err)
	other := quietOf("q2", url)
	other.Gauges = []string{"run"}
	_, err = op.Act(t.Context(), other)
	code(t, err, wire.CodeBadRequest)
	// Another act runs beside it, and a newer driver takes it over.
	reply, err := r.act(func() wire.ActRequest {
		q := quietOf("q3", serving(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, gauges, 0) }))
		q.Epoch = 2
		return q
	}())
	ok(t, err)
	if !reply.OK {
		t.Fatalf("%+v", reply)
	}
	if reply, err = op.Follow(t.Context(), "q2", 0); err != nil || reply.State != wire.ActBegun {
		t.Fatalf("%+v %v", reply, err)
	}
	_, err = op.Undrain(t.Context(), wire.LiftRequest{Who: "ann", Drain: "d1"})
	ok(t, err)
	reply, err = op.Follow(t.Context(), "q2", time.Minute)
	failed(t, reply, err, wire.CodeNotHeld)
}

func TestARestartInterruptsQuiet(t *testing.T) {
	r := quietRig(t)
	_, err := r.dial(wire.Operate).Act(t.Context(), quietOf("q1", "http://127.0.0.1:1/"))
	ok(t, err)
	r.restart()
	reply, err := r.dial(wire.Observe).Follow(t.Context(), "q1", time.Second)
	ok(t, err)
	if reply.State != wire.ActInterrupted {
		t.Fatalf("%+v", reply)
	}
}

// Readiness is switched off on the host that drains, by a command of its own.
func TestACommandRunsUnderTheDrainsOwnHold(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Commands = map[string]config.Command{"not-ready": {Run: []string{script(t, "echo off")}}}
	})
	r.cordon()
	ok(t, r.drain("d1", 1))
	reply, err := r.act(execOf("e1", "not-ready"))
	ok(t, err)
	if !reply.OK || reply.Output != "off\n" {
		t.Fatalf("%+v", reply)
	}
	other := execOf("e2", "not-ready")
	other.Drain = "d2"
	_, err = r.act(other)
	code(t, err, wire.CodeOtherDrain)
}

// However readings come, quiet is declared only where every reading in a row
// was zero, none further apart than the gap, over at least the window.
func TestStillnessIsNeverDeclaredTooEarly(t *testing.T) {
	const window = 5 * time.Second
	rapid.Check(t, func(t *rapid.T) {
		type reading struct {
			sum          float64
			err          error
			begun, ended time.Duration
		}
		var s stillness
		var past []reading
		at := time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "readings") {
			q := reading{begun: at + time.Duration(rapid.IntRange(0, 700).Draw(t, "wait"))*time.Millisecond}
			q.ended = q.begun + time.Duration(rapid.IntRange(0, 300).Draw(t, "took"))*time.Millisecond
			switch rapid.IntRange(0, 30).Draw(t, "kind") {
			case 0:
				q.sum = 3
			case 1:
				q.err = errors.New("unreachable")
			}
			at, past = q.ended, append(past, q)
			s = s.next(q.sum, q.err, q.begun, q.ended)
			// The longest tail of good readings without a gap, told independently.
			first := len(past)
			for i := len(past) - 1; i >= 0 && past[i].sum == 0 && past[i].err == nil; i-- {
				first = i
				if i > 0 && past[i].begun-past[i-1].ended > quietGap {
					break
				}
			}
			want := time.Duration(0)
			if first < len(past)-1 {
				want = max(0, q.begun-past[first].ended)
			}
			if got := s.quiet && s.zero >= window; got != (want >= window) {
				t.Fatalf("declared %v, but it has been quiet for %v", got, want)
			}
		}
	})
}

func FuzzGauges(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(gauges, 3)), "run")
	f.Add([]byte("# TYPE run histogram\nrun_bucket{le=\"1\"} 1\nrun_sum 1\nrun_count 1\n"), "run")
	f.Add([]byte("{\"run\",a=\"\\n\"} 0x1p-2 17\n"), "run")
	f.Add([]byte("run 1e308\nrun 1e308\n"), "run")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		sum, err := sumGauges(text, []string{name})
		if err == nil && !(sum >= 0) {
			t.Fatalf("sum %v", sum)
		}
		if err == nil && !strings.Contains(string(text), name) && !strings.Contains(string(text), `\`) {
			t.Fatalf("%q is not in the text and was read as %v", name, sum)
		}
	})
}

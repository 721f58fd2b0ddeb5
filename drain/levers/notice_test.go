package levers_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ebb/drain"
	"ebb/drain/levers"
	"ebb/fleet"
)

func noticeJob() drain.Job {
	k := fleet.Key{Kind: "vm", ID: "7"}
	return drain.Job{Drain: "d", Epoch: 3, Source: fleet.Host{ID: "p/h"}, Reason: "kernel", By: "ann",
		Act:  drain.Act{ID: "d/vm/7/notice/1", Kind: drain.ActNotice, Key: k, At: time.Unix(1000, 0)},
		Item: drain.Item{Found: drain.Found{Key: k, Owner: "search", Class: fleet.Stuck, Budget: fleet.Budget{Grace: time.Minute}}}}
}

func send(t *testing.T, rs ...levers.Receiver) drain.Answer {
	t.Helper()
	a, err := levers.Notice{Receivers: rs, Timeout: 2 * time.Second}.Do(t.Context(), noticeJob())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWebhook(t *testing.T) {
	got := make(chan levers.NoticeBody, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /ok", func(_ http.ResponseWriter, r *http.Request) {
		var n levers.NoticeBody
		_ = json.NewDecoder(r.Body).Decode(&n)
		got <- n
	})
	mux.HandleFunc("/fails", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	mux.HandleFunc("/hangs", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees the client go
		<-r.Context().Done()
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/page", http.StatusFound) })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/loop", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("GET /page", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < 1<<20; i++ {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	hook := func(path string) levers.Webhook { return levers.Webhook{URL: srv.URL + path, Client: srv.Client()} }
	if a := send(t, hook("/ok")); a.Result != drain.Done {
		t.Errorf("%+v", a)
	}
	if n := <-got; n.Owner != "search" || n.Host != "p/h" || n.Grace != "1m0s" || n.By != "ann" || !n.TermAt.Equal(time.Unix(1000, 0)) {
		t.Errorf("body %+v", n)
	}
	for path, want := range map[string]string{"/fails": "500", "/hangs": "deadline", "/moved": "302", "/loop": "307", "/none": "404"} {
		if a := send(t, hook(path)); a.Result != drain.FailedAct || !strings.Contains(a.Detail, want) {
			t.Errorf("%s: %+v", path, a)
		}
	}
	if a := send(t, hook("/endless")); a.Result != drain.Done {
		t.Errorf("an answer without end: %+v", a)
	}
	began := time.Now()
	a := send(t, hook("/hangs"), hook("/hangs"), hook("/ok"))
	if a.Result != drain.Done || !strings.Contains(a.Detail, "1 of 3") || time.Since(began) > 5*time.Second {
		t.Errorf("several receivers: %+v after %v", a, time.Since(began))
	}
	<-got
	a = send(t, levers.Webhook{URL: "http://127.0.0.1:1/services/T0/secret"})
	if a.Result != drain.FailedAct || strings.Contains(a.Detail, "secret") {
		t.Errorf("the URL may be a secret: %+v", a)
	}
	if a := send(t); a.Result != drain.Done || a.Detail == "" || a.Reason.Code != drain.Untold {
		t.Errorf("nobody to tell: %+v", a)
	}
	if _, known, err := (levers.Notice{}).Status(t.Context(), noticeJob()); known || err != nil {
		t.Errorf("a notice may repeat: %v, %v", known, err)
	}
}

func shell(script string) levers.Command { return levers.Command{Run: []string{"sh", "-c", script}} }

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if a := send(t, shell("cat > "+in)); a.Result != drain.Done {
		t.Fatalf("%+v", a)
	}
	var n levers.NoticeBody
	raw, _ := os.ReadFile(in)
	if err := json.Unmarshal(raw, &n); err != nil || n.ID != "7" {
		t.Errorf("%v, %s", err, raw)
	}
	if a := send(t, shell("true")); a.Result != drain.Done {
		t.Errorf("one that reads nothing: %+v", a)
	}
	a := send(t, shell("yes noise | head -c 1000000 >&2; echo the end >&2; exit 3"))
	if a.Result != drain.FailedAct || !strings.Contains(a.Detail, "exit status 3") || !strings.HasSuffix(a.Detail, "the end") || len(a.Detail) > 1200 {
		t.Errorf("noisy: %d bytes, …%s", len(a.Detail), a.Detail[max(0, len(a.Detail)-40):])
	}
	for _, c := range []levers.Command{{}, {Run: []string{filepath.Join(dir, "none")}}} {
		if a := send(t, c); a.Result != drain.FailedAct {
			t.Errorf("%v: %+v", c, a)
		}
	}
}

// A command that hangs is ended with everything it has started.
func TestHangingCommandEndsWithItsChildren(t *testing.T) {
	pidfile := filepath.Join(t.TempDir(), "pid")
	began := time.Now()
	a := send(t, shell("sleep 300 & echo $! > "+pidfile+"; wait"))
	if a.Result != drain.FailedAct || time.Since(began) > 10*time.Second {
		t.Fatalf("%+v after %v", a, time.Since(began))
	}
	raw, err := os.ReadFile(pidfile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("its child %d still runs: %s", pid, stat)
		}
	}
}

// What a command leaves in the background does not make the notice refused.
func TestCommandWithBackground(t *testing.T) {
	began := time.Now()
	if a := send(t, shell("sleep 5 & exit 0")); a.Result != drain.Done || time.Since(began) > 4*time.Second {
		t.Errorf("%+v after %v", a, time.Since(began))
	}
}

type mover struct{ moved []string }

func (m *mover) Move(_ context.Context, k fleet.Key, from, to fleet.HostID) error {
	if to == "p/full" {
		return errors.New("no room")
	}
	m.moved = append(m.moved, k.String()+" "+string(from)+" "+string(to))
	return nil
}

func TestFlip(t *testing.T) {
	j := noticeJob()
	j.Act = drain.Act{ID: "f", Kind: drain.ActFlip, Key: j.Item.Key, Target: "p/t"}
	m := &mover{}
	flip := levers.Flip{Plane: func(fleet.HostID) (any, error) { return m, nil }}
	if a, err := flip.Do(t.Context(), j); err != nil || a.Result != drain.Done || len(m.moved) != 1 || m.moved[0] != "vm/7 p/h p/t" {
		t.Errorf("%v, %+v, %v", err, a, m.moved)
	}
	again := j
	again.Item.FlippedTo = "p/lost" // a host that is gone since
	if _, err := flip.Do(t.Context(), again); err != nil || m.moved[len(m.moved)-1] != "vm/7 p/lost p/t" {
		t.Errorf("%v, %+v", err, m.moved)
	}
	again.Item.FlippedTo = "p/t"
	if _, err := flip.Do(t.Context(), again); err != nil || m.moved[len(m.moved)-1] != "vm/7 p/h p/t" {
		t.Errorf("repeated: %v, %+v", err, m.moved)
	}
	j.Act.Target = "p/full"
	if _, err := flip.Do(t.Context(), j); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("got %v", err)
	}
	none := levers.Flip{Plane: func(fleet.HostID) (any, error) { return struct{}{}, nil }}
	if a, err := none.Do(t.Context(), j); err != nil || a.Result != drain.Done || a.Detail == "" {
		t.Errorf("no claims to move: %v, %+v", err, a)
	}
	away := levers.Flip{Plane: func(fleet.HostID) (any, error) { return nil, errors.New("away") }}
	if _, err := away.Do(t.Context(), j); err == nil {
		t.Error("no plane, and no error")
	}
}

// wireAgents records what agents are asked.
type wireAgents struct {
	calls    []string
	announce error
}

func (w *wireAgents) Act(_ context.Context, h fleet.HostID, machine string, _ drain.Job) (drain.Answer, error) {
	w.calls = append(w.calls, "act "+string(h)+" "+machine)
	return drain.Answer{Result: drain.Done}, nil
}

func (w *wireAgents) Outcome(_ context.Context, h fleet.HostID, id string) (drain.Answer, bool, error) {
	w.calls = append(w.calls, "outcome "+string(h)+" "+id)
	return drain.Answer{Result: drain.Done}, true, nil
}

func (w *wireAgents) Announce(_ context.Context, h fleet.HostID, d string, epoch uint64) error {
	w.calls = append(w.calls, "announce "+string(h)+" "+d+" "+strconv.FormatUint(epoch, 10))
	return w.announce
}

func TestActsGoWhereTheyBelong(t *testing.T) {
	w := &wireAgents{}
	j := noticeJob()
	j.Machine = "m"
	_, _ = levers.Signal{Agents: w}.Do(t.Context(), j)
	_, _, _ = levers.Signal{Agents: w}.Status(t.Context(), j)
	if _, err := (levers.Exec{Agents: w}).Do(t.Context(), j); err == nil {
		t.Error("a command without a target ran somewhere")
	}
	j.Act.Target = "p/t"
	_, _ = levers.Exec{Agents: w}.Do(t.Context(), j)
	_, _, _ = levers.Exec{Agents: w}.Status(t.Context(), j)
	want := "act p/h m; outcome p/h d/vm/7/notice/1; announce p/t d 3; act p/t ; outcome p/t d/vm/7/notice/1"
	if got := strings.Join(w.calls, "; "); got != want {
		t.Errorf("calls %s", got)
	}
	// Nothing runs on a target that has met a newer driver, and the driver learns why.
	w = &wireAgents{announce: drain.ErrLeaseLost}
	if _, err := (levers.Exec{Agents: w}).Do(t.Context(), j); !errors.Is(err, drain.ErrLeaseLost) || len(w.calls) != 1 {
		t.Errorf("%v, calls %v", err, w.calls)
	}
}

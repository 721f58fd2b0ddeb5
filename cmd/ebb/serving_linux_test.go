package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ebb/demo"
	"ebb/demo/balancer"
	"ebb/drain"
	"ebb/fleet"
)

// A server of long answers leaves a host through "ebb drain", behind a real
// HAProxy with health checks, under load all the while: its replacement is
// started and has to be seen by the proxy, the claim moves, the old one says that
// it wants no traffic, its agent waits until nothing is in flight, and only then
// it is told to end. No answer is cut, and none refused.

var chat = demo.Spec{Kind: "llm", ID: "chat", Class: fleet.Stateless, Owner: "search", Serve: true}

// longestAnswer is how long the longest answers last.
func longestAnswer() time.Duration {
	if os.Getenv("EBB_LONG") != "" {
		return 90 * time.Second
	}
	return 10 * time.Second
}

// servingRig is a fleet of three hosts with the server on the first.
type servingRig struct {
	t     *testing.T
	fleet *demo.Fleet
	proxy *balancer.Proxy
}

func newServingRig(t *testing.T, rule string) *servingRig {
	t.Helper()
	dir, err := os.MkdirTemp("", "ebb-serving-") // short: sockets lie below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f, err := demo.Start(t.Context(), demo.Options{Hosts: 3, Speed: 20, Dir: dir, Exe: filepath.Join(programs, "ebb"), Agent: filepath.Join(programs, "ebbd")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Stop)
	r := &servingRig{t: t, fleet: f}
	if err := f.Platform.RunOn(t.Context(), f.Hosts[0], chat); err != nil {
		t.Fatal(err)
	}
	var addr string
	r.until("the server is up", func() (ok bool) {
		addr, err = demo.Address(f.Hosts[0].Dir, chat)
		return err == nil
	})
	// Every host is a place where the server may be.
	var places []balancer.Server
	for _, h := range f.Hosts {
		places = append(places, balancer.Server{Name: h.Name, Address: "unix@" + demo.Socket(h.Dir, chat)})
	}
	r.proxy = balancer.Start(t, f.Dir, places...)
	r.configure(addr, rule)
	r.until("the proxy knows where it is, and where it is not", r.known)
	return r
}

// known reports whether the proxy has the first host as the only one that is up.
func (r *servingRig) known() bool {
	up, err := r.proxy.Up(r.t.Context())
	return err == nil && slices.Equal(up, []string{r.fleet.Hosts[0].Name})
}

func (r *servingRig) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%s: it has not come about", what)
		}
	}
}

// configure adds the rule of the server to the fleet's configuration, and a lever
// that calls a replacement healthy only when the proxy does.
func (r *servingRig) configure(addr, rule string) {
	_, port, _ := strings.Cut(strings.TrimPrefix(r.proxy.URL, "http://"), ":")
	lever := filepath.Join(r.fleet.Dir, "proxy-lever.sh")
	script := fmt.Sprintf(`#!/bin/bash
in=$(cat)
out=$(%q demo-lever page --dir %q <<<"$in") || exit
if [[ $in == *'"op":"do"'*'"step":"health"'* && $out == *'"result":"done"'* ]]; then
	target=${in##*'"target":{"id":"demo/'}
	target=${target%%%%'"'*}
	exec 3<>/dev/tcp/127.0.0.1/%s
	printf 'GET /stats;csv HTTP/1.0\r\n\r\n' >&3
	grep -q "^servers,$target,.*,UP," <&3 || out='{"result":"wait","reason":"the proxy does not see it yet"}'
fi
printf '%%s\n' "$out"
`, r.fleet.Exe, r.fleet.Dir, port)
	more := fmt.Sprintf(`
[[lever]]
name    = "proxy"
run     = [%q]
timeout = "1m"
steps   = ["start", "health", "flip"]

[[class]]
match = { kind = "llm" }
class = "stateless"
lever = "proxy"
move  = "25m"
grace = "3m"
%s
`, lever, strings.ReplaceAll(rule, "ADDR", addr))
	raw, err := os.ReadFile(r.fleet.Config())
	if err == nil {
		err = errors.Join(os.WriteFile(lever, []byte(script), 0o700), os.WriteFile(r.fleet.Config(), append(raw, more...), 0o600))
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// drained runs "ebb drain" on the first host while clients ask, and returns how
// they fared and what the drain said.
func (r *servingRig) drained(longest time.Duration) (*balancer.Load, string) {
	src := r.fleet.Hosts[0]
	l := balancer.Begin(r.proxy.URL, 18, longest, demo.StreamEvery)
	defer l.Stop()
	r.until("the old one serves under load", func() bool { return l.Count(src.Name) > 8 })
	cmd := exec.CommandContext(r.t.Context(), r.fleet.Exe, "drain", src.Name, "--deadline", (2*time.Minute + 4*longest).String(), "--for", "kernel")
	cmd.Env = append(os.Environ(), "EBB_CONFIG="+r.fleet.Config(), "EBB_OPERATOR=mira", "XDG_STATE_HOME="+filepath.Join(r.fleet.Dir, "state"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Errorf("drain: %v\n%s", err, out)
	}
	r.until("the new one serves on", func() bool { return len(r.others(l)) > 0 && l.Count(r.others(l)[0]) > 6 })
	l.Stop()
	return l, string(out)
}

// others are the hosts besides the first that have given answers.
func (r *servingRig) others(l *balancer.Load) []string {
	whole := l.Whole()
	delete(whole, r.fleet.Hosts[0].Name)
	return slices.Collect(maps.Keys(whole))
}

func TestServingLeavesWhole(t *testing.T) {
	r := newServingRig(t, `readiness = "unready"
in_flight = { url = "http://ADDR/metrics", gauge = ["requests_running", "requests_waiting"], window = "20s" }`)
	longest := longestAnswer()
	l, out := r.drained(longest)
	for _, b := range l.Broken() {
		t.Errorf("broken: %s", b)
	}
	if len(r.others(l)) != 1 {
		t.Errorf("answers came from %v", l.Whole())
	}
	t.Logf("whole: %v, broken: %d, longest %s", l.Whole(), len(l.Broken()), longest)
	st := r.state()
	it := st.Items[chat.Key()]
	if st.Phase != drain.Empty || it.End != drain.LeftHost || it.EndBy != "lever" {
		t.Fatalf("%s, %+v\n%s", st.Phase, it, out)
	}
	order := []time.Time{it.StartedAt, it.HealthyAt, it.FlippedAt, it.UnreadyAt, it.QuietAt, it.TermAt}
	for i, at := range order {
		if at.IsZero() || i > 0 && at.Before(order[i-1]) {
			t.Errorf("started, healthy, flipped, unready, quiet, TERM: %v", order)
			break
		}
	}
	if !it.KillAt.IsZero() {
		t.Error("it was killed")
	}
}

// The same without readiness and gauges cuts answers: the test above can fail.
func TestServingWithoutWaitingIsCut(t *testing.T) {
	r := newServingRig(t, "")
	l, _ := r.drained(5 * time.Second)
	if len(l.Broken()) == 0 {
		t.Errorf("nothing was cut: %v", l.Whole())
	}
}

// state is the drain of the first host as the board tells it.
func (r *servingRig) state() drain.State {
	r.t.Helper()
	cmd := exec.Command(r.fleet.Exe, "board", r.fleet.Hosts[0].Name, "-o", "json")
	cmd.Env = append(os.Environ(), "EBB_CONFIG="+r.fleet.Config(), "XDG_STATE_HOME="+filepath.Join(r.fleet.Dir, "state"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		r.t.Fatalf("board: %v %s", err, errs.String())
	}
	var st drain.State
	if err := json.Unmarshal(out.Bytes(), &st); err != nil {
		r.t.Fatalf("%v\n%s", err, out.String())
	}
	return st
}

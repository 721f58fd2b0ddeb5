package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ebb/demo"
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
	url   string // of the proxy
}

func newServingRig(t *testing.T, rule string) *servingRig {
	t.Helper()
	haproxy, err := exec.LookPath("haproxy")
	if err != nil {
		if haproxy = "/usr/sbin/haproxy"; exec.Command(haproxy, "-v").Run() != nil {
			t.Skip("HAProxy is not installed")
		}
	}
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
	r.proxy(haproxy)
	r.configure(addr, rule)
	r.until("the proxy knows where it is, and where it is not", r.known)
	return r
}

// known reports whether the proxy has the first host as the only one that is up:
// before its first checks it takes every host for one.
func (r *servingRig) known() bool {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.url+"/stats;csv", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	up := []string{}
	for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
		f := strings.Split(sc.Text(), ",") // backend, server, …, status
		if len(f) > 17 && f[0] == "servers" && f[1] != "BACKEND" && !strings.HasPrefix(f[17], "DOWN") {
			up = append(up, f[1])
		}
	}
	return len(up) == 1 && up[0] == r.fleet.Hosts[0].Name
}

func (r *servingRig) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%s: it has not come about", what)
		}
	}
}

// proxy starts HAProxy on a socket that is already open. It knows every host as
// a place where the server may be.
func (r *servingRig) proxy(binary string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		r.t.Fatal(err)
	}
	defer file.Close()
	text := `global
  maxconn 1000
defaults
  mode http
  retries 0
  timeout connect 10s
  timeout client 300s
  timeout server 300s
  timeout check 10s
frontend in
  bind fd@3
  stats enable
  stats uri /stats
  default_backend servers
backend servers
  balance roundrobin
  option httpchk GET /health
  default-server inter 200ms fall 2 rise 1
`
	for _, h := range r.fleet.Hosts {
		text += fmt.Sprintf("  server %s unix@%s check\n", h.Name, demo.Socket(h.Dir, chat))
	}
	conf := filepath.Join(r.fleet.Dir, "haproxy.cfg")
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(binary, "-db", "-q", "-f", conf)
	cmd.ExtraFiles, cmd.Stderr = []*os.File{file}, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	r.url = "http://" + l.Addr().String()
}

// configure adds the rule of the server to the fleet's configuration, and a lever
// that calls a replacement healthy only when the proxy does.
func (r *servingRig) configure(addr, rule string) {
	_, port, _ := strings.Cut(strings.TrimPrefix(r.url, "http://"), ":")
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

// ask reads one answer to its end, and says which host gave it.
func (r *servingRig) ask(ctx context.Context, c *http.Client, d time.Duration) (host string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/stream?for="+d.String(), nil)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", fmt.Errorf("refused: %w", err)
	}
	defer resp.Body.Close()
	host = resp.Header.Get("X-Host")
	if resp.StatusCode != http.StatusOK {
		return host, fmt.Errorf("refused: %s", resp.Status)
	}
	lines, last := 0, ""
	sc := bufio.NewScanner(resp.Body)
	for sc.Scan() {
		lines, last = lines+1, sc.Text()
	}
	if want := int(d/demo.StreamEvery) + 1; sc.Err() != nil || last != "end" || lines != want {
		return host, fmt.Errorf("cut after %d of %d lines: %w", lines, want, sc.Err())
	}
	return host, nil
}

// served counts answers.
type served struct {
	mu     sync.Mutex
	whole  map[string]int // by host
	broken []string
}

func (s *served) count(host string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whole[host]
}

// load keeps clients asking until the returned function is called, which waits for
// what is in flight then: a third of them for the longest answer, others for short
// ones.
func (r *servingRig) load(clients int, longest time.Duration) (*served, func()) {
	s, stop := &served{whole: map[string]int{}}, make(chan struct{})
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for turn := 0; ; turn++ {
				select {
				case <-stop:
					return
				default:
				}
				d := time.Duration(turn%10) * longest / 50
				if i%3 == 0 {
					d = longest
				}
				host, err := r.ask(context.Background(), c, d)
				s.mu.Lock()
				if err != nil {
					s.broken = append(s.broken, fmt.Sprintf("%s, %s: %v", host, d, err))
				} else {
					s.whole[host]++
				}
				s.mu.Unlock()
				if err != nil {
					time.Sleep(100 * time.Millisecond) // no storm of what is refused
				}
			}
		})
	}
	end := sync.OnceFunc(func() { close(stop); wg.Wait(); c.CloseIdleConnections() })
	r.t.Cleanup(end)
	return s, end
}

// drained runs "ebb drain" on the first host while clients ask, and returns how
// they fared and what the drain said.
func (r *servingRig) drained(longest time.Duration) (*served, string) {
	src := r.fleet.Hosts[0]
	s, end := r.load(18, longest)
	r.until("the old one serves under load", func() bool { return s.count(src.Name) > 8 })
	cmd := exec.CommandContext(r.t.Context(), r.fleet.Exe, "drain", src.Name, "--deadline", (2*time.Minute + 4*longest).String(), "--for", "kernel")
	cmd.Env = append(os.Environ(), "EBB_CONFIG="+r.fleet.Config(), "EBB_OPERATOR=mira", "XDG_STATE_HOME="+filepath.Join(r.fleet.Dir, "state"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Errorf("drain: %v\n%s", err, out)
	}
	before := len(r.others(s))
	r.until("the new one serves on", func() bool { return len(r.others(s)) > 0 && s.count(r.others(s)[0]) > before+5 })
	end()
	return s, string(out)
}

// others are the hosts besides the first that have given answers.
func (r *servingRig) others(s *served) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var hosts []string
	for h := range s.whole {
		if h != r.fleet.Hosts[0].Name {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

func TestServingLeavesWhole(t *testing.T) {
	r := newServingRig(t, `readiness = "unready"
in_flight = { url = "http://ADDR/metrics", gauge = ["requests_running", "requests_waiting"], window = "20s" }`)
	longest := longestAnswer()
	s, out := r.drained(longest)
	for _, b := range s.broken {
		t.Errorf("broken: %s", b)
	}
	if len(r.others(s)) != 1 {
		t.Errorf("answers came from %v", s.whole)
	}
	t.Logf("whole: %v, broken: %d, longest %s", s.whole, len(s.broken), longest)
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
	s, _ := r.drained(5 * time.Second)
	if len(s.broken) == 0 {
		t.Errorf("nothing was cut: %v", s.whole)
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

package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ebb/fleet"
	"ebb/probes/client"
	"ebb/probes/wire"
)

// Every path with its method on every socket.
func TestRolesAreSockets(t *testing.T) {
	r := newRig(t)
	has := func(roles ...wire.Role) map[wire.Role]bool {
		m := map[wire.Role]bool{}
		for _, r := range roles {
			m[r] = true
		}
		return m
	}
	read := has(wire.Observe, wire.Cordon, wire.Operate, wire.Terminate)
	calls := []struct {
		method, path string
		may          map[wire.Role]bool
	}{
		{"GET", wire.PathSummary, read}, {"GET", wire.PathFacts, read}, {"GET", wire.PathHolds, read},
		{"GET", wire.PathAct + "x", read}, {"GET", wire.PathSigner, read}, {"GET", wire.PathMetrics, read}, {"GET", wire.PathWatch, read},
		{"PUT", wire.PathCordon, has(wire.Cordon, wire.Operate)}, {"DELETE", wire.PathCordon, has(wire.Cordon, wire.Operate)},
		{"PUT", wire.PathDrain, has(wire.Operate)}, {"DELETE", wire.PathDrain, has(wire.Operate)},
		{"POST", wire.PathEpoch, has(wire.Operate)}, {"POST", wire.PathActs, has(wire.Operate)},
		{"POST", wire.PathAdmission, has(wire.Admission)},
		{"POST", wire.PathTickets + "x", has(wire.Admission, wire.Operate)},
		{"POST", wire.PathProof, has(wire.Operate, wire.Terminate)},
		{"POST", wire.PathAccept, has(wire.Terminate)}, {"POST", wire.PathSeal, has(wire.Terminate)},
		{"DELETE", wire.PathSeal, has(wire.Terminate)}, {"POST", wire.PathPoweroff, has(wire.Terminate)},
	}
	for _, c := range calls {
		for _, role := range wire.Roles {
			// The body is refused by whoever may call: what differs is by whom.
			resp := r.http(role, c.method, c.path, `{"no such field":1}`)
			if got := resp.StatusCode != 403; got != c.may[role] {
				t.Errorf("%s %s as %s: status %d", c.method, c.path, role, resp.StatusCode)
			}
			if c.may[role] && c.method != "GET" && resp.StatusCode != 400 {
				t.Errorf("%s %s as %s: an unknown field was answered with %d", c.method, c.path, role, resp.StatusCode)
			}
		}
	}
	if resp := r.http(wire.Operate, "GET", "/v1/nothing", ""); resp.StatusCode != 404 {
		t.Errorf("unknown path: %d", resp.StatusCode)
	}
}

func TestModesOfSockets(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Sockets = map[wire.Role]Socket{wire.Observe: {Mode: 0o666, GID: os.Getgid()}}
	})
	for role, want := range map[wire.Role]fs.FileMode{wire.Observe: 0o666, wire.Operate: 0o660, wire.Terminate: 0o660} {
		info, err := os.Stat(filepath.Join(r.cfg.RunDir, role.Socket()))
		ok(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%s: %v, want %v", role, info.Mode().Perm(), want)
		}
	}
}

func TestALongRunDirectory(t *testing.T) {
	r := unstarted(t)
	r.cfg.RunDir = filepath.Join(r.dir, strings.Repeat("long/", 40))
	ok(t, Init(r.cfg.StateDir, testMachine))
	r.start()
	_, err := r.dial(wire.Observe).Summary(t.Context())
	ok(t, err)
}

func TestBadBodies(t *testing.T) {
	r := newRig(t)
	for _, body := range []string{"", "{", "[]", `{"who":1}`, `{"who":"a"} {}`, `{"who":"a","surprise":true}`} {
		resp := r.http(wire.Cordon, "PUT", wire.PathCordon, body)
		var p wire.Problem
		ok(t, json.NewDecoder(resp.Body).Decode(&p))
		if resp.StatusCode != 400 || p.Code != wire.CodeBadRequest {
			t.Errorf("%q: status %d code %q", body, resp.StatusCode, p.Code)
		}
	}
	resp := r.http(wire.Cordon, "PUT", wire.PathCordon, `{"why":"`+strings.Repeat("x", wire.MaxBody)+`"}`)
	if resp.StatusCode != 400 {
		t.Errorf("a body over the limit: %d", resp.StatusCode)
	}
	if r.agent.Facts().Holds.Any() {
		t.Fatal("a bad body cordoned the host")
	}
}

func TestASilentCallerHoldsUpNobody(t *testing.T) {
	r := newRig(t)
	for range 5 {
		for _, said := range []string{"", "EBBC/1 {", "PRI * HT", "GET /v1/summary HT"} {
			c, err := DialSocket(t.Context(), filepath.Join(r.cfg.RunDir, wire.Cordon.Socket()))
			ok(t, err)
			defer c.Close()
			_, err = io.WriteString(c, said)
			ok(t, err)
		}
	}
	r.cordon()
}

func TestAPanicEndsOneRequestOnly(t *testing.T) {
	r := newRig(t)
	gate := func(time.Time) Readings { return empty(r.clock.Now()) }
	r.prober.set(gate)
	r.agent.mu.Lock()
	slots := r.agent.slots
	r.agent.slots.files[0], r.agent.slots.files[1] = nil, nil // saving panics
	r.agent.mu.Unlock()
	defer func() { _ = slots }()
	_, err := r.dial(wire.Cordon).Cordon(t.Context(), wire.CordonRequest{Who: "ann"})
	if err == nil {
		t.Fatal("no error")
	}
	if _, err := r.dial(wire.Observe).Summary(t.Context()); err != nil {
		t.Fatalf("the agent is gone: %v", err)
	}
	if r.agent.Facts().Holds.Any() {
		t.Fatal("held in memory and not on the disk")
	}
}

func TestWhatSSHSaysIsRecordedAsClaimed(t *testing.T) {
	r := newRig(t)
	c, err := DialSocket(t.Context(), filepath.Join(r.cfg.RunDir, wire.Cordon.Socket()))
	ok(t, err)
	defer c.Close()
	ok(t, wire.WritePreface(c, wire.Preface{Claimed: wire.Claimed{SSH: "192.0.2.7 51022 192.0.2.9 22", Key: "SHA256:abc\x1b[2J"}}))
	body := `{"who":"ann"}`
	fmt.Fprintf(c, "PUT /v1/cordon HTTP/1.1\r\nHost: x\r\nEbb-Operator: ann\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	line, err := bufio.NewReader(c).ReadString('\n')
	ok(t, err)
	if !strings.Contains(line, "200") {
		t.Fatal(line)
	}
	log := r.readAudit()
	if !strings.Contains(log, `"claimed":{"operator":"ann","ssh":"192.0.2.7 51022 192.0.2.9 22","key":"SHA256:abc[2J"}`) {
		t.Fatal(log)
	}
}

func TestOneAgentOwnsAStateDirectory(t *testing.T) {
	r := newRig(t)
	if _, err := New(r.cfg); err == nil {
		t.Fatal("a second agent took the same state directory")
	}
	other := r.cfg
	other.StateDir = filepath.Join(r.dir, "other")
	if _, err := Listen(other); err == nil {
		t.Fatal("a second agent took the same sockets")
	}
	r.cordon()
}

func TestSummaryCounts(t *testing.T) {
	r := newRig(t)
	r.prober.set(func(now time.Time) Readings {
		rd := empty(now)
		rd.Processes.Value = []fleet.Process{
			{Run: fleet.Run{Boot: testBoot, PID: 9, Start: 1}, Owner: vm1}, {Run: fleet.Run{Boot: testBoot, PID: 8, Start: 1}, Comm: "stray"},
			{Run: fleet.Run{Boot: testBoot, PID: 7, Start: 1}, System: "kernel"}, {Run: fleet.Run{Boot: testBoot, PID: 6, Start: 1}, Kept: "agents"},
		}
		rd.Workloads.Value = []fleet.Workload{{Key: vm1, Class: fleet.Durable}, {Key: fleet.Key{Kind: "vm", ID: "kept"}, Kept: "k"}}
		rd.GPUs = fleet.Read([]fleet.GPU{{UUID: "a", Holders: []fleet.Run{{PID: 9}}}, {UUID: "b"}}, "nvml", now, 0)
		rd.Netns = fleet.ReadFailed[[]fleet.Resource]("/run/netns", now, 0, os.ErrPermission)
		return rd
	})
	c := r.dial(wire.Observe)
	f, err := c.Facts(t.Context(), true)
	ok(t, err)
	if f.Agent.Role != "observe" || f.Processes.Value[0].Run.PID != 6 {
		t.Fatalf("role %q, processes not in order: %+v", f.Agent.Role, f.Processes.Value)
	}
	s, err := c.Summary(t.Context())
	ok(t, err)
	if s.Unattributed != 1 || s.Classes[fleet.Durable] != 1 || len(s.Classes) != 1 || s.GPUs != [2]int{1, 2} || len(s.ProbesFailed) != 1 || s.ProbesFailed[0] != "netns" {
		t.Fatalf("%+v", s)
	}
	if s.Clock.Before(s.At) {
		t.Errorf("its clock says %s, and it looked at %s", s.Clock, s.At)
	}
	text, err := c.Metrics(t.Context())
	ok(t, err)
	for _, want := range []string{`ebbd_workloads{class="durable"} 1`, `ebbd_probe_ok{probe="netns"} 0`, "ebbd_scan_seconds_count"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in metrics", want)
		}
	}
}

func TestAPreface(t *testing.T) {
	for said, want := range map[string]string{
		"EBBC/1 {\"ssh\":\"a\"}\nGET": "GET",
		"EBBC/1 garbage\nGET":         "GET",
		"GET /":                       "GET /",
		"E":                           "E",
	} {
		ours, theirs := net.Pipe()
		go func() {
			_, _ = io.WriteString(theirs, said)
			theirs.Close()
		}()
		got, err := io.ReadAll(&roleConn{Conn: ours})
		if err != nil || string(got) != want {
			t.Errorf("%q: %q %v", said, got, err)
		}
	}
}

func TestACutLinkLeavesNoWaiterBehind(t *testing.T) {
	r := newRig(t)
	c := r.dial(wire.Observe)
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		first := true
		done <- c.Watch(ctx, fleet.Facts{}, func(fleet.Facts) error {
			if first {
				first = false
				close(started)
			}
			return nil
		})
	}()
	<-started
	cancel()
	if err := <-done; err == nil {
		t.Fatal("a cancelled watch ended without an error")
	}
}

// A console that sshd has let through to the socket asks who the agent is, and
// gets the line that dial-stdio would have written.
func TestHelloOnTheSocket(t *testing.T) {
	r := newRig(t)
	c, err := client.Dial(t.Context(), func(ctx context.Context) (net.Conn, error) {
		stream, err := DialSocket(ctx, filepath.Join(r.cfg.RunDir, wire.Observe.Socket()))
		if err == nil {
			err = wire.WritePreface(stream, wire.Preface{Hello: true})
		}
		return stream, err
	}, client.Options{Role: wire.Observe, Machine: r.cfg.Machine})
	ok(t, err)
	defer c.Close()
	if want := (wire.Hello{Proto: wire.Proto, Version: r.cfg.Version, Role: wire.Observe, Machine: r.cfg.Machine}); c.Hello() != want {
		t.Errorf("said %+v, want %+v", c.Hello(), want)
	}
	s, err := c.Summary(t.Context())
	ok(t, err)
	if s.Machine != r.cfg.Machine {
		t.Errorf("the summary is of %q", s.Machine)
	}
}

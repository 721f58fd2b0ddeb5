//go:build linux

package station

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/demo/lab"
	"ebb/fleet"
)

// BenchmarkHosts compares the first complete picture of 100 hosts, and a refresh
// of all summaries, with the least that SSH can do: a connection to each, and one
// command on it, with x/crypto alone.
func BenchmarkHosts(b *testing.B) {
	ctx, l := inLab(b, names("h", 100))
	time.Sleep(3 * time.Second) // until the hosts are at rest
	var bareFirst, bareAgain, first, again []time.Duration
	for range 3 {
		f, a := bare(b, l)
		bareFirst, bareAgain = append(bareFirst, f), append(bareAgain, a)
		time.Sleep(time.Second)
		f, a = picture(b, ctx, l)
		first, again = append(first, f), append(again, a)
		time.Sleep(time.Second)
	}
	b.ReportMetric(millis(best(bareFirst)), "ms/bare")
	b.ReportMetric(millis(best(bareAgain)), "ms/bare-again")
	b.ReportMetric(millis(best(first)), "ms/first")
	b.ReportMetric(millis(best(again)), "ms/again")
	b.ReportMetric(millis(best(first))/millis(best(bareFirst)), "first/bare")
	b.ReportMetric(millis(best(again))/millis(best(bareAgain)), "again/bare")
	b.ReportMetric(0, "ns/op")
	for range b.N {
	}
}

// bare dials every host and runs one command on it, and then another one on the
// connections that stand.
func bare(b *testing.B, l *lab.Lab) (first, again time.Duration) {
	b.Helper()
	raw, err := os.ReadFile(l.File("key"))
	must(b, err)
	key, err := ssh.ParsePrivateKey(raw)
	must(b, err)
	clients := make(map[string]*ssh.Client, len(l.Hosts))
	var mu sync.Mutex
	run := func(c *ssh.Client) error {
		s, err := c.NewSession()
		if err != nil {
			return err
		}
		defer s.Close()
		return s.Run("true")
	}
	first = everywhere(b, l, func(h *lab.Host) error {
		c, err := ssh.Dial("tcp", net.JoinHostPort(h.Addr, "22"), &ssh.ClientConfig{User: "root",
			Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(h.Key)})
		if err != nil {
			return err
		}
		mu.Lock()
		clients[h.Name] = c
		mu.Unlock()
		return run(c)
	})
	again = everywhere(b, l, func(h *lab.Host) error { return run(clients[h.Name]) })
	for _, c := range clients {
		_ = c.Close()
	}
	return first, again
}

// everywhere does something for all hosts at once.
func everywhere(b *testing.B, l *lab.Lab, do func(*lab.Host) error) time.Duration {
	b.Helper()
	errs := make(chan error, len(l.Hosts))
	begun := time.Now()
	for _, h := range l.Hosts {
		go func() { errs <- do(h) }()
	}
	for range l.Hosts {
		must(b, <-errs)
	}
	return time.Since(begun)
}

// picture opens a station, as a console does, and waits until every host has
// said what is on it; then it asks all of them again.
func picture(b *testing.B, ctx context.Context, l *lab.Lab) (first, again time.Duration) {
	b.Helper()
	begun := time.Now()
	s, err := Open(ctx, Options{Config: l.File("fleet.toml"), Getenv: func(k string) string {
		return map[string]string{"HOME": l.File("home"), "EBB_OPERATOR": "ann"}[k]
	}})
	must(b, err)
	defer s.Close()
	s.Observe(ctx)
	for {
		snap, next := s.Observer.Latest()
		if complete(snap, len(l.Hosts)) {
			break
		}
		select {
		case <-next:
		case <-ctx.Done():
			b.Fatal(lacks(snap))
		}
	}
	first = time.Since(begun)
	s.stop() // the observer's own questions are not measured
	<-s.done
	s.stop = nil
	var all []time.Duration
	for range 5 {
		all = append(all, everywhere(b, l, func(h *lab.Host) error {
			a, err := s.agents.observe(ctx, fleet.Host{ID: fleet.NewHostID("prod", h.Name), Address: h.Name})
			if err == nil {
				_, err = a.Summary(ctx)
			}
			return err
		}))
	}
	return first, best(all)
}

func complete(snap fleet.Snapshot, n int) bool {
	for _, h := range snap.Hosts {
		if h.Summary.Status != fleet.OK {
			return false
		}
	}
	return len(snap.Hosts) == n
}

func lacks(snap fleet.Snapshot) string {
	for _, h := range snap.Hosts {
		if h.Summary.Status != fleet.OK {
			return fmt.Sprintf("%s: %s", h.Host.ID, h.Problem)
		}
	}
	return fmt.Sprintf("%d hosts", len(snap.Hosts))
}

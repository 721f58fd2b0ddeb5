//go:build linux

package station

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"ebb/demo/lab"
	"ebb/drain"
	"ebb/drain/journal"
	"ebb/fleet"
)

// BenchmarkTakeover kills a resident engine that drives several drains, whose
// leases are at different points of their life, and measures how long each waits
// until another engine has taken it up.
func BenchmarkTakeover(b *testing.B) {
	ctx, l := inLab(b, names("t", 6))
	j, err := journal.Open(ctx, l.Journal)
	must(b, err)
	defer j.Close()
	driver := resident(b, l)
	for name := range l.Hosts {
		_, err := l.Start(ctx, name, lab.Work{Kind: "job", ID: "w-" + name, Class: "ephemeral", Owner: "ann", Life: time.Hour})
		must(b, err)
		if r := l.Ebb(ctx, "drain", name, "--deadline", "2h", "--detach"); r.Code != 0 {
			b.Fatal(r)
		}
		time.Sleep(700 * time.Millisecond)
	}
	epochs := driven(b, ctx, j, nil)
	var gaps []time.Duration
	for range 3 {
		next := resident(b, l)
		time.Sleep(3 * time.Second) // until it is there
		killed := time.Now()
		must(b, driver.Signal(os.Kill))
		at := driven(b, ctx, j, epochs)
		for host, took := range at {
			gaps = append(gaps, took.at.Sub(killed))
			epochs[host] = took
		}
		driver = next
	}
	slices.Sort(gaps)
	b.ReportMetric(gaps[len(gaps)/2].Seconds(), "s/takeover-p50")
	b.ReportMetric(gaps[len(gaps)-1].Seconds(), "s/takeover-max")
	b.ReportMetric(0, "ns/op")
	for range b.N {
	}
}

func resident(b *testing.B, l *lab.Lab) *lab.Run {
	b.Helper()
	r, err := l.Begin("run")
	must(b, err)
	b.Cleanup(func() {
		_ = r.Signal(os.Kill)
		<-r.Ended()
	})
	return r
}

// taken is when a drain was taken up, and with which epoch.
type taken struct {
	epoch uint64
	at    time.Time
}

// driven waits until every host's drain has been taken up with an epoch above
// the known one, and makes passes.
func driven(b *testing.B, ctx context.Context, j *journal.Journal, known map[string]taken) map[string]taken {
	b.Helper()
	for {
		now := map[string]taken{}
		for i := 1; i <= 6; i++ {
			host := fmt.Sprintf("t%04d", i)
			events, err := j.Stream(ctx, string(fleet.NewHostID("prod", host)), 0, 10_000)
			must(b, err)
			for _, ev := range events {
				if _, took := body(ev).(drain.DriveTook); took && ev.Epoch > known[host].epoch {
					now[host] = taken{ev.Epoch, ev.At}
				}
			}
		}
		if len(now) == 6 {
			return now
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			b.Fatalf("%d of 6 drains are driven", len(now))
		}
	}
}

func body(ev drain.Event) drain.Body {
	b, _ := ev.Decode()
	return b
}

//go:build linux

package lab_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"ebb/demo/lab"
	"ebb/drain"
	"ebb/fleet"
)

// Many workloads want to move at once, and no more of them do than may: by what
// the hosts themselves have written down.
func TestManyMoves(t *testing.T) {
	t.Parallel()
	const limit = 8
	n := 60
	if os.Getenv("EBB_LONG") == "1" {
		n = 200
	}
	b := setUp(t, nil, fmt.Sprintf("\n[limits]\nmoves_per_host = %d\nmoves_per_target = 4\n", limit), "mm1", "mm2", "mm3")
	b.countMoves()
	var works []lab.Work
	for i := range n {
		works = append(works, lab.Work{Kind: "service", ID: fmt.Sprintf("s%03d", i), Class: "stateless", Owner: "search", Serve: true})
	}
	pids := b.run("mm1", works...)
	b.until("all are seen", func() error {
		var diff struct{ Findings []fleet.Finding }
		if err := b.JSON(b.ctx, &diff, "diff", "mm1", "--all"); err != nil {
			return err
		}
		if len(diff.Findings) < n {
			return fmt.Errorf("%d of %d", len(diff.Findings), n)
		}
		return nil
	})
	w := b.watch()
	begun := time.Now()
	run := b.begin(append([]string{"drain", "mm1"}, kernel...)...)
	b.want(run.Wait(b.ctx), 0, "mm1 is empty")
	for i, pid := range pids {
		if b.Hosts["mm1"].Runs(pid) {
			t.Errorf("%s still runs", works[i].ID)
		}
	}
	w.sound("mm1", "mm2", "mm3")
	for k, it := range w.state("mm1").Items {
		if k.Kind == "service" && (it.End != drain.LeftHost || it.EndBy != "lever") {
			t.Errorf("%s ended as %q by %q", k, it.End, it.EndBy)
		}
	}
	peak := b.peak("mm1", "mm2", "mm3")
	t.Logf("%d workloads moved in %s, at most %d at once", n, time.Since(begun).Round(time.Second), peak)
	if peak > limit || peak < 2 {
		t.Errorf("%d moves at once, want at most %d and more than one", peak, limit)
	}
	claims, err := b.Ask(b.ctx, `select count(*)::text from sandboxes where agent_id in ('mm2', 'mm3') and status = 'running'`)
	if err != nil || claims != fmt.Sprint(n) {
		t.Errorf("%s claims have moved, %v", claims, err)
	}
}

// peak is how many moves were under way at once: from the beginning of a start
// on a target to the end of the process on the source.
func (b *bench) peak(source string, targets ...string) int {
	b.Helper()
	type step struct {
		at time.Time
		by int
	}
	var steps []step
	collect := func(host, what string, by int) {
		deeds, err := b.Hosts[host].Deeds()
		b.must(err)
		for _, d := range deeds {
			if d.What == what {
				steps = append(steps, step{d.At, by})
			}
		}
	}
	collect(source, "end", -1)
	for _, host := range targets {
		collect(host, "start", 1)
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
	now, peak := 0, 0
	for _, s := range steps {
		now += s.by
		peak = max(peak, now)
	}
	return peak
}

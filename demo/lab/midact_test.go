//go:build linux

package lab_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"ebb/demo/lab"
	"ebb/drain"
	"ebb/fleet"
)

// notebook is a workload that the lab's lever carries elsewhere.
var notebook = lab.Work{Kind: "notebook", ID: "nb", Class: "pausable", Owner: "lena"}

// midAct is a kill of somebody while a replacement is being started: before its
// process is there, or when that runs and the outcome is not known yet.
type midAct struct {
	victim string
	early  bool
}

// Agent of the target, console or agent of the source are killed while the
// replacement of a workload is being started, by a command of the target or by a
// lever: what became of that is found out before another is made.
func TestKilledInMidStart(t *testing.T) {
	t.Parallel()
	for i, work := range []lab.Work{page, notebook} {
		for j, mid := range []midAct{{"target", true}, {"target", false}, {"console", true}, {"console", false}, {"source", false}} {
			host := fmt.Sprintf("x%d%d", i, j)
			name := work.Kind + " " + mid.victim
			if mid.early {
				name += " early"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := setUp(t, nil, lab.LeverConfig(notebook.Kind), host+"a", host+"b", host+"c")
				b.killedInStart(work, mid, host+"a", host+"b", host+"c")
			})
		}
	}
}

func (b *bench) killedInStart(work lab.Work, mid midAct, source string, targets ...string) {
	b.Helper()
	b.countMoves()
	pid := b.run(source, work)[0]
	b.seen(source, fleet.Key{Kind: work.Kind, ID: work.ID})
	deed, before, after := "up", time.Duration(0), 8*time.Second
	if mid.early {
		deed, before, after = "start", 12*time.Second, 0 // longer than the plane's cache window
	}
	for _, t := range targets {
		b.must(b.Hosts[t].Slow(before, after))
	}
	w := b.watch()
	r := b.relay(source, kernel...)
	target := b.begun(work, deed, targets)
	switch mid.victim {
	case "console":
		r.kill()
	default:
		h := b.Hosts[source]
		if mid.victim == "target" {
			h = b.Hosts[target]
		}
		b.must(h.KillAgent(b.ctx))
		b.must(h.StartAgent(b.ctx))
	}
	b.want(r.wait(), 0, source+" is empty")
	if b.Hosts[source].Runs(pid) {
		b.Error("the old one still runs")
	}
	b.refuses(source, "new kernel")
	w.sound(source, targets...)
	b.serves(target, work)
	if work.Class == "pausable" {
		b.onlyOnce(source, target, work)
	}
	if st := w.state(source); st.Items[fleet.Key{Kind: work.Kind, ID: work.ID}].End != drain.LeftHost {
		b.Errorf("it ended as %+v", st.Items)
	}
}

// begun waits until a deed of a workload has been done on one of the targets, and
// names that.
func (b *bench) begun(work lab.Work, what string, targets []string) (target string) {
	b.Helper()
	b.until(what+" of "+work.ID, func() error {
		for _, name := range targets {
			deeds, err := b.Hosts[name].Deeds()
			if err != nil {
				return err
			}
			for _, d := range deeds {
				if d.What == what && d.Key == work.Kind+"/"+work.ID {
					target = name
					return nil
				}
			}
		}
		return errors.New("not yet")
	})
	return target
}

// onlyOnce wants a workload to have been paused on its source before its
// replacement came up.
func (b *bench) onlyOnce(source, target string, work lab.Work) {
	b.Helper()
	at := map[string]time.Time{}
	for _, name := range []string{source, target} {
		deeds, err := b.Hosts[name].Deeds()
		b.must(err)
		for _, d := range deeds {
			if d.Key == work.Kind+"/"+work.ID {
				at[name+" "+d.What] = d.At
			}
		}
	}
	paused, up := at[source+" paused"], at[target+" up"]
	if paused.IsZero() || up.Before(paused) {
		b.Errorf("it ran in two places: paused at %v, up elsewhere at %v", paused, up)
	}
	if _, err := os.Stat(b.Hosts[source].Path("/var/lib/workloads/" + work.Kind + "-" + work.ID + ".toml")); !errors.Is(err, os.ErrNotExist) {
		b.Errorf("its manifest is still on the source: %v", err)
	}
}

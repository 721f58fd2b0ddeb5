//go:build linux

package lab_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"ebb/demo/lab"
	"ebb/drain"
	"ebb/drain/journal"
	"ebb/fleet"
)

// cable is the link to one host, led through a proxy that can spoil it.
type cable struct {
	*bench
	host  string
	proxy *toxiproxy.Proxy
}

// cable leads the link to a host through a proxy.
func (b *bench) cable(host string) cable {
	b.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(server, host, "127.0.0.1:0", b.Hosts[host].Addr+":22")
	b.must(p.Start())
	b.Cleanup(p.Stop)
	b.must(b.Route(host, p.Listen))
	return cable{b, host, p}
}

// toxic is one way of spoiling a link, both ways.
type toxic struct {
	Type       string           `json:"type"`
	Stream     string           `json:"stream"`
	Attributes map[string]int64 `json:"attributes"`
}

var (
	blackhole = toxic{Type: "timeout", Attributes: map[string]int64{"timeout": 0}}
	reset     = toxic{Type: "reset_peer", Attributes: map[string]int64{"timeout": 0}}
	narrow    = toxic{Type: "bandwidth", Attributes: map[string]int64{"rate": 3}}
	far       = toxic{Type: "latency", Attributes: map[string]int64{"latency": 250}}
)

func (c cable) spoil(t toxic) {
	c.Helper()
	for _, t.Stream = range []string{"upstream", "downstream"} {
		text, err := json.Marshal(t)
		c.must(err)
		_, err = c.proxy.Toxics.AddToxicJson(bytes.NewReader(text))
		c.must(err)
	}
}

func (c cable) mend() { c.proxy.Toxics.ResetToxics(c.ctx) }

// guest is a workload that only its owner ends.
var guest = lab.Work{Kind: "vm", ID: "guest", Class: "pausable", Owner: "lab"}

// unreachable is the moment at which a drain says that it can't read its host.
var unreachable = body(func(b drain.DriveWaits) bool {
	for _, w := range b.Reasons {
		if w.Key.IsZero() && w.Reason.Code == drain.WaitUnreachable {
			return true
		}
	}
	return false
})

// found is the moment at which a workload is on the list.
func found(id string) moment {
	return body(func(b drain.DriveFound) bool {
		for _, f := range b.Items {
			if f.Key.ID == id {
				return true
			}
		}
		return false
	})
}

// hosting starts a drain of a host with a guest, and returns when that is known.
func (b *bench) hosting(host string, args ...string) (*witness, *lab.Run, int) {
	b.Helper()
	g := guest
	g.ID = "guest-" + host
	pid := b.run(host, g)[0]
	b.seen(host, fleet.Key{Kind: g.Kind, ID: g.ID})
	w := b.watch()
	run := b.begin(append(append([]string{"drain", host}, kernel...), args...)...)
	w.sees(host, "the guest", found(g.ID))
	return w, run, pid
}

// goes has the owner of a guest end it, and wants the drain to end empty.
func (w *witness) goes(host string, run *lab.Run, pid int, others ...string) {
	w.Helper()
	if !w.Hosts[host].Runs(pid) {
		w.Error("the guest was ended by somebody else")
	}
	w.must(w.Hosts[host].Signal(pid, syscall.SIGINT))
	w.want(run.Wait(w.ctx), 0, host+" is empty")
	w.refuses(host, "new kernel")
	w.sound(host, others...)
}

// Links that fail in a way of their own, each in the middle of a drain: what is
// not known is waited for, and once the link is well again the drain ends.
func TestLinks(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "lb1", "lr1", "ln1", "lf1", "lt1")
	b.countMoves()
	cables := map[string]cable{}
	for _, host := range []string{"lb1", "lr1", "ln1", "lf1"} {
		cables[host] = b.cable(host)
	}
	sub := func(name string, test func(*bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(&bench{T: t, Lab: b.Lab, ctx: b.ctx})
		})
	}
	sub("blackhole", func(b *bench) { b.breaks(cables["lb1"], blackhole) })
	sub("reset", func(b *bench) { b.breaks(cables["lr1"], reset) })
	sub("narrow", func(b *bench) { b.crawls(cables["ln1"], narrow) })
	sub("far", func(b *bench) { b.crawls(cables["lf1"], far) })
}

// breaks spoils a link until it is noticed, and then mends it.
func (b *bench) breaks(c cable, how toxic) {
	b.Helper()
	c.bench = b
	w, run, pid := b.hosting(c.host)
	c.spoil(how)
	w.sees(c.host, "the host can't be read", unreachable)
	c.mend()
	w.goes(c.host, run, pid)
}

// crawls drains over a link that is slow from the beginning to the end: 3 kB a
// second, or half a second for each round trip.
func (b *bench) crawls(c cable, how toxic) {
	b.Helper()
	c.bench = b
	c.spoil(how)
	moves := page
	moves.ID = "page-" + c.host
	b.run(c.host, moves)
	w, run, pid := b.hosting(c.host)
	w.sees(c.host, "the page has left", body(func(d drain.DriveEnded) bool {
		return len(d.Ends) == 1 && d.Ends[0].Key.ID == moves.ID && d.Ends[0].By == "lever"
	}))
	w.goes(c.host, run, pid, "lt1")
	b.serves("lt1", moves)
}

// A jump host that dies in mid-drain, with everything that was led through it,
// and comes back.
func TestJumpHostDies(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "lj1", "lj2")
	b.countMoves()
	b.must(b.Via(b.ctx, "lj2", "lj1"))
	w, run, pid := b.hosting("lj2")
	b.Hosts["lj1"].Halt()
	w.sees("lj2", "the host can't be read", unreachable)
	b.must(b.Hosts["lj1"].Boot(b.ctx))
	w.goes("lj2", run, pid)
}

// hasten moves a drain's outer deadline to so long from now.
func (w *witness) hasten(host string, in time.Duration) {
	w.Helper()
	j, err := journal.Open(w.ctx, w.Journal)
	w.must(err)
	defer j.Close()
	now, err := j.Now(w.ctx)
	w.must(err)
	stream := fleet.NewHostID("prod", host)
	ev, err := drain.NewEvent(stream, "hasten-"+host, w.state(host).Drain, 0, drain.Actor{Name: "ann"}, drain.AskExtend{Until: now.Add(in)})
	w.must(err)
	_, err = j.Append(w.ctx, drain.Batch{Stream: string(stream), Events: []drain.Event{ev}})
	w.must(err)
}

// A link that is dead past the outer deadline: the drain ends by name, with the
// age of what it knows, and holds. With the link mended and more time it is taken
// up again.
func TestLinkDeadPastDeadline(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "ld1")
	b.countMoves()
	c := b.cable("ld1")
	w, run, pid := b.hosting("ld1")
	c.spoil(blackhole)
	w.sees("ld1", "the host can't be read", unreachable)
	w.hasten("ld1", 15*time.Second)
	out := b.want(run.Wait(b.ctx), 4, "deadline reached with", "vm/guest-ld1", "lab", "stays held")
	if line := lineWith(out, "the outer deadline is reached"); !strings.Contains(line, "vm/guest-ld1") || !strings.Contains(line, "s old") {
		b.Errorf("the event does not tell what is left, and how old that is: %q\n%s", line, out)
	}
	if !b.Hosts["ld1"].Runs(pid) {
		b.Error("the guest was ended")
	}
	b.refuses("ld1", "new kernel")
	c.mend()
	again := b.begin("drain", "ld1", "--deadline", "20m")
	w.sees("ld1", "the drain is taken up", body(func(drain.DriveTook) bool { return true }))
	w.goes("ld1", again, pid)
}

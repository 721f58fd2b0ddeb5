package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

const pageKind = "page"

// What the levers of the demo move.
var (
	page  = Spec{Kind: pageKind, ID: "shop", Class: fleet.Stateless, Owner: "search", Serve: true}
	tally = Spec{Kind: "counter", ID: "tally-1", Class: fleet.Pausable, Owner: "lena", As: "counter",
		Needs: fleet.Needs{Compat: map[string]string{"engine": ""}}}
	store = Spec{Kind: "store", ID: "orders", Class: fleet.Durable, Owner: "payments", As: "store"}
)

// traffic is what the clients of the moved workloads see.
type traffic struct {
	proxy *Proxy
	pages *Load
	puts  *Load

	mu    sync.Mutex
	acked []string // lines that the store has acknowledged
}

// strategies moves one of each kind for real, under load.
func strategies() Script {
	return Script{
		Name: "strategies", About: "start elsewhere and flip, pause and resume, fail over: under load, and for real", Hosts: 4,
		Steps: []Step{
			{"A page, a counter and a store run on gpu-041, and are used", movesSet},
			{"Plan: each has its way, and a place to go", movesPlan},
			{"Drain: they go; the old primary is started anew behind its fence", movesDrain},
			{"The page: not one request was dropped", movesPage},
			{"The counter: no gap, no number twice, never in two places", movesCounter},
			{"The store: every acknowledged line is there, and the old primary stays fenced", movesStore},
			{"Verify: the host signs that it is empty", func(ctx context.Context, s *Stage) error {
				_, err := s.run(ctx, 0, "verify", target, "--out", filepath.Join(s.Fleet.Dir, "proof.json"))
				return err
			}},
		},
	}
}

func (f *Fleet) countLog(s Spec) string { return shared(f.Dir, s.Kind+"-"+s.ID+".log") }

func (f *Fleet) addrFile(s Spec) string { return shared(f.Dir, s.Kind+"-"+s.ID+".addr") }

// runMoved starts what a lever can move, and tells its clients where it is.
func (p *Platform) runMoved(ctx context.Context, h *Host, s Spec) error {
	if s.As == "counter" {
		s.Log = p.fleet.countLog(s)
	}
	if err := p.RunOn(ctx, h, s); err != nil {
		return err
	}
	if s.As == "counter" {
		return nil
	}
	var addr []byte
	if err := within(func() (ok bool) {
		var err error
		addr, err = os.ReadFile(portFile(h.Dir, s))
		return err == nil && len(addr) > 0
	}); err != nil {
		return fmt.Errorf("%s on %s: %w", s.Key(), h.Name, err)
	}
	return writeFile(p.fleet.addrFile(s), string(addr))
}

func movesSet(ctx context.Context, s *Stage) error {
	h, p := s.Fleet.Host(target), s.Fleet.Platform
	for _, w := range []Spec{page, tally, store} {
		if err := p.runMoved(ctx, h, w); err != nil {
			return err
		}
	}
	t := &traffic{}
	var err error
	if t.proxy, err = StartProxy(s.Fleet, page); err != nil {
		return err
	}
	s.traffic = t
	t.pages = StartLoad(ctx, 4, getPage(t.proxy.Addr, page.ID))
	t.puts = StartLoad(ctx, 2, t.put(s.Fleet))
	s.held("%s, %s and %s run on %s", page.Key(), tally.Key(), store.Key(), target)
	return p.Scheduler.Refresh(ctx)
}

// put sends a line to wherever the store is said to be. A refusal is an answer:
// only what was acknowledged has to survive.
func (t *traffic) put(f *Fleet) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		addr, err := os.ReadFile(f.addrFile(store))
		if err != nil {
			return err
		}
		line := fmt.Sprintf("order-%d", n)
		if err := putLine(ctx, string(addr), line); err != nil {
			return err
		}
		t.mu.Lock()
		t.acked = append(t.acked, line)
		t.mu.Unlock()
		return nil
	}
}

func putLine(ctx context.Context, addr, line string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/put", strings.NewReader(line))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(said)))
	}
	return nil
}

func movesPlan(ctx context.Context, s *Stage) error {
	var p drain.Plan
	if err := s.read(ctx, &p, "plan", target, "--deadline", s.dur(30*time.Minute)); err != nil {
		return err
	}
	for _, it := range p.Items {
		if !it.Reason.IsZero() || it.Target == "" || it.GoneBy.IsZero() {
			return fmt.Errorf("%s is planned with target %q, reason %v", it.Key, it.Target, it.Reason)
		}
		if it.Key == tally.Key() && it.Target.Name() == "gpu-042" {
			return fmt.Errorf("%s is placed on %s, whose engine is another", it.Key, it.Target)
		}
		s.held("%-10s %-16s to %s: %s", it.Class, it.Key, it.Target.Name(), it.Strategy)
	}
	if p.Total != 3 || p.Expected.IsZero() {
		return fmt.Errorf("%d items, expected %s", p.Total, p.Expected)
	}
	return nil
}

func movesDrain(ctx context.Context, s *Stage) error {
	h := s.Fleet.Host(target)
	old := site{h.Place(), store}
	if err := s.background(ctx, "drain", "drain", target, "--deadline", (s.Fleet.Scaled(30*time.Minute) + 30*time.Second).String(), "--for", "kernel", "--reason", "CVE-2026-1183"); err != nil {
		return err
	}
	if err := s.until(ctx, "the old primary is fenced", func() (bool, error) { return there(old.fenced()), nil }); err != nil {
		return err
	}
	if err := s.restartFenced(ctx, old); err != nil {
		return err
	}
	s.held("killed behind its fence and started anew: it takes no line")
	for _, w := range []Spec{page, tally, store} {
		if err := s.item(ctx, target, w.Key(), "left", ended(drain.LeftHost, "lever")); err != nil {
			return err
		}
		host, phase, err := s.claimed(ctx, w.Key())
		if err != nil || host == h.ID() || phase != fleet.Running {
			return errors.Join(err, fmt.Errorf("%s is claimed %s on %s", w.Key(), phase, host))
		}
		st, err := s.board(ctx, target)
		if err != nil {
			return err
		}
		s.held("%s is on %s, after %s", w.Key(), host.Name(), st.Items[w.Key()].EndAt.Sub(st.Items[w.Key()].FirstAct).Round(10*time.Millisecond))
	}
	return s.finish(ctx, "drain", 0)
}

// restartFenced is a host's supervisor that brings an old primary back.
func (s *Stage) restartFenced(ctx context.Context, old site) error {
	file := pidFile(filepath.Join(old.Root, manifestDir), old.s)
	if there(file) {
		if err := signalTo(file, old.Token, syscall.SIGKILL); err != nil && !dead(file) {
			return err
		}
	}
	_ = remove(portFile(old.Root, old.s))
	if _, err := Launch(old.Place, old.s); err != nil {
		return err
	}
	return s.refusesLines(ctx, old)
}

// refusesLines looks that a store on a host is up, and fenced.
func (s *Stage) refusesLines(ctx context.Context, old site) error {
	return s.until(ctx, "it is up, and fenced", func() (bool, error) {
		addr, err := os.ReadFile(portFile(old.Root, old.s))
		if err != nil {
			return false, err
		}
		err = putLine(ctx, string(addr), "not for you")
		if err == nil {
			return false, errors.New("the old primary took a line")
		}
		return strings.Contains(err.Error(), "fenced"), err
	})
}

func movesPage(_ context.Context, s *Stage) error {
	err := s.traffic.pages.Stop()
	ok, failed := s.traffic.pages.OK.Load(), s.traffic.pages.Failed.Load()
	if failed > 0 || ok == 0 {
		return fmt.Errorf("%d of %d requests failed: %w", failed, ok+failed, err)
	}
	s.held("%d requests through the proxy, 0 failed", ok)
	return nil
}

func movesCounter(ctx context.Context, s *Stage) error {
	var last int
	var hosts []string
	if err := s.until(ctx, "it counts on", func() (bool, error) {
		n, where, err := CountLog(s.Fleet.countLog(tally))
		more := last > 0 && n > last
		last, hosts = n, where
		return more, err
	}); err != nil {
		return err
	}
	if len(hosts) != 2 || hosts[0] != target || hosts[1] == target {
		return fmt.Errorf("it counted on %v", hosts)
	}
	s.held("1 to %d in one row, first on %s, then on %s", last, hosts[0], hosts[1])
	return nil
}

func movesStore(ctx context.Context, s *Stage) error {
	h := s.Fleet.Host(target)
	before := s.traffic.puts.OK.Load()
	if err := s.until(ctx, "the new primary takes lines", func() (bool, error) { return s.traffic.puts.OK.Load() > before, nil }); err != nil {
		return err
	}
	_ = s.traffic.puts.Stop() // refusals in between are what a fence is for
	addr, err := os.ReadFile(s.Fleet.addrFile(store))
	if err != nil {
		return err
	}
	log, err := fetch("http://" + string(addr) + "/log")
	if err != nil {
		return err
	}
	have := map[string]int{}
	for line := range strings.Lines(log) {
		have[strings.TrimSpace(line)]++
	}
	s.traffic.mu.Lock()
	acked := slices.Clone(s.traffic.acked)
	s.traffic.mu.Unlock()
	for _, line := range acked {
		if have[line] != 1 {
			return fmt.Errorf("%s was acknowledged, and is there %d times", line, have[line])
		}
	}
	s.held("%d acknowledged lines, each there once; %d refused while nobody was primary", len(acked), s.traffic.puts.Failed.Load())
	old := site{h.Place(), store}
	if err := s.restartFenced(ctx, old); err != nil {
		return err
	}
	s.held("the old primary, started anew after the new one was promoted, takes no line")
	return old.kill()
}

// end ends the clients.
func (t *traffic) end() {
	if t == nil {
		return
	}
	for _, l := range []*Load{t.pages, t.puts} {
		if l != nil {
			_ = l.Stop()
		}
	}
	t.proxy.Close()
}

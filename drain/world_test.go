package drain

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"time"

	"ebb/fleet"
)

// The world of these tests: one host whose workloads obey or ignore TERM and
// their TTL, a plane that lags, targets, and an engine that runs Next, appends,
// folds and carries acts out, all in a time that is a value.

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

const source = fleet.HostID("prod/h1")

// tb is what testing.T and rapid.T have in common here.
type tb interface {
	Fatalf(string, ...any)
	Helper()
}

// proc is one workload, or one process that nothing explains.
type proc struct {
	key       fleet.Key
	run       fleet.Run
	born      time.Time
	class     fleet.Class // as the plane states it
	says      fleet.Class // as the host states it
	expires   time.Time
	stubborn  bool // ignores TERM
	immortal  bool // ignores KILL too
	overstays bool // ignores its TTL
	declared  bool
	unclaimed bool
	stray     bool // recognised by no rule
	rests     bool
	start     string
	health    string
	kids      []fleet.Run
	dies      time.Time
	lever     bool // a lever moves it
	park      bool // its rule parks it
	mode      int  // see site
}

type claim struct {
	phase fleet.Phase
	at    time.Time // from when the plane says so
}

type running struct {
	act    Act
	at     time.Time // when the outcome is told
	result Result
	detail string
}

type done struct {
	act    Act
	at     time.Time
	result Result
}

type world struct {
	t        tb
	now      time.Time     // by the journal's clock
	behind   time.Duration // the host's, which is right then
	s        State
	p        Policy
	log      []Event
	epoch    uint64
	procs    map[fleet.Key]*proc
	claims   map[fleet.Key][]claim
	holds    fleet.Holds
	cordon   fleet.CordonState
	machine  string
	boot     string
	targets  []fleet.HostID
	issues   []fleet.Issue
	pids     int
	inflight []running
	did      []done
	named    map[fleet.Run]bool // what somebody escalated
	// faults
	factsDown, planeDown, unstable, driverGone bool
	probe                                      string // the probe that fails
	latency                                    time.Duration
	wake                                       time.Time // as the last decision asked
	answer                                     func(Act) (Result, string)
	// what levers do
	sites map[fleet.Key]*site
	// what was started elsewhere, and what every target's agent shows of it
	copies  map[fleet.HostID]map[fleet.Key]bool
	mute    map[fleet.HostID]bool   // targets that can't be read
	away    map[fleet.HostID]bool   // targets that do not answer any more, and are shown as they were
	swapped map[fleet.HostID]string // targets that are another machine now
	lost    bool                    // starts that nobody hears of have come to nothing
	code    string                  // of failures
	compat  map[string]string       // versions that the host states
	runs    map[string]*leverRun
	last    map[fleet.Key]*proc // as it was when its snapshot was taken
	slow    time.Duration       // of acts that a lever says are still running
}

func newWorld(t tb) *world {
	p := DefaultPolicy()
	p.Levers, p.Rules = map[string]LeverSpec{"lev": {Name: "lev"}}, movesRules()
	return &world{t: t, now: noon, p: p, last: map[fleet.Key]*proc{}, procs: map[fleet.Key]*proc{}, claims: map[fleet.Key][]claim{},
		machine: "m1", boot: "b1", targets: []fleet.HostID{"prod/t1", "prod/t2"}, named: map[fleet.Run]bool{}, latency: 300 * time.Millisecond,
		answer: func(Act) (Result, string) { return Done, "" }}
}

func wk(id string) fleet.Key { return fleet.Key{Kind: "vm", ID: id} }

func (w *world) add(id string, class fleet.Class, opts ...func(*proc)) *proc {
	w.pids++
	p := &proc{key: wk(id), run: fleet.Run{Boot: w.boot, PID: w.pids, Start: uint64(w.pids)}, born: w.now.Add(-time.Minute), class: class}
	if class == fleet.Stateless {
		p.start, p.health = "start", "health"
	}
	for _, o := range opts {
		o(p)
	}
	if p.stray {
		p.key = fleet.Key{Kind: "process", ID: fmt.Sprintf("%d:%d", p.run.PID, p.run.Start)}
	}
	w.procs[p.key] = p
	if p.lever {
		w.site(p.key).mode, w.last[p.key] = p.mode, p
	}
	if !p.stray && !p.unclaimed {
		w.claims[p.key] = append(w.claims[p.key], claim{fleet.Running, w.now.Add(-time.Minute)})
	}
	return p
}

func stubborn(p *proc)  { p.stubborn = true }
func overstays(p *proc) { p.overstays = true }
func declared(p *proc)  { p.declared = true }
func stray(p *proc)     { p.stray = true }
func unclaimed(p *proc) { p.unclaimed = true }
func ttl(d time.Duration) func(*proc) {
	return func(p *proc) { p.expires = noon.Add(d) }
}

// strip takes away what says of a process that it is a workload's.
func (w *world) strip(p *proc) {
	w.crash(p)
	n := *p
	n.key, n.stray, n.declared = fleet.Process{Run: p.run}.Key(), true, false
	w.procs[n.key] = &n
}

// crash ends a workload without a word; end lets its owner say so after a lag.
func (w *world) crash(p *proc) { delete(w.procs, p.key) }

func (w *world) end(p *proc, lag time.Duration) {
	delete(w.procs, p.key)
	w.site(p.key).ended = true
	w.claims[p.key] = append(w.claims[p.key], claim{fleet.Gone, w.now.Add(lag)})
}

// respawn is a supervisor that starts a workload again.
func (w *world) respawn(p *proc) {
	if w.site(p.key).paused {
		return // that is what a snapshot is for: it does not come back by itself
	}
	w.pids++
	n := *p
	n.run, n.born, n.dies = fleet.Run{Boot: w.boot, PID: w.pids, Start: uint64(w.pids)}, w.now, time.Time{}
	w.procs[p.key] = &n
}

func (w *world) claimOf(k fleet.Key) (fleet.Phase, time.Time, bool) {
	var ph fleet.Phase
	var at time.Time
	found := false
	for _, c := range w.claims[k] {
		if !c.at.After(w.now) {
			ph, at, found = c.phase, c.at, true
		}
	}
	return ph, at, found
}

func (w *world) view() View {
	v := View{Source: fleet.HostView{Host: fleet.Host{ID: source}, Cordon: w.cordon, Stable: !w.unstable}}
	for _, id := range w.targets {
		v.Targets = append(v.Targets, fleet.HostView{Host: fleet.Host{ID: id}, Facts: fleet.Read(w.there(id), "t", w.now, 0)})
		if w.away[id] {
			v.Targets[len(v.Targets)-1].Unreachable = w.now
		}
		if w.mute[id] {
			v.Targets[len(v.Targets)-1].Facts = fleet.ReadFailed[fleet.Facts]("t", w.now, 0, fmt.Errorf("no route"))
		}
	}
	v.Anew = w.s.UnsureOf()
	at := w.now.Add(-w.behind)
	f := fleet.Facts{At: at, Machine: w.machine, Boot: w.boot, Holds: w.holds, Offer: fleet.Offer{Compat: w.compat},
		Netns: fleet.Read([]fleet.Resource{}, "x", at, 0), Loops: fleet.Read([]fleet.Resource{}, "x", at, 0),
		Dirs: fleet.Read([]fleet.Resource{}, "x", at, 0), GPUs: fleet.ReadNotApplicable[[]fleet.GPU]("x", at, "no gpu")}
	var workloads []fleet.Workload
	var processes []fleet.Process
	var claims []fleet.Claim
	for k := range w.claims {
		if ph, changed, ok := w.claimOf(k); ok {
			c := fleet.Claim{Key: k, Host: source, Phase: ph, Changed: changed}
			if p := w.procs[k]; p != nil {
				c.Class, c.Expires = p.class, p.expires
			}
			claims = append(claims, c)
		}
	}
	slices.SortFunc(claims, func(a, b fleet.Claim) int { return a.Key.Compare(b.Key) })
	keys := make([]fleet.Key, 0, len(w.procs))
	for k := range w.procs {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, fleet.Key.Compare)
	for _, k := range keys {
		p := w.procs[k]
		pr := fleet.Process{Run: p.run, Comm: "x", Started: p.born}
		if p.stray {
			processes = append(processes, pr)
			v.Source.Findings = append(v.Source.Findings, fleet.Finding{Key: k, Verdict: fleet.Unattributed, Process: &pr})
			continue
		}
		wl := fleet.Workload{Key: k, Phase: fleet.Running, Run: p.run, Runs: append([]fleet.Run{p.run}, p.kids...),
			Declared: p.declared, Expires: p.expires, Start: p.start, Health: p.health, Owner: "team", Class: p.says}
		if p.lever {
			wl.Labels = map[string]string{"moved": string(p.class)}
			if p.park {
				wl.Labels["parked"] = "yes"
			}
		}
		if p.rests {
			wl.Phase, wl.Run, wl.Runs = fleet.AtRest, fleet.Run{}, nil
		} else {
			pr.Owner = k
			processes = append(processes, pr)
		}
		workloads = append(workloads, wl)
		fi := fleet.Finding{Key: k, Verdict: fleet.Orphan, Workload: &wl}
		if i := slices.IndexFunc(claims, func(c fleet.Claim) bool { return c.Key == k && c.Phase != fleet.Gone }); i >= 0 {
			if fi.Verdict, fi.Claim = fleet.Agreed, &claims[i]; p.rests && claims[i].Phase == fleet.AtRest {
				fi.Verdict = fleet.Resting
			}
		}
		if w.planeDown || w.unstable && fi.Verdict == fleet.Orphan {
			fi.Verdict, fi.Claim = fleet.UnknownV, nil
		}
		v.Source.Findings = append(v.Source.Findings, fi)
	}
	f.Processes, f.Workloads = fleet.Read(processes, "x", at, 0), fleet.Read(workloads, "x", at, 0)
	bad := fmt.Errorf("probe broke")
	switch w.probe {
	case "workloads":
		f.Workloads = fleet.ReadFailed[[]fleet.Workload]("x", at, 0, bad)
		v.Source.Findings = nil
	case "processes":
		f.Processes = fleet.ReadFailed[[]fleet.Process]("x", at, 0, bad)
		v.Source.Findings = nil
	case "netns":
		f.Netns = fleet.ReadFailed[[]fleet.Resource]("x", at, 0, bad)
	}
	v.Source.Facts = fleet.Read(f, "agent", at, 0)
	v.Source.Claims = fleet.Read(claims, "plane", at, 0)
	if w.planeDown {
		v.Source.Claims = fleet.ReadFailed[[]fleet.Claim]("plane", at, 0, fmt.Errorf("plane is down"))
	}
	if w.factsDown {
		v.Source.Facts, v.Source.Findings = fleet.ReadFailed[fleet.Facts]("agent", at, 0, fmt.Errorf("no route")), nil
	}
	v.Issues = slices.Clone(w.issues)
	return v
}

// there is what a target shows.
func (w *world) there(id fleet.HostID) fleet.Facts {
	var all []fleet.Workload
	for _, k := range slices.SortedFunc(maps.Keys(w.copies[id]), fleet.Key.Compare) {
		all = append(all, fleet.Workload{Key: k, Phase: fleet.Running})
	}
	machine := "m-" + id.Name()
	if m := w.swapped[id]; m != "" {
		machine = m
	}
	return fleet.Facts{At: w.now, Machine: machine, Workloads: fleet.Read(all, "t", w.now, 0)}
}

// started puts a replacement on a target. There must never be one elsewhere.
func (w *world) started(a Act) {
	w.t.Helper()
	for id, there := range w.copies {
		if there[a.Key] && id != a.Target {
			w.t.Fatalf("%s is started on %s and runs on %s", a.Key, a.Target, id)
		}
	}
	if w.copies == nil {
		w.copies = map[fleet.HostID]map[fleet.Key]bool{}
	}
	if w.copies[a.Target] == nil {
		w.copies[a.Target] = map[fleet.Key]bool{}
	}
	w.copies[a.Target][a.Key] = true
}

// append writes an event and folds it; the fold must not change its input.
func (w *world) append(epoch uint64, b Body) error {
	w.t.Helper()
	e, err := NewEvent(source, fmt.Sprintf("e%d", len(w.log)+1), "d1", epoch, Actor{Name: "ann"}, b)
	if err != nil {
		w.t.Fatalf("event: %v", err)
	}
	e.Num, e.At = uint64(len(w.log)+1), w.now
	w.log = append(w.log, e)
	s, err := Apply(w.s, e)
	w.s = s
	for k, it := range s.Items {
		w.site(k).word = !it.Resume.IsZero()
	}
	return err
}

func (w *world) ask(b Body) {
	w.t.Helper()
	if a, ok := b.(AskEscalate); ok {
		run := a.Run
		if run.IsZero() {
			run = w.s.Items[a.Key].Run
		}
		if w.s.Items[a.Key].Run == run {
			w.named[run] = true
		}
	}
	if err := w.append(0, b); err != nil {
		w.t.Fatalf("ask %s: %v", b.Kind(), err)
	}
}

func (w *world) start(deadline time.Duration) {
	w.t.Helper()
	plan := MakePlan(w.view(), w.p, w.now.Add(deadline), "", w.now)
	w.ask(AskStart{Deadline: w.now.Add(deadline), MayDie: plan.MayDie(), Reason: "test"})
	w.take(0, false)
}

// take opens a driver's turn and settles what the last one left open.
func (w *world) take(blind time.Duration, person bool) {
	w.t.Helper()
	w.epoch++
	w.driverGone = false
	if err := w.append(w.epoch, DriveTook{Driver: "test", Machine: w.machine, Boot: w.boot, Blind: blind, Person: person}); err != nil {
		w.t.Fatalf("took: %v", err)
	}
	for id := range w.s.Open {
		if !slices.ContainsFunc(w.inflight, func(r running) bool { return r.act.ID == id }) {
			out := DriveOutcome{Act: id, Result: Interrupted}
			if r := w.runs[id]; r != nil { // as the engine asks its lever
				if out.Result = RunningAct; r.landed {
					out.Result = r.final()
				}
			}
			_ = w.append(w.epoch, out)
		}
	}
}

// tick lets time pass. As the engine does, the driver makes a pass whenever an
// act answers or the last decision asked to be woken, and at the end of the tick.
func (w *world) tick(dt time.Duration) {
	w.t.Helper()
	for end := w.now.Add(dt); w.now.Before(end); {
		next := end
		if !w.driverGone {
			if w.wake.After(w.now) && w.wake.Before(next) {
				next = w.wake
			}
			for _, r := range w.inflight {
				if r.at.After(w.now) && r.at.Before(next) {
					next = r.at
				}
			}
		}
		w.advance(next)
	}
}

func (w *world) advance(to time.Time) {
	w.t.Helper()
	w.now = to
	for k, p := range w.procs {
		ended := !p.expires.IsZero() && !p.overstays && !p.rests && !w.now.Before(p.expires)
		if ended || !p.dies.IsZero() && !w.now.Before(p.dies) {
			delete(w.procs, k)
		}
	}
	w.land()
	if w.driverGone {
		return
	}
	rest := w.inflight[:0]
	for _, r := range w.inflight {
		if r.at.After(w.now) {
			rest = append(rest, r)
			continue
		}
		if err := w.append(w.epoch, DriveOutcome{Act: r.act.ID, Key: r.act.Key, Result: r.result, Detail: r.detail, Reason: fleet.Reason{Code: w.code}}); err != nil {
			w.t.Fatalf("outcome: %v", err)
		}
	}
	w.inflight = rest
	w.pass()
}

func (w *world) pass() {
	w.t.Helper()
	v := w.view()
	before := w.s
	frozen := clone(w.t, before)
	d := Next(before, v, w.p, w.now)
	if again := Next(before, v, w.p, w.now); !reflect.DeepEqual(d, again) {
		w.t.Fatalf("Next is not a function: %+v and %+v", d, again)
	}
	w.wake = d.Wake
	for _, b := range d.Events {
		if err := w.append(w.epoch, b); err != nil {
			w.t.Fatalf("Next decided on %+v: %v", b, err)
		}
		w.checkEvent(v, b)
	}
	for _, a := range d.Acts {
		if err := w.append(w.epoch, DriveIntent{Act: a}); err != nil {
			w.t.Fatalf("Next decided on act %+v: %v", a, err)
		}
		w.checkAct(a)
	}
	for _, a := range Next(w.s, v, w.p, w.now).Acts {
		if slices.ContainsFunc(d.Acts, func(b Act) bool { return b.Key == a.Key }) {
			w.t.Fatalf("act %s is asked for again while %v is on its way", a.ID, d.Acts)
		}
	}
	if !reflect.DeepEqual(frozen, clone(w.t, before)) {
		w.t.Fatalf("the state was changed in place")
	}
	for _, a := range d.Acts {
		w.do(a)
	}
}

// do carries an act out in the world.
func (w *world) do(a Act) {
	if a.Op != "" {
		result, detail, after := w.lever(a)
		w.inflight = append(w.inflight, running{act: a, at: w.now.Add(after), result: result, detail: detail})
		w.did = append(w.did, done{a, w.now, result})
		if after == 0 {
			w.land()
		}
		return
	}
	result, detail := w.answer(a)
	w.inflight = append(w.inflight, running{act: a, at: w.now.Add(w.latency), result: result, detail: detail})
	w.did = append(w.did, done{a, w.now, result})
	if a.Kind == ActExec && a.Step == StepStart && (result == Done || (result == Interrupted || result == NotDone) && !w.lost && len(w.did)%2 == 0) {
		w.started(a) // also where nobody hears of it
	}
	if result != Done {
		return
	}
	switch a.Kind {
	case ActCordon:
		w.holds = fleet.Holds{Cordon: &fleet.Hold{Kind: fleet.CordonHold}, Drain: &fleet.Hold{Kind: fleet.DrainHold, Drain: "d1"}}
		w.cordon = fleet.Cordoned
	case ActFlip:
		w.claims[a.Key] = append(w.claims[a.Key], claim{fleet.Gone, w.now})
	case ActSignal:
		p := w.procs[a.Key]
		if p == nil || !slices.Contains(a.Runs, p.run) {
			return
		}
		if a.Signal == "KILL" && !p.immortal {
			delete(w.procs, a.Key)
		} else if a.Signal == "TERM" && !p.stubborn && p.dies.IsZero() {
			p.dies = w.now.Add(3 * time.Second)
		}
	}
}

func clone(t tb, s State) State {
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatalf("encode state: %v", err)
	}
	var out State
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("decode state: %v", err)
	}
	return out
}

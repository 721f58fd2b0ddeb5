package sim

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seed  = flag.Uint64("seed", 0, "play this history only, and print its journal")
	into  = flag.String("out", "/dev/stdout", "where the journal of -seed is written")
	first = flag.Uint64("first", 1, "the first of the fixed seeds")
	many  = flag.Int("seeds", 0, "how many fixed histories TestHistories plays; 0 is a default")
	fresh = flag.Int("new", 0, "how many new histories it plays besides")
	stop  = flag.Int("stop", 20, "how many histories may fail before no more are played")
	each  = flag.Duration("progress", 0, "say how far it is, this often")
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // histories are short and make much garbage
	flag.Parse()
	os.Exit(m.Run())
}

// The even seeds are for an end, the odd ones for safety alone.
func options(seed uint64) Options { return Options{Seed: seed, Live: seed%2 == 0} }

func play(t *testing.T, o Options) (r Result) {
	synctest.Test(t, func(*testing.T) { r = Play(o) })
	return r
}

// tallied is what many histories came to.
type tallied struct {
	mu      sync.Mutex
	begun   time.Time
	played  int
	steps   int
	tally   map[string]int
	checked map[Check]int
	bad     map[uint64]string
}

func (a *tallied) add(t *testing.T, seed uint64, r Result, counts bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.played++
	a.steps += r.Steps
	for what, n := range r.Tally {
		if counts {
			a.tally[what] += n
		}
	}
	for what, n := range r.Checked {
		if counts {
			a.checked[what] += n
		}
	}
	for _, p := range r.Phases {
		if counts {
			a.tally["left in "+string(p)]++
		}
	}
	if r.Bad != "" {
		a.bad[seed] = r.Bad
		t.Errorf("seed %d (make sim SEED=%d): %s", seed, seed, r.Bad)
	}
}

func (a *tallied) say(all int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Printf("%d of %d histories, %.1f a second, %d failed\n", a.played, all, float64(a.played)/time.Since(a.begun).Seconds(), len(a.bad))
}

// playAll plays histories on every core, until some of them have failed.
func playAll(t *testing.T, seeds []uint64, fixed int) *tallied {
	a := &tallied{begun: time.Now(), tally: map[string]int{}, checked: map[Check]int{}, bad: map[uint64]string{}}
	var next int
	take := func() (int, bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if next == len(seeds) || len(a.bad) >= *stop {
			return 0, false
		}
		next++
		return next - 1, true
	}
	done := make(chan struct{})
	defer close(done)
	if *each > 0 {
		go func() {
			for tick := time.Tick(*each); ; {
				select {
				case <-tick:
					a.say(len(seeds))
				case <-done:
					return
				}
			}
		}()
	}
	t.Run("all", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for i, ok := take(); ok; i, ok = take() {
					a.add(t, seeds[i], play(t, options(seeds[i])), i < fixed)
				}
			})
		}
	})
	return a
}

// TestHistories plays fixed seeds and new ones, each for safety and for an end.
func TestHistories(t *testing.T) {
	fixed, more := 120, 10
	if racing {
		fixed, more = 10, 2
	}
	if *many > 0 || *fresh > 0 {
		fixed, more = *many, *fresh
	}
	var seeds []uint64
	for i := range fixed {
		seeds = append(seeds, *first+uint64(i))
	}
	for range more {
		seeds = append(seeds, rand.Uint64()>>24)
	}
	if more > 0 {
		fmt.Println("new seeds:", strings.Trim(fmt.Sprint(seeds[fixed:]), "[]"))
	}
	a := playAll(t, seeds, fixed)
	a.say(len(seeds))
	var lines []string
	for what, n := range a.tally {
		lines = append(lines, fmt.Sprintf("%s %d", what, n))
	}
	for what, n := range a.checked {
		lines = append(lines, fmt.Sprintf("[%s] %d", what, n))
	}
	slices.Sort(lines)
	t.Logf("%d histories, %d steps\n%s", a.played, a.steps, strings.Join(lines, "\n"))
	if len(a.bad) > 0 {
		var bad []uint64
		for s := range a.bad {
			bad = append(bad, s)
		}
		slices.Sort(bad)
		t.Errorf("failed: %d", bad)
	} else if *first == 1 && fixed >= 100 {
		a.tame(t, fixed)
	}
}

// floors are how often something happens in 500 histories at the very least: far
// less than it does. Seeds are fixed, so what falls below has become rare for a
// reason.
var floors = map[int][]string{
	300: {"answer lost", "call failed", "crash in a call", "in between", "drive.took", "drive.phase", "ask.retry", "request"},
	40: {"TERM", "act late", "came back", "disk fail", "ended by crash", "ended by owner", "ended by term",
		"fault agent ended", "fault clock", "fault console killed", "fault cut of all", "fault cut of one", "fault flapping plane", "fault frozen console",
		"fault probe", "not admitted", "renewed", "leak", "rec.uncordon", "rec.undrain", "rec.accepted",
		"phase empty", "phase deadline", "ask.escalate", "ask.hold", "ask.keep", "ask.class", "ask.extend", "ask.more_time", "ask.stop",
		"do snapshot", "do fence", "do remove", "undo snapshot", "exec start", "exec health", "proof", "end lost", "end left"},
	8: {"KILL", "drive.record", "disk torn", "ended by kill", "ended by ttl", "ended by reboot", "ended by lever", "exec unready", "do restore", "do promote", "undo restore",
		"came unasked", "admitted", "fault full disk", "fault reboot", "terminate asked", "sealed", "intruded", "waits in_flight", "waits no_room", "another class", "drive.late", "left in empty", "left in deadline", "left in stopped"},
	2: {"fault another machine", "a successor", "machine gone", "terminated by command", "terminated by poweroff", "finished", "agent dies at begun", "agent dies at sent",
		"cleaned", "waits other_machine", "waits two_copies"},
}

// tame sees that histories are not: each kind of event, and each check.
func (a *tallied) tame(t *testing.T, played int) {
	for floor, names := range floors {
		for _, what := range names {
			if least := floor * played / 500; a.tally[what] < least {
				t.Errorf("%s: %d times in %d histories, wanted %d", what, a.tally[what], played, least)
			}
		}
	}
	for _, c := range Checks {
		if a.checked[c] == 0 {
			t.Errorf("never looked at: %s", c)
		}
	}
}

// TestSameSeedSameJournal plays some histories twice.
func TestSameSeedSameJournal(t *testing.T) {
	last := uint64(8)
	if racing {
		last = 3
	}
	for s := uint64(1); s <= last; s++ {
		var once, again bytes.Buffer
		if err := play(t, options(s)).Export(&once); err != nil {
			t.Fatal(err)
		}
		if err := play(t, options(s)).Export(&again); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(once.Bytes(), again.Bytes()) {
			a, b := bytes.Split(once.Bytes(), []byte("\n")), bytes.Split(again.Bytes(), []byte("\n"))
			for i := range min(len(a), len(b)) {
				if !bytes.Equal(a[i], b[i]) {
					t.Fatalf("seed %d, event %d:\n%s\n%s", s, i+1, a[i], b[i])
				}
			}
			t.Fatalf("seed %d: %d events, then %d", s, len(a), len(b))
		}
		if once.Len() == 0 {
			t.Fatalf("seed %d: nothing happened", s)
		}
	}
}

// TestSeed replays one history and prints its journal.
func TestSeed(t *testing.T) {
	if *seed == 0 {
		return
	}
	r := play(t, options(*seed))
	out, err := os.OpenFile(*into, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := r.Export(out); err != nil {
		t.Fatal(err)
	}
	if r.Bad != "" {
		t.Error(r.Bad)
	}
}

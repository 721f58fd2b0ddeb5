package sim

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
)

var (
	seed  = flag.Uint64("seed", 0, "play this history only, and print its journal")
	into  = flag.String("out", "/dev/stdout", "where the journal of -seed is written")
	first = flag.Uint64("first", 1, "the first of the fixed seeds")
	many  = flag.Int("seeds", 0, "how many histories of each kind TestHistories plays; 0 is a default")
)

func play(t *testing.T, o Options) (r Result) {
	synctest.Test(t, func(*testing.T) { r = Play(o) })
	return r
}

// TestHistories plays fixed seeds and new ones, each for safety and for an end.
func TestHistories(t *testing.T) {
	fixed, fresh := 150, 20
	if racing {
		fixed, fresh = 12, 2
	}
	if *many > 0 {
		fixed, fresh = *many, 0
	}
	var seeds []uint64
	for i := range fixed {
		seeds = append(seeds, *first+uint64(i))
	}
	for range fresh {
		seeds = append(seeds, rand.Uint64()>>16)
	}
	ends, tally, steps, bad := map[string]int{}, map[string]int{}, 0, 0
	for _, s := range seeds {
		o := Options{Seed: s, Live: s%2 == 0}
		r := play(t, o)
		steps += r.Steps
		for what, n := range r.Tally {
			tally[what] += n
		}
		ends[string(r.Phase)]++
		if r.Bad != "" {
			t.Errorf("seed %d (make sim SEED=%d): %s", s, s, r.Bad)
			if bad++; bad == 20 {
				break
			}
		}
	}
	t.Logf("%d histories, %d steps, phases %v\n%v", len(seeds), steps, ends, tally)
	if len(seeds) < 100 {
		return
	}
	for _, what := range []string{"TERM", "KILL", "drive.took", "drive.record", "phase empty", "phase deadline", "rec.undrain", "rec.uncordon", "ask.escalate",
		"ended by crash", "ended by reboot", "ended by ttl", "do restore", "undo restore", "do promote", "do remove", "crash in a call"} {
		if tally[what] == 0 {
			t.Errorf("in %d histories never: %s", len(seeds), what)
		}
	}
}

// TestSameSeedSameJournal plays some histories twice.
func TestSameSeedSameJournal(t *testing.T) {
	for s := uint64(1); s <= 6; s++ {
		var once, again bytes.Buffer
		o := Options{Seed: s, Live: s%2 == 0}
		if err := play(t, o).Export(&once); err != nil {
			t.Fatal(err)
		}
		if err := play(t, o).Export(&again); err != nil {
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
	r := play(t, Options{Seed: *seed, Live: *seed%2 == 0})
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

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"ebb/demo"
	"ebb/drain"
	"ebb/fleet"
)

// A workload is parked on its host, comes back on a key, is parked once more, and
// comes back with the last hold: each question says before what becomes of it. It
// counts on from where it was, on this host alone.
func parkedAndResumed(t *testing.T, f testFleet) {
	const host = "gpu-048"
	tenant := demo.Spec{Kind: "sandbox", ID: "tenant-9", Class: fleet.Pausable, Owner: "kim", As: "counter", Log: filepath.Join(f.Dir, "tenant-9.log")}
	f.runs(host, tenant)
	resumed := func() drain.Word { return f.state(host).Items[tenant.Key()].Resumed }
	c := f.console("kim", 80, 24, "")
	c.drains(host, "sandbox/tenant-9")
	c.keys("2")
	c.sees("tenant-9", "nothing is left but what is parked here", "R resumes it")
	c.presses("R", "resume sandbox/tenant-9 on "+host, "both holds stay")
	c.keys("Enter") // alone
	c.sees("not done: resume sandbox/tenant-9")
	if !resumed().IsZero() {
		t.Fatal("Enter alone has resumed it")
	}
	c.presses("R", "y resume")
	c.presses("y", "runs here again")
	first := resumed()
	if first.By != "kim" {
		t.Fatalf("resumed by %q", first.By)
	}

	c.acts("d", "deadline")
	c.presses("Enter", "sandbox/tenant-9")
	c.keys("End")
	c.presses("y", "is taken up again")
	c.sees("nothing is left but what is parked here")
	c.keys(":undrain "+host, "Enter")
	c.sees("stays parked until R", "sandbox/tenant-9 of kim")
	c.presses("y", "the cordon stays; parked until", "parked: sandbox/tenant-9: R resumes it")
	for last := false; !last; { // the agent says a moment later that the drain's hold is gone
		c.keys(":uncordon "+host, "Enter")
		last = strings.Contains(c.sees("y uncordon", "sandbox/tenant-9 of kim"), "so this is resumed with it")
		if !last {
			c.keys("n")
			c.gone("y uncordon")
		}
	}
	c.sees("--leave-parked")
	c.presses("y", "serving; resuming sandbox/tenant-9")
	f.until("it is resumed once more", func() bool { return resumed().At.After(first.At) })

	before, _, err := demo.CountLog(tenant.Log)
	if err != nil {
		t.Fatal(err)
	}
	f.until("it counts on", func() bool {
		n, where, err := demo.CountLog(tenant.Log)
		if err != nil || len(where) != 1 || where[0] != host {
			t.Fatalf("it counted on %v: %v", where, err)
		}
		return n > before
	})
	c.keys("q")
	c.ended(0)
}

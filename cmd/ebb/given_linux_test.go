package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ebb/demo"
	"ebb/drain"
	"ebb/drain/journal"
	"ebb/fleet"
)

// drivenBy lets somebody drive the host's drain until the test ends, as far as
// the journal can tell.
func (f testFleet) drivenBy(holder, host string) {
	f.t.Helper()
	id := f.state(host).Drain
	j, err := journal.Open(f.t.Context(), "sqlite:"+filepath.Join(f.Dir, "journal.db"))
	if err != nil {
		f.t.Fatal(err)
	}
	l, err := j.Acquire(f.t.Context(), id, holder, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(drain.LeaseRenew)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if next, err := j.Renew(ctx, l); err == nil {
					l = next
				}
			}
		}
	}()
	f.t.Cleanup(func() { cancel(); <-ended; j.Close() })
}

// Whoever drives a drain carries out what another has asked for: a host is given
// back all the same.
func TestGivenBackToAnotherDriver(t *testing.T) {
	t.Parallel()
	f := startTestFleet(t, 2)
	const host = "gpu-041"
	f.runs(host, demo.Spec{Kind: "sandbox", ID: "tenant-9", Class: fleet.Pausable, Owner: "kim", As: "counter", Log: filepath.Join(f.Dir, "tenant-9.log")})
	f.ebb("drain", host, "--deadline", "1h", "--for", "kernel")
	f.drivenBy("vm:1", host)
	for _, step := range []struct {
		args, want []string
	}{
		{[]string{"resume", host}, []string{"resuming sandbox/tenant-9", "vm:1 resumes it: ebb board " + host}},
		{[]string{"undrain", host}, []string{"the drain hold is lifted; still cordoned by root"}},
		{[]string{"uncordon", host}, []string{"serving", "vm:1 resumes it: ebb board " + host}},
	} {
		out := f.ebb(step.args...)
		for _, want := range step.want {
			if !strings.Contains(out, want) {
				t.Errorf("ebb %s: no %q in\n%s", strings.Join(step.args, " "), want, out)
			}
		}
	}
}

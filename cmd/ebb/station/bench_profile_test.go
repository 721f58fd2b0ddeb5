//go:build linux

package station

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"syscall"
)

// envProfile names a folder where a resident engine under measurement leaves
// profiles of what was measured.
const envProfile = "EBB_BENCH_PROFILE"

// profileOnSignal profiles from one SIGUSR1 to the next.
func profileOnSignal(ctx context.Context) {
	dir := os.Getenv(envProfile)
	if dir == "" {
		return
	}
	now := make(chan os.Signal, 1)
	signal.Notify(now, syscall.SIGUSR1)
	defer signal.Stop(now)
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-now:
		}
		if n%2 == 0 {
			runtime.SetBlockProfileRate(10_000)
			if f, err := os.Create(filepath.Join(dir, "cpu")); err == nil {
				_ = pprof.StartCPUProfile(f)
			}
			continue
		}
		pprof.StopCPUProfile()
		for _, name := range []string{"block", "heap", "allocs", "goroutine"} {
			if f, err := os.Create(filepath.Join(dir, name)); err == nil {
				_ = pprof.Lookup(name).WriteTo(f, 0)
				f.Close()
			}
		}
	}
}

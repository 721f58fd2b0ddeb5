package station

import (
	"os"
	"runtime/debug"
)

// Frugal has the garbage collector keep the memory of a process that stays for
// months low, at the price of a little more work; GOGC, where it is set, wins.
func Frugal() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}

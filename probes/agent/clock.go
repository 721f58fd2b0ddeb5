package agent

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

var errNoPoweroff = errors.New("this agent has no way to power off")

// SystemClock is the machine's own time.
type SystemClock struct{}

// Now is the wall clock.
func (SystemClock) Now() time.Time { return time.Now() }

// Boottime is CLOCK_BOOTTIME.
func (SystemClock) Boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

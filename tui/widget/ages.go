package widget

import (
	"fmt"
	"math"
	"time"
)

const day = 24 * time.Hour

// Age is how long ago something was, as coarse as a person reads it: "now",
// "4s", "21m", "5h 10m", "13h", "3d 2h", "12d". It never needs more than seven
// cells. What lies ahead (clocks differ) is "in 4s", not hidden as "now".
func Age(d time.Duration) string {
	if d <= -time.Second {
		return "in " + coarse(positive(d))
	}
	if d < time.Second {
		return "now"
	}
	return coarse(d)
}

// Ago is Age in a sentence: "4s ago", "just now".
func Ago(d time.Duration) string {
	if d > -time.Second && d < time.Second {
		return "just now"
	}
	if d < 0 {
		return Age(d)
	}
	return Age(d) + " ago"
}

// Heard is how long ago a source was read that is read all the time: "<10s" while
// it is fresh, then in steps of ten seconds, then as Age has it. It changes so
// seldom that a screen on which nothing happens is quiet on the line.
func Heard(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 10*time.Second:
		return "<10s"
	case d < time.Minute:
		return Age(d.Truncate(10 * time.Second))
	}
	return Age(d)
}

func coarse(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 10*time.Hour:
		return two(int64(d/time.Hour), "h", int64(d%time.Hour/time.Minute), "m")
	case d < day:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d < 10*day:
		return two(int64(d/day), "d", int64(d%day/time.Hour), "h")
	}
	return fmt.Sprintf("%dd", d/day)
}

func two(a int64, unit string, b int64, small string) string {
	if b == 0 {
		return fmt.Sprintf("%d%s", a, unit)
	}
	return fmt.Sprintf("%d%s %d%s", a, unit, b, small)
}

// Clock is a countdown: "3:40", "24:10", "1:05:00". Part seconds are dropped, so
// it never shows more time than there is. Below zero it has a minus sign.
func Clock(d time.Duration) string {
	if d < 0 {
		if s := Clock(positive(d)); s != "0:00" {
			return "-" + s
		}
		return "0:00"
	}
	s := int64(d / time.Second)
	h, m, s := s/3600, s/60%60, s%60
	if h > 0 {
		return fmt.Sprintf("%d:%02d:%02d", h, m, s)
	}
	return fmt.Sprintf("%d:%02d", m, s)
}

// Left is a countdown in words: "24:10 left", and "over by 1:10" once it is past.
func Left(d time.Duration) string {
	if d < 0 {
		return "over by " + Clock(positive(d))
	}
	return Clock(d) + " left"
}

// positive is -d; the lowest duration has no opposite and becomes the highest.
func positive(d time.Duration) time.Duration {
	if d == math.MinInt64 {
		return math.MaxInt64
	}
	return -d
}

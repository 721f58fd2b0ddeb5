package widget

import (
	"math"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"ebb/themes"
)

func TestAge(t *testing.T) {
	for _, tc := range []struct {
		d    time.Duration
		want string
	}{
		{0, "now"}, {999 * time.Millisecond, "now"}, {-500 * time.Millisecond, "now"},
		{time.Second, "1s"}, {4 * time.Second, "4s"}, {59 * time.Second, "59s"},
		{time.Minute, "1m"}, {21*time.Minute + 59*time.Second, "21m"},
		{time.Hour, "1h"}, {5*time.Hour + 10*time.Minute, "5h 10m"}, {13*time.Hour + 59*time.Minute, "13h"},
		{24 * time.Hour, "1d"}, {74 * time.Hour, "3d 2h"}, {12*day + 5*time.Hour, "12d"}, {400 * day, "400d"},
		{-4 * time.Second, "in 4s"}, {-3 * time.Minute, "in 3m"},
	} {
		if got := Age(tc.d); got != tc.want {
			t.Errorf("Age(%v) = %q, want %q", tc.d, got, tc.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(9999*day)).Draw(t, "d"))
		if got := Age(d); len(got) > 7 || got == "" {
			t.Errorf("Age(%v) = %q", d, got)
		}
	})
}

func TestClock(t *testing.T) {
	for _, tc := range []struct {
		d           time.Duration
		clock, left string
	}{
		{0, "0:00", "0:00 left"},
		{220 * time.Second, "3:40", "3:40 left"},
		{24*time.Minute + 10*time.Second + 900*time.Millisecond, "24:10", "24:10 left"},
		{59*time.Minute + 59*time.Second, "59:59", "59:59 left"},
		{65 * time.Minute, "1:05:00", "1:05:00 left"},
		{100 * time.Hour, "100:00:00", "100:00:00 left"},
		{-70 * time.Second, "-1:10", "over by 1:10"},
		{-300 * time.Millisecond, "0:00", "over by 0:00"},
		{math.MinInt64, "-2562047:47:16", "over by 2562047:47:16"},
	} {
		if got := Clock(tc.d); got != tc.clock {
			t.Errorf("Clock(%v) = %q, want %q", tc.d, got, tc.clock)
		}
		if got := Left(tc.d); got != tc.left {
			t.Errorf("Left(%v) = %q, want %q", tc.d, got, tc.left)
		}
	}
}

func TestBar(t *testing.T) {
	g := themes.UTF8Glyphs()
	for _, tc := range []struct {
		width int
		f     float64
		want  string
	}{
		{10, 0.6, "▇▇▇▇▇▇░░░░"}, {10, 0, "░░░░░░░░░░"}, {10, 1, "▇▇▇▇▇▇▇▇▇▇"}, {10, 2, "▇▇▇▇▇▇▇▇▇▇"},
		{10, -1, "░░░░░░░░░░"}, {10, 0.999, "▇▇▇▇▇▇▇▇▇░"}, {10, 0.001, "▇░░░░░░░░░"},
		{4, math.NaN(), "░░░░"}, {4, math.Inf(1), "▇▇▇▇"}, {1, 0.9, "░"}, {0, 1, ""}, {-1, 1, ""},
	} {
		if got := Bar(tc.width, tc.f, themes.Styles{}, g); got != tc.want {
			t.Errorf("Bar(%d, %v) = %q, want %q", tc.width, tc.f, got, tc.want)
		}
	}
	if got := Bar(4, 0.5, themes.Styles{}, themes.ASCIIGlyphs()); got != "##.." {
		t.Errorf("ASCII bar %q", got)
	}
}

func TestSpark(t *testing.T) {
	g := themes.UTF8Glyphs()
	nan := math.NaN()
	for _, tc := range []struct {
		v     []float64
		width int
		want  string
	}{
		{[]float64{17, 15, 12, 8, 4, 0}, 6, "█▇▆▄▃▁"},
		{[]float64{2, 1}, 4, "█▅  "},
		{[]float64{4, 4, 2, 2, 0, 0}, 3, "█▅▁"},
		{[]float64{4, nan, 0}, 3, "█ ▁"},
		{[]float64{nan, nan, 4, 4}, 2, " █"},
		{[]float64{0, 0}, 2, "▁▁"},
		{nil, 3, "   "}, {[]float64{1}, 0, ""},
	} {
		if got := Spark(tc.v, tc.width, g); got != tc.want {
			t.Errorf("Spark(%v, %d) = %q, want %q", tc.v, tc.width, got, tc.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOf(rapid.Float64()).Draw(t, "v")
		w := rapid.IntRange(0, 50).Draw(t, "w")
		if got := ansi.StringWidth(Spark(v, w, g)); got != w {
			t.Errorf("%d cells, want %d", got, w)
		}
		f := rapid.Float64().Draw(t, "f")
		if got := ansi.StringWidth(Bar(w, f, themes.Styles{}, g)); got != w {
			t.Errorf("bar has %d cells, want %d", got, w)
		}
	})
}

func TestHeard(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "<10s", 0: "<10s", 9999 * time.Millisecond: "<10s", 10 * time.Second: "10s", 19 * time.Second: "10s",
		59 * time.Second: "50s", time.Minute: "1m", 3 * time.Hour: "3h",
	} {
		if got := Heard(d); got != want {
			t.Errorf("Heard(%v) = %q, want %q", d, got, want)
		}
	}
}

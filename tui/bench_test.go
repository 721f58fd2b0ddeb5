package tui

import (
	"runtime"
	"slices"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"ebb/tui/feed"
)

// The fleets that the console is measured with: a small one, and the largest that
// it is made for, of about 50,000 workloads.
const (
	fewHosts  = 12
	mostHosts = 10_000
)

// opened is a console at a terminal of 120×36 that has drawn its first frame.
func opened(tb testing.TB, f feed.Frame) *Model {
	tb.Helper()
	m, err := New(tb.Context(), Options{Source: newSource(f), Verbs: &verbs{}, Theme: "dark", Now: func() time.Time { return now }, Local: time.UTC,
		Getenv: func(k string) string { return map[string]string{"LANG": "C.UTF-8", "TERM": "xterm-256color"}[k] }})
	if err != nil {
		tb.Fatal(err)
	}
	m.Update(tea.WindowSizeMsg{Width: 120, Height: 36})
	m.Update(frameMsg{frame: f})
	m.View()
	return m
}

// timed runs one step again and again, and reports the time that 99 of 100 stay
// under, beside the mean.
func timed(b *testing.B, step func(i int)) {
	b.Helper()
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		step(i)
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// A key moves the cursor on the screen of all hosts. Aim: 4 ms.
func BenchmarkKey(b *testing.B) {
	m := opened(b, crowd(mostHosts))
	timed(b, func(i int) {
		m.Update(keyPress([]string{"j", "j", "j", "k", "pgdown", "pgup"}[i%6]))
		m.View()
	})
}

// A new frame, in which one host of ten was read anew, on the screen of all hosts
// and on the board of one. Aim: 8 ms for 99 of 100.
func BenchmarkFrame(b *testing.B) {
	frames := [2]feed.Frame{crowd(mostHosts), crowd(mostHosts)}
	for i := 0; i < mostHosts; i += 10 {
		v := &frames[1].Snapshot.Hosts[i]
		v.Summary.At, v.Summary.Value.At = now, now
		v.Summary.Value.GPUs[0] = i % 8
	}
	for _, screen := range []string{"fleet", "board", "handover"} {
		b.Run(screen, func(b *testing.B) {
			m := opened(b, frames[0])
			if key := map[string]string{"board": "2", "handover": "6"}[screen]; key != "" {
				m.Update(keyPress(key))
			}
			timed(b, func(i int) {
				m.Update(frameMsg{frame: frames[(i+1)%2]})
				m.View()
			})
		})
	}
}

// The hosts are sorted or grouped otherwise. Aim: 100 ms, so that it seems at once.
func BenchmarkArrange(b *testing.B) {
	m := opened(b, crowd(mostHosts))
	timed(b, func(i int) {
		m.Update(keyPress([]string{"s", "p"}[i%2]))
		m.View()
	})
}

// From nothing to the first frame drawn, once the hosts are read. Aim: 100 ms with
// 12 hosts, 300 ms with 10,000.
func BenchmarkFirstFrame(b *testing.B) {
	for name, n := range map[string]int{"12 hosts": fewHosts, "10000 hosts": mostHosts} {
		b.Run(name, func(b *testing.B) {
			f := crowd(n)
			timed(b, func(int) { opened(b, f) })
		})
	}
}

// What is in memory with 10,000 hosts after some frames, those of the feed too.
// Aim: under 150 MiB.
func BenchmarkHeap(b *testing.B) {
	var m *Model
	for b.Loop() {
		m = opened(b, crowd(mostHosts))
		for range 5 {
			m.Update(frameMsg{frame: crowd(mostHosts)})
			m.View()
		}
	}
	var mem runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&mem)
	b.ReportMetric(float64(mem.HeapAlloc)/(1<<20), "MiB")
	runtime.KeepAlive(m)
}

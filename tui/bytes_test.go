package tui

import (
	"fmt"
	"testing"
	"time"

	"github.com/charmbracelet/colorprofile"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/paint"
)

// crowd is a fleet of n hosts with five workloads each, every fiftieth draining.
func crowd(n int) feed.Frame {
	f := fixture()
	f.Snapshot.Hosts, f.Drains = nil, map[fleet.HostID]drain.State{}
	for i := range n {
		holds, cordon := fleet.Holds{}, fleet.Uncordoned
		if i%50 == 7 {
			holds, cordon = fleet.Holds{Cordon: cordonHold("mira", "CVE-2026-1183", time.Duration(i)*time.Minute)}, fleet.Cordoned
		}
		h := host(fmt.Sprintf("gpu-%05d", i), [6]int{i % 3, 1 + i%5, i % 2, i % 4 / 3, 0, 0}, [2]int{i % 9, 8}, holds, cordon)
		h.Facts, h.Claims.Value = fleet.Reading[fleet.Facts]{}, nil
		at := ago(time.Duration(500+i*37%3000) * time.Millisecond)
		h.Summary.At, h.Summary.Value.At = at, at
		if i%400 == 7 {
			s := drain041()
			s.Host = h.Host.ID
			f.Drains[h.Host.ID] = s
			h.Summary.Value.Holds.Drain = drainHold("d-31")
		}
		f.Snapshot.Hosts = append(f.Snapshot.Hosts, h)
	}
	return f
}

// meter is what a console at a terminal sends.
type meter struct {
	*console
	pen *paint.Pen
}

func meterOn(t *testing.T, f feed.Frame) *meter {
	t.Helper()
	m := &meter{open(t, f, 120, 36, func(o *Options) { o.Theme = "dark" }), paint.NewPen(colorprofile.TrueColor)}
	m.sent()
	return m
}

// sent is how many bytes lead from the last screen to this one.
func (m *meter) sent() int { return len(m.pen.Draw(m.m.Screen(), 120, 36)) }

// seconds is the most bytes that a second of nothing but clocks takes, while all
// hosts are read every two seconds.
func (m *meter) seconds(n int) int {
	worst, sum := 0, 0
	for s := range n {
		m.clock = m.clock.Add(time.Second)
		f := m.m.frame
		f.At, f.Made = m.clock, m.clock
		f.Journal.At = m.clock.Add(-time.Duration(s%5) * time.Second)
		f.Snapshot.Planes = []fleet.ProbeStatus{{Name: "prod", Status: fleet.OK, At: m.clock.Add(-time.Duration(s%3) * time.Second)}}
		hosts := make([]fleet.HostView, len(f.Snapshot.Hosts))
		for i, h := range f.Snapshot.Hosts {
			if (i+s)%2 == 0 && h.Unreachable.IsZero() {
				h.Summary.At = m.clock.Add(-time.Duration(i%10) * 20 * time.Millisecond)
				if h.Facts.Status == fleet.OK {
					h.Facts.At = h.Summary.At
				}
			}
			hosts[i] = h
		}
		f.Snapshot.Hosts = hosts
		m.frame(f)
		n := m.sent()
		worst = max(worst, n)
		sum += n
	}
	m.t.Logf("worst second %d bytes, mean %d", worst, sum/n)
	return sum / n
}

// What goes down a slow line, on a terminal of 120 by 36 in all colours.
func TestBytes(t *testing.T) {
	t.Run("clocks on the fleet screen", func(t *testing.T) {
		m := meterOn(t, crowd(1000))
		if n := m.seconds(12); n >= 150 {
			t.Errorf("%d bytes a second", n)
		}
	})
	t.Run("clocks on the board", func(t *testing.T) {
		m := meterOn(t, fixture())
		m.toBoardRow("etl-legacy")
		m.sent()
		if n := m.seconds(12); n >= 400 {
			t.Errorf("%d bytes a second", n)
		}
	})
	t.Run("keys", func(t *testing.T) {
		m := meterOn(t, crowd(1000))
		if n, mean := m.presses("down", 45); n >= 500 {
			t.Errorf("a key takes %d bytes, %d in the mean", n, mean)
		}
	})
	// The worst page is the one on which every row becomes one of another kind.
	t.Run("pages", func(t *testing.T) {
		m := meterOn(t, crowd(1000))
		if worst, mean := m.presses("pgdown", 15); mean >= 2048 || worst >= 3072 {
			t.Errorf("a page takes %d bytes, %d in the mean", worst, mean)
		}
	})
}

// presses is the most bytes that one press of a key takes, and the mean.
func (m *meter) presses(key string, n int) (worst, mean int) {
	for range n {
		m.press(key)
		b := m.sent()
		worst, mean = max(worst, b), mean+b
	}
	m.t.Logf("worst %d bytes, mean %d", worst, mean/n)
	return worst, mean / n
}

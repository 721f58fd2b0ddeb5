package tui

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
)

const gpu044 = fleet.HostID("prod/gpu-044")

var lena, kim = wl("vm", "nb-lena-12"), wl("vm", "nb-kim-3")

// drained is the fixture with another drain of gpu-041, under a policy by which what
// is pausable can be parked.
func drained(change func(*drain.State)) feed.Frame {
	f := fixture()
	f.Policy.Levers = map[string]drain.LeverSpec{"vm": {Name: "vm"}}
	s := drain041()
	changeItem(&s, lena, func(it *drain.Item) { it.Lever, it.Reason = "vm", fleet.Reason{} })
	if change != nil {
		change(&s)
	}
	f.Drains[gpu041] = s
	return f
}

func changeItem(s *drain.State, k fleet.Key, change func(*drain.Item)) {
	it := s.Items[k]
	change(&it)
	s.Items[k] = it
}

// resting is a drain of which nothing is left but what is parked.
func resting(s *drain.State) {
	s.Phase, s.Since, s.Driver, s.Lost = drain.Parked, ago(3*time.Minute), "", nil
	for k, it := range s.Items {
		switch k {
		case lena, kim:
			it.Reason, it.Phase, it.Lever = fleet.Because(drain.WaitParked, "since", "2026-11-29T14:20:59Z"), fleet.AtRest, "vm"
			it.Move = drain.Move{Lever: "vm", Class: fleet.Pausable, Park: true, Done: map[drain.Step]time.Time{drain.StepPark: ago(5 * time.Minute)}}
		default:
			it.End, it.EndBy, it.EndAt = drain.LeftHost, "lever", ago(6*time.Minute)
		}
		s.Items[k] = it
	}
}

// lifted is the same after the drain's hold has been lifted.
func lifted(s *drain.State) {
	resting(s)
	s.Undone = true
}

func TestParkAndShip(t *testing.T) {
	byRule := func(s *drain.State) { changeItem(s, lena, func(it *drain.Item) { it.Park = true }) }
	for name, tc := range map[string]struct {
		change func(*drain.State)
		row    string
		keys   []string
		want   string // what is asked
		shows  string
	}{
		"park":                        {nil, "nb-lena-12", []string{"p"}, "ask prod/gpu-041 ask.park {Key:vm/nb-lena-12 Ship:false}", "to be parked here, not shipped; S takes that back"},
		"ship":                        {byRule, "nb-lena-12", []string{"S"}, "ask prod/gpu-041 ask.park {Key:vm/nb-lena-12 Ship:true}", "to be restored elsewhere, not parked; p takes that back"},
		"parked already, by its rule": {byRule, "nb-lena-12", []string{"p"}, "", "is to be parked already"},
		"shipped already":             {nil, "nb-lena-12", []string{"S"}, "", "is to be shipped already"},
		"on its way":                  {nil, "nb-kim-3", []string{"p"}, "", "is on its way already"},
		"another class":               {nil, "web-7", []string{"p"}, "", "only what is pausable is parked"},
		"retire":                      {func(s *drain.State) { s.For = fleet.ForRetire }, "nb-lena-12", []string{"p"}, "", "nothing is parked there"},
		"of its engine": {func(s *drain.State) {
			s.For = fleet.ForEngine
			changeItem(s, lena, func(it *drain.Item) { it.Needs.Compat = map[string]string{"engine": "1.4"} })
		}, "nb-lena-12", []string{"p"}, "", "its snapshot needs engine"},
		"no lever": {func(s *drain.State) { changeItem(s, lena, func(it *drain.Item) { it.Lever = "tape" }) }, "nb-lena-12", []string{"p"}, "", "tape is not configured"},
		"marked, one of two": {nil, "nb-kim-3", []string{"space", "space", "p"}, "ask prod/gpu-041 ask.park {Key:vm/nb-lena-12 Ship:false}",
			"left as they are: vm/nb-kim-3"},
		"has left": {func(s *drain.State) { changeItem(s, lena, func(it *drain.Item) { it.End = drain.LeftHost }) }, "nb-lena-12", []string{"p"}, "", "has left already"},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, drained(tc.change), 120, 40, nil)
			c.toBoardRow(tc.row)
			c.press(tc.keys...)
			if got := c.v.called(); got != tc.want {
				t.Errorf("called\n%s\nwant\n%s", got, tc.want)
			}
			c.shows(tc.shows)
		})
	}
}

// A choice is made on what is there now, like every act on what a drain would do.
func TestParkOfAHostThatIsSilent(t *testing.T) {
	for _, key := range []string{"p", "S"} {
		f := drained(nil)
		hostOf(&f, gpu041).Unreachable = ago(time.Minute)
		c := open(t, f, 120, 36, nil)
		c.toBoardRow("nb-lena-12")
		c.press(key)
		c.shows("refused: ", "unreachable since")
		c.only()
	}
}

// The line of keys names the choice that is open, on the row that has it.
func TestLineNamesParkOrShip(t *testing.T) {
	c := open(t, drained(nil), 120, 36, nil)
	c.toBoardRow("nb-lena-12")
	c.shows("? keys   p park")
	c.toBoardRow("nb-kim-3")
	c.showsNot("p park", "S ship")
	c.frame(drained(func(s *drain.State) { changeItem(s, lena, func(it *drain.Item) { it.Lever = "" }) })) // nothing could park it
	c.toBoardRow("nb-lena-12")
	c.showsNot("p park", "S ship")
	c.frame(drained(func(s *drain.State) { changeItem(s, lena, func(it *drain.Item) { it.Park = true }) }))
	c.toBoardRow("nb-lena-12")
	c.shows("? keys   S ship")
}

// What is parked is named on the fleet, on the board and in the details of the host,
// with the key that brings it back; the dialog names each.
func TestResume(t *testing.T) {
	for _, w := range []int{80, 120, 200} {
		c := open(t, drained(resting), w, 36, nil)
		c.goHost("gpu-041")
		c.shows("gpu-041: parked: vm/nb-kim-3, vm/nb-lena-12 · R resumes it")
		c.press("i")
		c.shows("at rest    parked: vm/nb-kim-3, vm/nb-lena-12", "R resumes it")
		c.press("esc", "R")
		c.painted()
		c.shows("resume 2 workloads on gpu-041", "vm/nb-lena-12 of lena, parked here since 14:20", "vm/nb-kim-3 of kim", "both holds stay")
		c.press("enter")
		c.only()
		c.press("R")
		c.painted()
		c.press("y")
		c.only("ask prod/gpu-041 ask.resume {Key:/}")
		c.shows("vm/nb-kim-3, vm/nb-lena-12 asked for")
	}
}

func TestResumeOnTheBoard(t *testing.T) {
	c := open(t, drained(resting), 120, 36, nil)
	c.toBoardRow("nb-lena-12")
	c.shows("it may be rebooted; R resumes it", "R resume", "? keys   R resume")
	c.press("R")
	c.painted()
	c.shows("resume vm/nb-lena-12 on gpu-041", "parked as before: vm/nb-kim-3; :resume gpu-041 brings back all")
	c.press("y")
	c.only("ask prod/gpu-041 ask.resume {Key:vm/nb-lena-12}")
	c.v.calls = nil
	c.toBoardRow("web-7") // it has left: all that is parked is meant
	c.press("R")
	c.painted()
	c.shows("resume 2 workloads")
	c.press("y")
	c.only("ask prod/gpu-041 ask.resume {Key:/}")
	c.v.calls = nil
	c.toBoardRow("nb-kim-3")
	c.press("space", "space", "R")
	c.painted()
	c.press("y")
	c.only("ask prod/gpu-041 ask.resume {Key:vm/nb-kim-3}", "ask prod/gpu-041 ask.resume {Key:vm/nb-lena-12}")
	c.v.calls = nil
	c.toBoardRow("nb-lena-12")
	c.command("resume gpu-041")
	c.painted()
	c.shows("resume 2 workloads")
	c.press("esc")
	c.command("resume gpu-041 vm/nb-kim-3")
	c.painted()
	c.shows("resume vm/nb-kim-3 on gpu-041")
	c.press("esc")
	c.command("resume gpu-041 web-7")
	c.shows("nothing on gpu-041 is called web-7")
	c.only()
}

// A drain that was lifted leaves what it parked behind: it is shown and resumed all
// the same, and one that could not be resumed needs somebody.
func TestResumeBehindTheDrain(t *testing.T) {
	c := open(t, drained(lifted), 120, 36, nil)
	c.goHost("gpu-041")
	c.shows("parked: vm/nb-kim-3, vm/nb-lena-12")
	c.press("enter")
	c.shows("parked: vm/nb-kim-3, vm/nb-lena-12: R resumes it", "? keys   R resume")
	c.press("R")
	c.painted()
	c.showsNot("the drain ends")
	c.press("y")
	c.only("ask prod/gpu-041 ask.resume {Key:/}")
	c.frame(drained(func(s *drain.State) {
		lifted(s)
		for k, reason := range map[fleet.Key]fleet.Reason{kim: fleet.Because(drain.WaitLever), lena: fleet.Because(drain.WaitNotResumed, "step", "resume", "detail", "no memory")} {
			changeItem(s, k, func(it *drain.Item) { it.Resume, it.Reason = drain.Word{By: "mira", At: now}, reason })
		}
	}))
	c.shows("not resumed: vm/nb-lena-12; resuming: vm/nb-kim-3: R resumes it")
	c.goHost("gpu-041")
	c.shows("▸ ▲ gpu-041")
}

func TestResumeIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		frame feed.Frame
		want  string
	}{
		"nothing parked": {drained(nil), "nothing is parked here"},
		"no drain":       {func() feed.Frame { f := fixture(); f.Drains = nil; return f }(), "nothing is parked here"},
		"at work":        {drained(func(s *drain.State) { resting(s); s.Phase = drain.Draining }), "would park it again"},
		"stale": {func() feed.Frame {
			f := drained(resting)
			hostOf(&f, gpu041).Unreachable = ago(time.Minute)
			return f
		}(), "unreachable since"},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, tc.frame, 120, 36, nil)
			c.goHost("gpu-041")
			c.press("R")
			c.painted()
			c.shows("refused: resume gpu-041", tc.want)
			if next := "s stop, then R"; name == "at work" {
				c.shows(next)
			} else {
				c.showsNot(next)
			}
			c.only()
		})
	}
	c := open(t, drained(resting), 120, 36, nil)
	c.goHost("gpu-041")
	c.press("space", "R")
	c.shows("resume takes one host, and 1 are marked")
	c.only()
}

// What is parked when the dialog opened is what is meant.
func TestResumeOfWhatHasChanged(t *testing.T) {
	for name, change := range map[string]func(*drain.State){
		"another one parked": func(s *drain.State) {
			changeItem(s, wl("container", "web-7"), func(it *drain.Item) {
				it.End = ""
				it.Move = drain.Move{Park: true, Done: map[drain.Step]time.Time{drain.StepPark: now}}
			})
		},
		"one lost":      func(s *drain.State) { changeItem(s, kim, func(it *drain.Item) { it.End = drain.Lost }) },
		"another drain": func(s *drain.State) { s.Drain = "d-77" },
		"begun anew":    func(s *drain.State) { s.Phase = drain.Draining },
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, drained(resting), 120, 36, nil)
			c.goHost("gpu-041")
			c.press("R")
			c.painted()
			c.frame(drained(func(s *drain.State) { resting(s); change(s) }))
			c.press("y")
			c.only()
			c.shows("refused: resume gpu-041")
		})
	}
}

// Lifting a hold says beforehand what becomes of what is parked.
func TestLiftingSaysWhatIsResumed(t *testing.T) {
	held := func(f feed.Frame, h fleet.Holds) feed.Frame {
		v := hostOf(&f, gpu041)
		v.Summary.Value.Holds, v.Facts.Value.Holds = h, h
		return f
	}
	cordon, hold := cordonHold("mira", "CVE", time.Hour), drainHold("d-31")
	c := open(t, held(drained(lifted), fleet.Holds{Cordon: cordon}), 100, 30, nil)
	c.goHost("gpu-041")
	c.press("u")
	c.painted()
	c.shows("it takes new work again", "it is the last hold, so this is resumed with it:", "vm/nb-kim-3 of kim", "vm/nb-lena-12 of lena", "ebb uncordon gpu-041 --leave-parked")
	c.press("esc")
	c.frame(held(drained(resting), fleet.Holds{Cordon: cordon, Drain: hold}))
	c.press("u")
	c.painted()
	c.shows("its drain hold stays", "stays parked until R, or until the last hold is lifted:", "vm/nb-kim-3 of kim")
	c.press("esc")
	c.command("undrain gpu-041")
	c.painted()
	c.shows("the cordon stays", "stays parked until R", "vm/nb-kim-3 of kim")
	c.press("esc")
	c.frame(held(drained(resting), fleet.Holds{Drain: hold}))
	c.command("undrain gpu-041")
	c.painted()
	c.shows("it is the last hold, so this is resumed with it:", "ebb undrain gpu-041 --leave-parked")
	c.only()
}

// away is a frame in which the host is listed no more on which a replacement of web-7
// was begun.
func away(change func(*drain.State)) feed.Frame {
	f := drained(func(s *drain.State) {
		changeItem(s, wl("container", "web-7"), func(it *drain.Item) { it.Reason = fleet.Because(drain.WaitTargetGone, "target", "gpu-044") })
		if change != nil {
			change(s)
		}
	})
	var left []fleet.HostView
	for _, v := range f.Snapshot.Hosts {
		if v.Host.ID != gpu044 {
			left = append(left, v)
		}
	}
	f.Snapshot.Hosts = left
	return f
}

func TestTargetGone(t *testing.T) {
	c := open(t, away(nil), 120, 40, nil)
	c.toBoardRow("web-7")
	c.shows("T target gone", "? keys   T target gone")
	c.press("T")
	c.painted()
	c.shows("target gone: gpu-044 will never run anything again", "prod/gpu-044 is listed by no plane", "container/web-7 of search", "there are two of each", "type gpu-044")
	c.press("enter")
	c.only()
	c.press("T")
	c.painted()
	c.text("gpu-041")
	c.press("enter")
	c.shows("that is not gpu-044")
	c.press("ctrl+u")
	c.send(tea.PasteMsg{Content: "gpu-044"})
	c.press("enter")
	c.only()
	c.press("T")
	c.painted()
	c.text("gpu-044")
	c.press("enter")
	c.only("ask prod/gpu-041 ask.target_gone {Key:container/web-7 Target:prod/gpu-044 Reason:}")
	c.shows("gpu-044 is taken for gone")
	c.v.calls = nil
	c.command("target-gone gpu-041 web-7 its rack burned")
	c.painted()
	c.text("gpu-044")
	c.press("enter")
	c.only("ask prod/gpu-041 ask.target_gone {Key:container/web-7 Target:prod/gpu-044 Reason:its rack burned}")
}

// One question is about one host, whatever was begun there.
func TestTargetGoneOfSeveral(t *testing.T) {
	also := func(on fleet.HostID) func(*drain.State) {
		return func(s *drain.State) {
			changeItem(s, wl("container", "vllm-mistral"), func(it *drain.Item) { it.Target, it.StartedAt = on, ago(time.Minute) })
		}
	}
	c := open(t, away(also(gpu044)), 120, 40, nil)
	c.toBoardRow("vllm-mistral")
	c.press("space", "space", "T")
	c.painted()
	c.shows("container/vllm-mistral of inference", "container/web-7 of search")
	c.text("gpu-044")
	c.press("enter")
	if got := c.v.called(); strings.Count(got, "ask.target_gone") != 2 || strings.Count(got, "Target:prod/gpu-044") != 2 {
		t.Errorf("called %s", got)
	}
	c = open(t, away(also("prod/gpu-077")), 120, 40, nil)
	c.toBoardRow("vllm-mistral")
	c.press("space", "space", "T")
	c.painted()
	c.shows("refused: target-gone", "container/web-7", "one host at a time")
	c.only()
}

func TestTargetGoneIsRefused(t *testing.T) {
	healthy := func(s *drain.State) {
		changeItem(s, wl("container", "web-7"), func(it *drain.Item) { it.HealthyAt = now })
	}
	for name, tc := range map[string]struct {
		frame feed.Frame
		row   string
		want  string
	}{
		"nothing in doubt":  {away(nil), "etl-legacy", "job/etl-legacy has nothing in doubt on another host"},
		"a move":            {away(nil), "nb-kim-3", "vm/nb-kim-3 has nothing in doubt"},
		"it answers":        {drained(nil), "web-7", "gpu-044 answers, last read 1s ago: it is not gone"},
		"it is healthy":     {away(healthy), "web-7", "container/web-7 has nothing in doubt"},
		"the host is stale": {func() feed.Frame { f := away(nil); hostOf(&f, gpu041).Unreachable = now; return f }(), "web-7", "unreachable since"},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, tc.frame, 120, 40, nil)
			c.toBoardRow(tc.row)
			c.clock = now
			c.press("T")
			c.painted()
			c.shows("refused: target-gone", tc.want)
			c.only()
		})
	}
	for name, changed := range map[string]feed.Frame{
		"it answers again": drained(nil),
		"it is healthy":    away(healthy),
		"another target": away(func(s *drain.State) {
			changeItem(s, wl("container", "web-7"), func(it *drain.Item) { it.Target = "prod/gpu-045" })
		}),
		"another drain": away(func(s *drain.State) { s.Drain = "d-77" }),
		"lifted":        away(func(s *drain.State) { s.Undone = true }),
	} {
		t.Run("between dialog and commit: "+name, func(t *testing.T) {
			c := open(t, away(nil), 120, 40, nil)
			c.toBoardRow("web-7")
			c.press("T")
			c.painted()
			c.text("gpu-044")
			c.clock = now.Add(time.Second)
			c.frame(changed)
			c.press("enter")
			c.only()
			c.shows("refused: target-gone")
		})
	}
}

// The list of commands says why each can't be done here, and is completed with what
// it can be done to.
func TestPaletteOfParked(t *testing.T) {
	for _, tc := range []struct {
		frame       feed.Frame
		typed, want string
		not         string
	}{
		{drained(nil), "resume", "✗ gpu-041: nothing is parked here", ""},
		{drained(nil), "ship", "✗ gpu-041: nothing there is to be parked", ""},
		{drained(nil), "park gpu-041 ", "vm/nb-lena-12", "container/web-7"},
		{drained(nil), "target-gone gpu-041 ", "container/web-7", "db/pg-orders"},
		{drained(resting), "resume gpu-041 ", "vm/nb-kim-3", "container/web-7"},
		{drained(resting), "park", "✗ gpu-041: nothing there can be parked", ""},
		{drained(lifted), "resume", "bring back what is parked on a host", "✗ gpu-041"},
	} {
		c := open(t, tc.frame, 120, 36, nil)
		c.goHost("gpu-041")
		c.press(":")
		c.m.line.prompt.SetValue(tc.typed)
		c.m.line.changed(c.m)
		got := strings.Join(c.m.palette(120, 10), "\n")
		if !strings.Contains(got, tc.want) || tc.not != "" && strings.Contains(got, tc.not) {
			t.Errorf("%s: %s", tc.typed, got)
		}
	}
}

// While a drain has still to find what runs, what is to become of it can be said
// already: once it is found, it may be on its way at once.
func TestSaidBeforeTheDrainLooks(t *testing.T) {
	f := drained(func(s *drain.State) { s.Phase, s.First, s.Items, s.Lost = drain.Cordoning, false, nil, nil })
	h := hostOf(&f, gpu041)
	h.Findings = append(h.Findings, fleet.Finding{Key: lena, Verdict: fleet.Agreed, Class: fleet.Pausable, Owner: "lena",
		Workload: &fleet.Workload{Key: lena, Rule: "manifest", Class: fleet.Pausable, Phase: fleet.Running, Run: pid(106)}})
	f.Policy.Rules = []fleet.ClassRule{{Match: fleet.RuleMatch{Kind: "vm"}, Class: fleet.Pausable, Lever: "vm"}}
	for _, tc := range []struct{ row, key, want, shows string }{
		{"nb-lena-12", "p", "ask prod/gpu-041 ask.park {Key:vm/nb-lena-12 Ship:false}", "is to be parked here"},
		{"nb-lena-12", "S", "", "is to be shipped already"},
		{"nb-lena-12", "h", "ask prod/gpu-041 ask.hold {Key:vm/nb-lena-12 Reason:being looked at}", "held; why"},
		{"web-7", "p", "", "only what is pausable is parked"},
	} {
		c := open(t, f, 120, 36, nil)
		c.toBoardRow(tc.row)
		c.press(tc.key)
		if got := c.v.called(); got != tc.want {
			t.Errorf("%s on %s: called %q", tc.key, tc.row, got)
		}
		c.shows(tc.shows)
	}
	for _, key := range []string{"e", "r", "T"} {
		c := open(t, f, 120, 36, nil)
		c.toBoardRow("web-7")
		c.press(key)
		c.only()
		c.shows("that is not a workload of the drain")
	}
}

// Whoever leaves while something is being resumed reads how that goes on: there may be
// no drain any more to be taken up.
func TestQuitWhileResuming(t *testing.T) {
	f := drained(func(s *drain.State) {
		lifted(s)
		changeItem(s, lena, func(it *drain.Item) { it.Resume = drain.Word{By: "mira", At: now} })
	})
	f.Driving = map[fleet.HostID]bool{gpu041: true}
	c := open(t, f, 100, 30, nil)
	c.press("q")
	c.painted()
	c.shows("gpu-041: what was parked is being resumed; ebb resume gpu-041 goes on with that")
	c.showsNot("the drain stays, held")
}

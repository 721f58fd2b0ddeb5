package handoverview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
)

var (
	at   = time.Date(2026, 11, 29, 14, 26, 0, 0, time.UTC)
	here = time.FixedZone("EST", -5*3600)

	web, pg, etl, ci = fleet.Key{Kind: "service", ID: "web"}, fleet.Key{Kind: "db", ID: "pg"}, fleet.Key{Kind: "job", ID: "etl"}, fleet.Key{Kind: "job", ID: "ci"}
)

func ago(d time.Duration) time.Time { return at.Add(-d) }

// shift is a fleet at the end of a shift: one drain that goes on, one that was
// undone, words of two shifts, promises that hold and promises that do not.
func shift(t *testing.T) feed.Frame {
	t.Helper()
	item := func(k fleet.Key, c fleet.Class, change func(*drain.Item)) drain.Item {
		it := drain.Item{Found: drain.Found{Key: k, Owner: "team-" + k.ID, Class: c, Budget: drain.DefaultPolicy().Defaults[c]}, FoundAt: ago(time.Hour)}
		change(&it)
		return it
	}
	s := drain.State{Drain: "d1", Host: "p/a", Phase: drain.Draining, By: drain.Actor{Name: "mira"}, Driver: "bastion", Started: ago(time.Hour), Deadline: at.Add(2 * time.Hour), First: true,
		Items: map[fleet.Key]drain.Item{
			web: item(web, fleet.Stateless, func(it *drain.Item) {
				it.Held, it.Reason = true, fleet.Because(drain.WaitHeld, "why", "release day", "by", "mira")
			}),
			pg: item(pg, fleet.Durable, func(it *drain.Item) { it.End, it.EndAt = drain.LeftHost, ago(time.Minute) }),
			etl: item(etl, fleet.Stuck, func(it *drain.Item) {
				it.MayDie, it.NoticeAt, it.Accepted, it.TermAt, it.Extra = true, ago(6*time.Minute), true, ago(5*time.Minute), time.Hour
			}),
			ci: item(ci, fleet.Ephemeral, func(it *drain.Item) { it.Expires = at.Add(9 * time.Minute) }),
		}}
	var events, said []drain.Event
	add := func(before time.Duration, host fleet.HostID, id, by string, b drain.Body) {
		e, err := drain.NewEvent(host, fmt.Sprintf("e%d", len(events)), id, 0, drain.Actor{Name: by}, b)
		if err != nil {
			t.Fatal(err)
		}
		e.At = ago(before)
		events = append(events, e)
		if e.Kind == (drain.AskHandover{}).Kind() && by != "nobody" {
			said = append(said, e)
		}
	}
	add(9*time.Hour, feed.Shift, "", "noor", drain.AskHandover{Note: "a quiet night"})
	add(50*time.Minute, "p/a", "d1", "mira", drain.AskHold{Key: web, Reason: "release day"})
	add(45*time.Minute, "p/a", "d1", "mira", drain.AskKeep{Key: ci, Reason: "not taken"})
	add(40*time.Minute, "p/a", "d1", "mira", drain.AskMoreTime{Key: etl, By: time.Hour})
	add(39*time.Minute, "p/a", "d1", "mira", drain.AskMoreTime{Key: pg, By: time.Hour}) // has left
	add(38*time.Minute, "p/a", "d1", "mira", drain.AskExtend{Until: at.Add(2 * time.Hour)})
	add(37*time.Minute, "p/b", "d0", "mira", drain.AskExtend{Until: at.Add(2 * time.Hour)}) // undone
	add(36*time.Minute, "p/a", "d1", "nobody", drain.AskHandover{Note: "not believed"})
	add(5*time.Minute, "p/a", "d1", "mira", drain.AskHandover{To: "lena", Note: "web waits for the release at 16:00"})
	view := func(name string, h fleet.Holds) fleet.HostView {
		return fleet.HostView{Host: fleet.Host{ID: fleet.HostID("p/" + name)}, Summary: fleet.Read(fleet.Summary{At: at, Holds: h}, "", at, 0)}
	}
	hold := fleet.Holds{Cordon: &fleet.Hold{Who: "ops", Why: "looks slow", Since: ago(74 * time.Hour)}}
	return feed.Frame{At: at, Made: at, Policy: drain.DefaultPolicy(), Events: events, Words: said, Config: feed.Config{Operator: "lena"},
		Snapshot: fleet.Snapshot{Hosts: []fleet.HostView{view("a", hold), view("b", fleet.Holds{}), view("c", hold)}},
		Drains:   map[fleet.HostID]drain.State{"p/a": s, "p/b": {Drain: "d0", Phase: drain.Stopped, Undone: true}}}
}

func TestPage(t *testing.T) {
	p := Make(shift(t), at, here)
	var got []string
	for _, s := range p.Sections() {
		for _, l := range s.Lines {
			got = append(got, strings.Join([]string{s.Title, l.Host.Name(), l.When(p.At, s.Title), l.Who, l.Text}, " | "))
		}
	}
	want := []string{
		"needs somebody | a |  |  | service/web of team-web: held by mira: release day",
		"drains | a | 1h | mira | draining, 3/4 left, driven by bastion",
		"next hours | a | 9:00 | team-ci | 14:35 UTC, 09:35 here: expires job/ci",
		"next hours | a | 1:05:30 | team-etl | 15:31 UTC, 10:31 here: KILL job/etl",
		"next hours | a | 2:00:00 | mira | 16:26 UTC, 11:26 here: the drain's deadline",
		"holds | a | 3d 2h | ops | cordoned: looks slow",
		"holds | c | 3d 2h | ops | cordoned: looks slow (no drain)",
		"notices and promises | a | 6m | team-etl | job/etl told 14:20, KILL 15:31",
		"notices and promises | a | 50m | mira | service/web is left alone: release day",
		"notices and promises | a | 40m | mira | job/etl gets 1h more",
		"notices and promises | a | 38m | mira | moved the deadline to 16:26",
		"last words | a | 14:21 | mira | handed over to lena: web waits for the release at 16:00",
		"last words |  | 05:26 | noor | handed over: a quiet night",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the page is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if p.For != "lena" || !p.At.Equal(at) {
		t.Errorf("for %s at %v", p.For, p.At)
	}
}

// The same page as a table, as markdown and as JSON; an empty one says so.
func TestPageAsText(t *testing.T) {
	p := Make(shift(t), at, here)
	var table, md bytes.Buffer
	if err := p.Table(&table); err != nil {
		t.Fatal(err)
	}
	if err := p.Markdown(&md); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"table":    {table.String(), "\nLAST WORDS\n  a                   14:21  mira         handed over to lena: web waits"},
		"no host":  {table.String(), "  ·                   05:26  noor         handed over: a quiet night\n"},
		"markdown": {md.String(), "\n## Holds\n\n- **a** 3d 2h, ops: cordoned: looks slow\n"},
		"json":     {string(raw), `"host":"p/a","about":"job/etl","who":"team-etl"`},
	} {
		if !strings.Contains(tc.text, tc.want) {
			t.Errorf("%s has no %q:\n%s", name, tc.want, tc.text)
		}
	}
	var back Page
	if err := json.Unmarshal(raw, &back); err != nil || len(back.Words) != 2 {
		t.Errorf("read back: %v", err)
	}
	table.Reset()
	if _ = Make(feed.Frame{At: at}, at, here).Table(&table); !strings.Contains(table.String(), nothing) {
		t.Errorf("an empty page: %s", table.String())
	}
}

// A notice that had no receiver is no word to anybody.
func TestUntoldOwner(t *testing.T) {
	f := shift(t)
	it := f.Drains["p/a"].Items[etl]
	it.Untold = true
	f.Drains["p/a"].Items[etl] = it
	told := Make(f, at, here).Told
	if !slices.ContainsFunc(told, func(l Line) bool { return l.Text == "job/etl: owner not told: no receiver, KILL 15:31" }) {
		t.Error(told)
	}
}

// What a signal ended in the last hours is told, also when the drain is undone;
// what moved, or ended in an earlier shift, is not.
func TestEndedByForce(t *testing.T) {
	f := shift(t)
	s := f.Drains["p/b"]
	ended := func(k fleet.Key, before time.Duration, change func(*drain.Item)) drain.Item {
		it := drain.Item{Found: drain.Found{Key: k, Owner: "team-" + k.ID}, TermAt: ago(before), End: drain.LeftHost, EndBy: "lever", EndAt: ago(before)}
		change(&it)
		return it
	}
	s.Items = map[fleet.Key]drain.Item{
		etl: ended(etl, 20*time.Minute, func(it *drain.Item) { it.KillAt = it.EndAt }),
		ci:  ended(ci, 3*time.Minute, func(*drain.Item) {}),
		web: ended(web, time.Minute, func(it *drain.Item) { it.Target, it.FlippedAt = "p/c", it.EndAt }),
		pg:  ended(pg, 13*time.Hour, func(it *drain.Item) { it.KillAt = it.EndAt }),
	}
	f.Drains["p/b"] = s
	var got []string
	for _, l := range Make(f, at, here).Forced {
		got = append(got, l.Host.Name()+" | "+l.Who+" | "+l.Text)
	}
	want := []string{"b | team-ci | job/ci ended on TERM 14:23", "b | team-etl | job/etl ended by KILL 14:06"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range 20 {
		k := fleet.Key{Kind: "job", ID: fmt.Sprint(i)}
		s.Items[k] = ended(k, time.Hour, func(*drain.Item) {})
	}
	if all := Make(f, at, here).Forced; len(all) != mostForced || !strings.HasPrefix(all[mostForced-1].Text, "and 15 more") {
		t.Errorf("%d lines: %v", len(all), all)
	}
}

// What somebody wrote is neither markup nor a way to move a cursor.
func TestPageIsCleaned(t *testing.T) {
	f := shift(t)
	e, _ := drain.NewEvent("p/a", "x", "d1", 0, drain.Actor{Name: "*mi\x1b[2Jra*"}, drain.AskHandover{Note: "[x](y)\n# all done\x1b]0;hi\x07"})
	e.At = at
	f.Words = append(f.Words, e)
	p := Make(f, at, here)
	var table, md bytes.Buffer
	_, _ = p.Table(&table), p.Markdown(&md)
	if strings.ContainsAny(table.String()+md.String(), "\x1b\x07") || strings.Contains(md.String(), "\n# all") || strings.Contains(md.String(), "[x](y)") {
		t.Errorf("not cleaned:\n%s", md.String())
	}
}

// A busy shift still fits: eight lines of what comes, and the rest by number.
func TestPageStaysOne(t *testing.T) {
	f := shift(t)
	s := f.Drains["p/a"]
	for i := range 30 {
		k := fleet.Key{Kind: "job", ID: fmt.Sprintf("n-%02d", i)}
		s.Items[k] = drain.Item{Found: drain.Found{Key: k, Class: fleet.Ephemeral, Expires: at.Add(time.Duration(i+1) * time.Minute)}}
	}
	p := Make(f, at, here)
	if n := len(p.Next); n != mostNext || p.Next[n-1].Text != "and 26 more: 2, the boards, have them all" {
		t.Errorf("%d lines, the last %q", n, p.Next[n-1].Text)
	}
	th, err := themes.Load("mono")
	if err != nil {
		t.Fatal(err)
	}
	screen := ansi.Strip(New(feed.Env{Theme: th, Keys: keys.Default(), Now: func() time.Time { return at }, Local: here}).SetFrame(f).View(100, 27))
	for _, w := range []string{"DRAINS  1", "NEXT HOURS  8", "HOLDS  2", "NOTICES AND PROMISES  4", "LAST WORDS  2", "a quiet night"} {
		if !strings.Contains(screen, w) {
			t.Errorf("%q is not on the one page of 100 by 30:\n%s", w, screen)
		}
	}
}

// A drain that nobody drives is named, with what takes it up, once that is no
// change of drivers.
func TestForsakenDrainNeedsSomebody(t *testing.T) {
	const line = "nobody drives its drain: ebb drain a takes it up"
	for name, x := range map[string]struct {
		released time.Time
		here     bool
		want     bool
	}{
		"just released":  {ago(time.Second), false, false},
		"left":           {ago(time.Minute), false, true},
		"driven by this": {ago(time.Minute), true, false},
	} {
		f := shift(t)
		s := f.Drains["p/a"]
		s.Driver, s.Released = "", x.released
		f.Drains["p/a"] = s
		f.Driving = map[fleet.HostID]bool{"p/a": x.here}
		named := slices.ContainsFunc(Make(f, at, here).Needs, func(l Line) bool { return l.Host == "p/a" && l.Text == line })
		if named != x.want {
			t.Errorf("%s: named is %v", name, named)
		}
		kills := slices.ContainsFunc(Make(f, at, here).Next, func(l Line) bool { return strings.HasSuffix(l.Text, "KILL job/etl") })
		if kills != x.here {
			t.Errorf("%s: a KILL that only a driver sends is announced: %v", name, kills)
		}
	}
}

package drain

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ebb/fleet"
)

func offering(id, rack string, o fleet.Offer, there ...fleet.Workload) fleet.HostView {
	return fleet.HostView{Host: fleet.Host{ID: fleet.HostID(id), Labels: map[string]string{"rack": rack}},
		Facts: fleet.Read(fleet.Facts{At: noon, Offer: o, Workloads: fleet.Read(there, "x", noon, 0)}, "x", noon, 0)}
}

func one(id string, n fleet.Needs) fleet.Workload {
	return fleet.Workload{Key: wk(id), Phase: fleet.Running, Needs: n}
}

func TestPlaceByWhatHostsOffer(t *testing.T) {
	here := fleet.Offer{Compat: map[string]string{"engine": "1.5", "driver": "570", "kernel": "6.8"}}
	old := fleet.Offer{Compat: map[string]string{"engine": "1.4", "driver": "570"}}
	group := fleet.Needs{Group: "db"}
	for name, c := range map[string]struct {
		needs    fleet.Needs
		class    fleet.Class
		purpose  fleet.Purpose
		targets  []fleet.HostView
		inbound  map[fleet.HostID][]Found
		promised map[fleet.HostID][]fleet.Needs
		want     fleet.HostID
		code     string
		says     string
	}{
		"says nothing, takes it": {targets: []fleet.HostView{offering("prod/a", "", fleet.Offer{})}, want: "prod/a"},
		"slots are full":         {targets: []fleet.HostView{offering("prod/a", "", fleet.Offer{Slots: 2}, one("x", fleet.Needs{}), one("y", fleet.Needs{}))}, code: WaitNoRoom, says: "has:0 host:a wants:1 what:slots"},
		"slots are promised by this drain": {targets: []fleet.HostView{offering("prod/a", "", fleet.Offer{Slots: 2}, one("x", fleet.Needs{}))},
			inbound: map[fleet.HostID][]Found{"prod/a": {{Key: wk("z")}}}, code: WaitNoRoom},
		"what has arrived counts once": {targets: []fleet.HostView{offering("prod/a", "", fleet.Offer{Slots: 2}, one("z", fleet.Needs{}))},
			inbound: map[fleet.HostID][]Found{"prod/a": {{Key: wk("z")}}}, want: "prod/a"},
		"slots are promised by another": {needs: fleet.Needs{Slots: 2}, targets: []fleet.HostView{offering("prod/a", "", fleet.Offer{Slots: 3})},
			promised: map[fleet.HostID][]fleet.Needs{"prod/a": {{Slots: 2}}}, code: WaitNoRoom, says: "has:1 host:a wants:2"},
		"gpus":                 {needs: fleet.Needs{GPUs: 4}, targets: []fleet.HostView{offering("prod/a", "", fleet.Offer{GPUs: 8}, one("x", fleet.Needs{GPUs: 6}))}, code: WaitNoRoom, says: "what:GPUs"},
		"no gpus at all":       {needs: fleet.Needs{GPUs: 1}, targets: []fleet.HostView{offering("prod/a", "", fleet.Offer{Slots: 9})}, code: WaitNoRoom},
		"of one kind":          {targets: []fleet.HostView{offering("prod/a", "", fleet.Offer{Kinds: map[string]int{"vm": 1}}, one("x", fleet.Needs{}))}, code: WaitNoRoom},
		"another engine":       {needs: fleet.Needs{Compat: map[string]string{"engine": ""}}, targets: []fleet.HostView{offering("prod/a", "", old)}, code: WaitIncompatible, says: "has:1.4 host:a wants:1.5 what:engine"},
		"a version named":      {needs: fleet.Needs{Compat: map[string]string{"engine": "1.4"}}, targets: []fleet.HostView{offering("prod/a", "", old)}, want: "prod/a"},
		"a silent host":        {needs: fleet.Needs{Compat: map[string]string{"engine": ""}}, targets: []fleet.HostView{offering("prod/a", "", fleet.Offer{})}, code: WaitIncompatible, says: "has:none"},
		"engine drain":         {class: fleet.Pausable, purpose: fleet.ForEngine, targets: []fleet.HostView{offering("prod/a", "", old)}, code: WaitIncompatible, says: "what:engine"},
		"driver drain":         {class: fleet.Pausable, purpose: fleet.ForDriver, targets: []fleet.HostView{offering("prod/a", "", old)}, want: "prod/a"},
		"kernel, unstated":     {class: fleet.Pausable, purpose: fleet.ForKernel, targets: []fleet.HostView{offering("prod/a", "", old)}, code: WaitIncompatible, says: "has:none"},
		"nothing restored":     {class: fleet.Stateless, purpose: fleet.ForEngine, targets: []fleet.HostView{offering("prod/a", "", old)}, want: "prod/a"},
		"a label":              {needs: fleet.Needs{Labels: map[string]string{"zone": "b"}}, targets: []fleet.HostView{offering("prod/a", "", fleet.Offer{Labels: map[string]string{"zone": "a"}})}, code: WaitIncompatible, says: "what:label zone"},
		"spread: another host": {needs: group, targets: []fleet.HostView{offering("prod/a", "r1", fleet.Offer{}, one("x", group)), offering("prod/b", "r1", fleet.Offer{}, one("y", fleet.Needs{}))}, want: "prod/b"},
		"spread: another rack": {needs: group, targets: []fleet.HostView{offering("prod/a", "r1", fleet.Offer{}, one("x", group)), offering("prod/b", "r1", fleet.Offer{}),
			offering("prod/c", "r2", fleet.Offer{}, one("y", fleet.Needs{}), one("z", fleet.Needs{}))}, want: "prod/c"},
		"spread: if it must":   {needs: group, targets: []fleet.HostView{offering("prod/a", "r1", fleet.Offer{}, one("x", group))}, want: "prod/a"},
		"the nearest is named": {needs: fleet.Needs{Compat: map[string]string{"engine": ""}}, targets: []fleet.HostView{offering("prod/a", "", fleet.Offer{Slots: 1, Compat: here.Compat}, one("x", fleet.Needs{})), offering("prod/b", "", old)}, code: WaitNoRoom},
	} {
		t.Run(name, func(t *testing.T) {
			got, why := Place(Placing{Found: Found{Key: wk("w"), Class: c.class, Needs: c.needs}, For: c.purpose, Source: offering("prod/h1", "r9", here),
				Targets: c.targets, Inbound: c.inbound, Promised: c.promised, Limit: 2})
			if got != c.want || why.Code != c.code || !strings.Contains(fmt.Sprint(why.Args), c.says) {
				t.Fatalf("%q %v", got, why)
			}
		})
	}
}

// Whatever a fleet offers: no move goes to a host that is held, unread,
// incompatible or full, and where one without another of the group could have
// taken it, it went there.
func TestPlaceMustNever(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Placing{Source: offering("prod/h1", "r0", fleet.Offer{Compat: map[string]string{"engine": "1.5"}}), Limit: 2,
			Inbound: map[fleet.HostID][]Found{}, Promised: map[fleet.HostID][]fleet.Needs{}}
		p.Found = Found{Key: wk("w"), Class: rapid.SampledFrom([]fleet.Class{fleet.Pausable, fleet.Durable, fleet.Stateless}).Draw(t, "class"),
			Needs: drawNeeds(t, "needs")}
		p.For = rapid.SampledFrom(fleet.Purposes).Draw(t, "for")
		for i := range rapid.IntRange(0, 5).Draw(t, "hosts") {
			id := fleet.HostID(fmt.Sprintf("prod/t%d", i))
			o := fleet.Offer{Slots: rapid.IntRange(0, 4).Draw(t, "slots"), GPUs: rapid.IntRange(0, 4).Draw(t, "gpus")}
			if rapid.Bool().Draw(t, "states") {
				o.Compat = map[string]string{"engine": rapid.SampledFrom([]string{"1.4", "1.5"}).Draw(t, "engine")}
			}
			var there []fleet.Workload
			for j := range rapid.IntRange(0, 3).Draw(t, "there") {
				there = append(there, one(fmt.Sprintf("x%d.%d", i, j), drawNeeds(t, "n")))
			}
			v := offering(string(id), fmt.Sprintf("r%d", i%2), o, there...)
			switch rapid.IntRange(0, 5).Draw(t, "odd") {
			case 0:
				v.Facts.Value.Holds.Cordon = &fleet.Hold{}
			case 1:
				v.Unreachable = noon
			}
			p.Targets = append(p.Targets, v)
			for range rapid.IntRange(0, 1).Draw(t, "inbound") {
				p.Inbound[id] = append(p.Inbound[id], Found{Key: wk("in" + string(id)), Needs: drawNeeds(t, "in")})
			}
			for range rapid.IntRange(0, 1).Draw(t, "promised") {
				p.Promised[id] = append(p.Promised[id], drawNeeds(t, "pr"))
			}
		}
		got, why := Place(p)
		if got == "" {
			if why.IsZero() {
				t.Fatal("no host, and no reason")
			}
			return
		}
		free := false
		for _, v := range p.Targets {
			slots, gpus, grouped := 0, 0, false
			count := func(n fleet.Needs) {
				slots, gpus, grouped = slots+max(n.Slots, 1), gpus+n.GPUs, grouped || n.Group != "" && n.Group == p.Found.Needs.Group
			}
			for _, w := range v.Facts.Value.Workloads.Value {
				count(w.Needs)
			}
			for _, f := range p.Inbound[v.Host.ID] {
				count(f.Needs)
			}
			for _, n := range p.Promised[v.Host.ID] {
				count(n)
			}
			o, n := v.Facts.Value.Offer, p.Found.Needs
			_, wantsEngine := n.Compat["engine"]
			wantsEngine = wantsEngine || p.For == fleet.ForEngine && p.Found.Class == fleet.Pausable
			fits := !v.Facts.Value.Holds.Any() && v.Unreachable.IsZero() && (o.Slots == 0 || slots+max(n.Slots, 1) <= o.Slots) &&
				(n.GPUs == 0 || o.IsZero() || gpus+n.GPUs <= o.GPUs) && (!wantsEngine || o.Compat["engine"] == "1.5")
			if v.Host.ID == got && !fits {
				t.Fatalf("placed on %s, which can't take it: %+v", got, v)
			}
			if v.Host.ID == got && grouped {
				defer func() {
					if free {
						t.Fatalf("placed beside another of its group on %s", got)
					}
				}()
			}
			free = free || fits && !grouped
		}
	})
}

func drawNeeds(t *rapid.T, name string) fleet.Needs {
	n := fleet.Needs{Slots: rapid.IntRange(0, 2).Draw(t, name+" slots"), GPUs: rapid.IntRange(0, 2).Draw(t, name+" gpus"),
		Group: rapid.SampledFrom([]string{"", "", "g"}).Draw(t, name+" group")}
	if rapid.IntRange(0, 2).Draw(t, name+" compat") == 0 {
		n.Compat = map[string]string{"engine": ""}
	}
	return n
}

func TestServesJournal(t *testing.T) {
	for _, c := range []struct {
		address, journal string
		refused          bool
	}{
		{"db-01", "db-01.internal", true}, {"root@DB-01.internal", "db-01.internal.", true}, {"10.0.0.7", "10.0.0.7", true},
		{"db-02", "db-01.internal", false}, {"db-01", "", false}, {"10", "10.0.0.7", false},
	} {
		v := View{Source: fleet.HostView{Host: fleet.Host{ID: "prod/x", Address: c.address}, Facts: fleet.Read(fleet.Facts{}, "x", noon, 0)}, JournalHost: c.journal}
		plan := MakePlan(v, DefaultPolicy(), noon, "", noon)
		if (plan.Refused != "") != c.refused {
			t.Errorf("%+v: %q", c, plan.Refused)
		}
	}
}

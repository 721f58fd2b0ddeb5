package sim

import (
	"errors"
	"maps"
	"slices"
	"time"

	"ebb/fleet"
)

// Look reads the host: what its agent's probes see.
func (h *host) Look() fleet.Facts {
	at := h.Clock()
	f := fleet.Facts{Generation: uint64(time.Since(h.w.began)), At: at, Loops: fleet.Read([]fleet.Resource{}, "sim", at, 0),
		Dirs: fleet.Read([]fleet.Resource{}, "sim", at, 0), GPUs: fleet.ReadNotApplicable[[]fleet.GPU]("sim", at, "none"), Offer: fleet.Offer{Slots: h.slots}}
	procs, works, netns := []fleet.Process{}, []fleet.Workload{}, []fleet.Resource{}
	for _, k := range h.keys() {
		p := h.procs[k]
		pr := fleet.Process{Run: p.run, Comm: "work", State: "S", Started: p.born.Add(h.skew)}
		if p.stray {
			procs = append(procs, pr)
			continue
		}
		wl := fleet.Workload{Key: k, Rule: "sim", Phase: fleet.Running, Run: p.run, Runs: []fleet.Run{p.run}, Declared: p.declared, Class: p.class, Owner: p.owner,
			Expires: p.expires, Grace: p.grace, Started: p.born.Add(h.skew), Start: p.start, Health: p.health}
		switch {
		case p.lever:
			wl.Labels = map[string]string{"moved": string(p.class)}
			if p.park {
				wl.Labels["parks"] = "yes"
			}
		case p.serves:
			wl.Labels = map[string]string{"serves": "yes"}
		}
		if p.rests {
			wl.Phase, wl.Run, wl.Runs = fleet.AtRest, fleet.Run{}, nil
		} else {
			pr.Owner = k
			procs = append(procs, pr)
		}
		works = append(works, wl)
	}
	for _, name := range slices.Sorted(maps.Keys(h.things)) {
		t := h.things[name]
		r := fleet.Resource{Key: fleet.Key{Kind: "netns", ID: name}, Identity: t.identity, Owner: t.owner}
		if !t.user.IsZero() {
			r.Users = []fleet.Run{t.user}
		}
		netns = append(netns, r)
	}
	f.Processes, f.Workloads, f.Netns = fleet.Read(procs, "sim", at, 0), fleet.Read(works, "sim", at, 0), fleet.Read(netns, "sim", at, 0)
	bad := errors.New("the probe broke")
	switch h.probe {
	case "processes":
		f.Processes = fleet.ReadFailed[[]fleet.Process]("sim", at, 0, bad)
	case "workloads":
		f.Workloads = fleet.ReadFailed[[]fleet.Workload]("sim", at, 0, bad)
	case "netns":
		f.Netns = fleet.ReadFailed[[]fleet.Resource]("sim", at, 0, bad)
	}
	return f
}

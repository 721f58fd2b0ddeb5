package replay

import (
	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
)

// Frame is what the journal says at the player's moment, for the console's
// screens. Whatever comes from hosts and planes is not known in it.
func (p Player) Frame() feed.Frame {
	f := feed.Frame{
		At:       p.now,
		Snapshot: fleet.Snapshot{Seq: uint64(p.n), At: p.now},
		Drains:   map[fleet.HostID]drain.State{},
		Events:   p.tape.events[max(0, p.n-feed.EventsKept):p.n:p.n],
		Words:    p.tape.wordsUpTo(p.n),
		Journal:  fleet.ProbeStatus{Name: "journal", Status: fleet.OK, At: p.now},
		Policy:   p.tape.policy,
		Replay:   p.name,
		Config:   feed.Config{ReadOnly: true},
	}
	for _, id := range p.tape.hosts {
		h := p.fold.hosts[id]
		f.Snapshot.Hosts = append(f.Snapshot.Hosts, h.view(id))
		if h.drain.Drain != "" {
			f.Drains[id] = h.drain
		}
	}
	return f
}

// view is a host of which nothing is known but what its journal says.
func (h told) view(id fleet.HostID) fleet.HostView {
	v := fleet.HostView{Host: fleet.Host{ID: id}, Cordon: h.state}
	if h.cordons || h.drain.Drain != "" && !h.drain.Undone {
		v.Told = fleet.Read(fleet.Holds{Cordon: h.cordon, Drain: h.holds}, "journal", h.at, 0)
	}
	return v
}

package sim

import (
	"slices"
	"time"

	"ebb/fleet"
)

// version is a claim, and from when on the plane says so.
type version struct {
	from  time.Time
	claim fleet.Claim
}

// plane is the control plane: claims that lag, one flag a host, and a scheduler
// with a view of its own that sends new work.
type plane struct {
	w      *World
	claims map[fleet.Key][]version
	keys   []fleet.Key
	flags  map[fleet.HostID]fleet.Flag
	flap   time.Time // until when a claim comes and goes with each reading
	reads  int
	skew   time.Duration
}

// cache is how old the scheduler's view may be.
const cache = 30 * time.Second

func (p *plane) say(k fleet.Key, c fleet.Claim, lag time.Duration) {
	if p.claims[k] == nil {
		p.keys = append(p.keys, k)
	}
	p.claims[k] = append(p.claims[k], version{time.Now().Add(lag), c})
}

// claim makes the plane claim what runs on a host.
func (p *plane) claim(h fleet.HostID, x *proc) {
	if x.stray || x.unclaimed {
		return
	}
	p.say(x.key, fleet.Claim{Key: x.key, Host: h, Phase: fleet.Running, Class: x.class, Owner: x.owner, Expires: x.expires, Changed: time.Now()}, 0)
}

// end is what the owner says of a workload on a host.
func (p *plane) end(k fleet.Key, h fleet.HostID, lag time.Duration) {
	c, ok := p.at(k)
	if ok && c.Host == h && c.Phase != fleet.Gone {
		c.Phase, c.Changed = fleet.Gone, time.Now().Add(lag+p.skew)
		p.say(k, c, lag)
	}
}

// at is what the plane says of a key now.
func (p *plane) at(k fleet.Key) (c fleet.Claim, ok bool) {
	var from time.Time
	for _, v := range p.claims[k] {
		if !v.from.After(time.Now()) && !v.from.Before(from) {
			from, c, ok = v.from, v.claim, true
		}
	}
	return c, ok
}

// move moves a claim to another host.
func (p *plane) move(k fleet.Key, from, to fleet.HostID) {
	c, ok := p.at(k)
	if ok && c.Host == from {
		c.Host, c.Phase, c.Changed = to, fleet.Running, time.Now().Add(p.skew)
		p.say(k, c, 0)
	}
}

// of lists the claims of a host. A plane that flaps leaves out, every other
// time, what is really there.
func (p *plane) of(h fleet.HostID) []fleet.Claim {
	p.reads++
	flaps := time.Now().Before(p.flap) && p.reads%2 == 0
	var out []fleet.Claim
	for _, k := range p.keys {
		c, ok := p.at(k)
		if !ok || c.Host != h || flaps && p.w.hosts[h].procs[k] != nil {
			continue
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b fleet.Claim) int { return a.Key.Compare(b.Key) })
	return out
}

// eligible is what the scheduler believes.
func (p *plane) eligible(h fleet.HostID) bool {
	f := p.flags[h]
	return !f.Set || time.Now().Add(p.skew).Sub(f.At) < cache
}

package drain

import (
	"slices"

	"ebb/fleet"
)

// removable says why what a move has left here must not go yet: the host that took
// it over is no longer in the fleet, is another machine now, or can't be read. What
// is left here may then be all there is.
func (d *decider) removable(it Item) fleet.Reason {
	name := it.Target.Name()
	v, listed := d.target(it.Target)
	switch {
	case len(d.v.Targets) == 0: // not even the source: the fleet has not been read yet
		return fleet.Because(WaitCopyUnread, "target", name)
	case !listed:
		return fleet.Because(WaitCopyGone, "target", name)
	}
	have, read := v.Machine()
	switch want := it.Move.Machine; {
	case !read || !v.Unreachable.IsZero(): // what was read last stands on
		return fleet.Because(WaitCopyUnread, "target", name, "detail", v.Problem)
	case want != "" && have != want:
		return fleet.Because(WaitCopyGone, "target", name, "has", have, "wants", want)
	}
	return fleet.Reason{}
}

// swapped reports whether the host to which a move goes is another machine now.
func (d *decider) swapped(it Item) bool {
	v, listed := d.target(it.Target)
	have, read := v.Machine()
	return listed && read && it.Move.Machine != "" && have != it.Move.Machine
}

func (d *decider) target(id fleet.HostID) (fleet.HostView, bool) {
	i := slices.IndexFunc(d.v.Targets, func(v fleet.HostView) bool { return v.Host.ID == id })
	if i < 0 {
		return fleet.HostView{}, false
	}
	return d.v.Targets[i], true
}

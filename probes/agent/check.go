package agent

import (
	"strconv"

	"ebb/fleet"
	"ebb/probes/wire"
)

func itoa(n int) string { return strconv.Itoa(n) }

func forbidden(have, need wire.Role) error {
	return refuse(wire.CodeForbidden, "this is the "+string(have)+" channel").arg("need", string(need)).
		hint("this needs role " + string(need))
}

// checkKey refuses a key that names nothing or that a record has no room for.
func checkKey(k fleet.Key) error {
	if k.Kind == "" || k.ID == "" {
		return refuse(wire.CodeBadRequest, "key: want a kind and an id")
	}
	if len(k.Kind) > maxID || len(k.ID) > 4<<10 {
		return refuse(wire.CodeBadRequest, "key: too long")
	}
	return nil
}

// checkMachine refuses what is meant for another machine. An empty name is
// refused only where need says so.
func (a *Agent) checkMachine(m string, need bool) error {
	if m == a.cfg.Machine || (m == "" && !need) {
		return nil
	}
	return refuse(wire.CodeOtherMachine, "this is machine "+a.cfg.Machine).arg("machine", a.cfg.Machine)
}

// fits refuses text that a record can't hold.
func fits(what, s string, n int) error {
	if len(s) > n {
		return refuse(wire.CodeBadRequest, what+": longer than "+itoa(n)+" bytes")
	}
	return nil
}

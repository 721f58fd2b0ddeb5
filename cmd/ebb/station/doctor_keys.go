package station

import (
	"fmt"
	"os/exec"
)

// checkOperators says whose asks are obeyed, and whether this person's are.
func (s *Station) checkOperators() Checkup {
	c := Checkup{What: "operators", Result: "ok"}
	switch {
	case !sharedJournal(s.Config):
		c.Detail = "the journal is this machine's own: whoever can write to its file can ask"
	case len(s.Config.Operators) == 0:
		c.Result, c.Detail = "warn", "the journal is shared, and no [[operator]] is configured: whoever can write to the database can start drains"
		c.Do = "add [[operator]] with the name and public key of each operator"
	case s.signer == nil:
		c.Result, c.Detail = "warn", fmt.Sprintf("%d operators; none of their keys is at hand: you can look and cordon, and ask nothing of a drain", len(s.Config.Operators))
		c.Do = "ssh-add your operator's key"
	default:
		c.Detail = fmt.Sprintf("%d operators; you are %s", len(s.Config.Operators), s.Actor.Name)
	}
	return c
}

// checkLevers looks for the programs that move pausable and durable workloads.
func (s *Station) checkLevers() []Checkup {
	var out []Checkup
	for _, l := range s.Config.Levers {
		c := Checkup{What: "lever " + l.Name, Result: "ok", Detail: l.Run[0]}
		if _, err := exec.LookPath(l.Run[0]); err != nil {
			c.Result, c.Detail = "fail", err.Error()
			c.Do = "install it on this console and wherever ebb run runs, or correct run in [[lever]]"
		}
		out = append(out, c)
	}
	return out
}

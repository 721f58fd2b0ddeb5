package station

import "fmt"

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

package drain

// A host is a machine. Which one is written down with the first act on it, and
// from then on another one that answers at its address is refused: by no act, of
// no verb, is a machine touched that nobody meant.

func isBinding(b Body) bool {
	switch b.(type) {
	case RecBound, AskRebind:
		return true
	}
	return false
}

// bind folds what a stream says about which machine its host is. A drain keeps
// the machine that it began with: whoever rebinds a host in mid-drain has to say
// in addition what becomes of that drain.
func bind(s State, e Event, body Body) (State, error) {
	switch b := body.(type) {
	case RecBound:
		s.Bound = s.boundTo(b.Machine)
	case AskRebind:
		switch {
		case b.Machine == "":
			return skip(s, e), illegal("%s is bound to no machine", e.Stream)
		case b.Was != s.Bound:
			return skip(s, e), illegal("%s is machine %q by now, not %q", e.Stream, s.Bound, b.Was)
		}
		s.Bound = b.Machine
	}
	return skip(s, e), nil
}

// boundTo is the machine that the host is, once it is seen to be this one. The
// machine that was terminated binds it no more: what its last driver, or somebody
// who read it just before, writes after its end must not keep the name from the
// machine that has it next.
func (s State) boundTo(machine string) string {
	if s.Bound != "" || !s.Terminated.IsZero() && machine == s.Machine {
		return s.Bound
	}
	return machine
}

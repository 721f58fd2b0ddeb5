package paint

import (
	"bytes"

	"github.com/charmbracelet/x/ansi"
)

// what a sequence of the program does to the screen.
type what int

const (
	nothing      what = iota // modes, queries, titles: the screen stays as it is
	draws                    // it changes what is shown
	enters                   // the alternate screen, which is blank or not
	leavesScreen             // and away from it
)

var (
	leaves = []byte(ansi.ResetModeAltScreenSaveCursor)
	enter  = []byte(ansi.SetModeAltScreenSaveCursor)
)

// effect reads what the program writes. What it does not know counts as a change
// of the screen: that costs bytes, and the other way round would cost truth.
func effect(seq []byte) what {
	in, out := bytes.LastIndex(seq, enter), bytes.LastIndex(seq, leaves)
	switch {
	case in > out:
		return enters
	case out > in:
		return leavesScreen
	}
	p := ansi.GetParser()
	defer ansi.PutParser(p)
	var state byte
	for len(seq) > 0 {
		part, width, n, next := ansi.DecodeSequence(seq, state, p)
		state, seq = next, seq[n:]
		if n == 0 || width > 0 || alters(part, p) {
			return draws
		}
	}
	return nothing
}

// alters says whether one sequence changes what is shown, or how the next
// would be.
func alters(part []byte, p *ansi.Parser) bool {
	switch {
	case ansi.HasCsiPrefix(part):
		switch cmd := ansi.Cmd(p.Command()); cmd.Final() {
		case 'm': // with a prefix it is about keys
			return cmd.Prefix() == 0 && len(p.Params()) > 0
		case 'H', 'G', 'A', 'B', 'C', 'D', 'd', 'n', 'c', 'h', 'l', 'u', 'q', 'p', 't', 's':
			return false
		}
		return true
	case ansi.HasOscPrefix(part), ansi.HasDcsPrefix(part), ansi.HasApcPrefix(part):
		return false
	case ansi.HasEscPrefix(part) && len(part) == 2:
		return part[1] != '7' && part[1] != '8' && part[1] != '=' && part[1] != '>'
	case len(part) == 1:
		return part[0] != '\r' && part[0] != '\b'
	}
	return true
}

package replay

import (
	"sort"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// Speeds are how many times faster than it was a journal can be played.
var Speeds = [...]int{1, 2, 8, 60}

// Player is a place on a tape, and how it goes on from there. It is a value:
// every method returns a new one.
type Player struct {
	tape    *Tape
	name    string
	now     time.Time // by the journal's clock
	n       int       // events that have happened
	speed   int       // index of Speeds
	playing bool
	fold    fold
}

// NewPlayer stands at the first event of a tape, and plays.
func NewPlayer(name string, t *Tape) Player {
	p := Player{tape: t, name: name, now: t.Start(), playing: true}
	return p.to(1)
}

// Name is what is played.
func (p Player) Name() string { return p.name }

// Tape is what it plays.
func (p Player) Tape() *Tape { return p.tape }

// Now is the moment that is shown, by the journal's clock.
func (p Player) Now() time.Time { return p.now }

// At is how many events have happened, of how many.
func (p Player) At() (n, of int) { return p.n, p.tape.Len() }

// Playing says whether time passes.
func (p Player) Playing() bool { return p.playing }

// Over says whether everything has happened.
func (p Player) Over() bool { return p.n == p.tape.Len() }

// Speed is how many times faster than it was.
func (p Player) Speed() int { return Speeds[p.speed] }

// Pause stops time, or lets it pass again. At the end it begins anew.
func (p Player) Pause() Player {
	if !p.playing && p.Over() {
		p = p.to(1)
	}
	p.playing = !p.playing
	return p
}

// Faster and Slower change the speed.
func (p Player) Faster() Player {
	p.speed = min(p.speed+1, len(Speeds)-1)
	return p
}

// Slower changes it back.
func (p Player) Slower() Player {
	p.speed = max(p.speed-1, 0)
	return p
}

// Advance lets an amount of real time pass. It stops at the end.
func (p Player) Advance(d time.Duration) Player {
	if !p.playing || d <= 0 {
		return p
	}
	p.now = p.now.Add(min(d, time.Hour) * time.Duration(p.Speed()))
	p.n = max(p.n, p.tape.upTo(p.now))
	if p.Over() {
		p.now, p.playing = p.tape.End(), false
	}
	return p.folded()
}

// Step goes by n events, forward or back, and pauses there.
func (p Player) Step(n int) Player {
	p.playing = false
	return p.to(min(max(p.n+n, 1), p.tape.Len()))
}

// Seek goes to a moment, and pauses there.
func (p Player) Seek(at time.Time) Player {
	p.playing = false
	n := max(p.tape.upTo(at), 1)
	p = p.to(n)
	if at.After(p.now) && !p.Over() {
		p.now = at
	}
	return p
}

// NextPerson goes to the next event that made a person needed, and pauses there;
// it says no where there is none.
func (p Player) NextPerson() (Player, bool) {
	all := p.tape.needs
	i := sort.SearchInts(all, p.n+1)
	if i == len(all) {
		return p, false
	}
	p.playing = false
	return p.to(all[i]), true
}

// ToEvent goes to an event by its id, and stays where it is where there is none.
func (p Player) ToEvent(id string) Player {
	for i, e := range p.tape.events {
		if e.ID == id {
			return p.to(i + 1)
		}
	}
	return p
}

// ToDrain goes to the beginning of a host's newest drain.
func (p Player) ToDrain(h fleet.HostID) Player {
	for i := len(p.tape.events) - 1; i >= 0; i-- {
		if e := p.tape.events[i]; e.Stream == string(h) && e.Kind == (drain.AskStart{}).Kind() {
			return p.to(i + 1)
		}
	}
	return p
}

// Begin and End go to the first and to the last event, and pause there.
func (p Player) Begin() Player { return p.Step(-p.tape.Len()) }

// End goes to the last event.
func (p Player) End() Player { return p.Step(p.tape.Len()) }

// to goes to where n events have happened, at the moment of the last of them.
func (p Player) to(n int) Player {
	p.n, p.now = n, p.tape.times[n-1]
	return p.folded()
}

func (p Player) folded() Player {
	p.fold = p.tape.at(p.n, p.fold)
	return p
}

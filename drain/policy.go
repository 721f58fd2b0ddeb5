package drain

import (
	"time"

	"ebb/fleet"
)

// Policy is what a fleet's configuration says about draining. The zero value of
// a duration is not a default: start from DefaultPolicy.
type Policy struct {
	Rules    []fleet.ClassRule
	Defaults map[fleet.Class]fleet.Budget

	Notice      time.Duration // between telling an owner and TERM
	TermGap     time.Duration // between the second TERM and KILL
	Margin      time.Duration // kept free before the outer deadline
	CacheWindow time.Duration // how long a plane may take to say that something ended
	Transient   time.Duration // an unattributed process younger than this is not worth a line yet
	HealthEvery time.Duration // between two questions whether a replacement answers
	LeverEvery  time.Duration // between two questions what a lever is doing
	Retry       time.Duration // first delay after a failed act; doubled up to eight times

	Receivers      bool // notices can be delivered, so a KILL needs an accepted one
	MovesPerHost   int
	MovesPerTarget int

	Levers map[string]LeverSpec
	Rounds int // moves of one workload that may fail and be rolled back before a person is asked
}

// DefaultPolicy holds the budgets and gaps that apply where nothing is
// configured.
func DefaultPolicy() Policy {
	return Policy{
		Defaults: map[fleet.Class]fleet.Budget{
			fleet.Ephemeral: {Grace: time.Minute},
			fleet.Stateless: {Move: 20 * time.Minute, Grace: 3 * time.Minute},
			fleet.Pausable:  {Move: 10 * time.Minute},
			fleet.Durable:   {Move: 30 * time.Minute},
			fleet.Stuck:     {Grace: 10 * time.Minute},
		},
		Notice:         time.Minute,
		TermGap:        30 * time.Second,
		Margin:         30 * time.Second,
		CacheWindow:    35 * time.Second,
		Transient:      10 * time.Second,
		HealthEvery:    2 * time.Second,
		LeverEvery:     5 * time.Second,
		Rounds:         2,
		Retry:          10 * time.Second,
		MovesPerHost:   8,
		MovesPerTarget: 2,
	}
}

// Scale divides every duration by speed, for fleets of scoped agents.
func (p Policy) Scale(speed float64) Policy {
	if speed <= 0 || speed == 1 {
		return p
	}
	by := func(d time.Duration) time.Duration { return time.Duration(float64(d) / speed) }
	p.Notice, p.TermGap, p.Margin = by(p.Notice), by(p.TermGap), by(p.Margin)
	p.CacheWindow, p.Transient = by(p.CacheWindow), by(p.Transient)
	p.HealthEvery, p.Retry, p.LeverEvery = by(p.HealthEvery), by(p.Retry), by(p.LeverEvery)
	defaults := make(map[fleet.Class]fleet.Budget, len(p.Defaults))
	for c, b := range p.Defaults {
		defaults[c] = fleet.Budget{Move: by(b.Move), Grace: by(b.Grace)}
	}
	p.Defaults = defaults
	rules := make([]fleet.ClassRule, len(p.Rules))
	for i, r := range p.Rules {
		r.Move, r.Grace = by(r.Move), by(r.Grace)
		rules[i] = r
	}
	p.Rules = rules
	return p
}

// escalation is how long a full escalation takes once it has begun.
func (p Policy) escalation(grace time.Duration) time.Duration {
	return p.Notice + grace + p.TermGap + p.Margin
}

// lastStart is the latest moment at which an escalation may begin and still be
// over before the outer deadline.
func (p Policy) lastStart(deadline time.Time, grace time.Duration) time.Time {
	return deadline.Add(-p.escalation(grace))
}

package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ebb/fleet"
)

// Lever is a program that carries the strategy of some workloads out, beside the
// engine. Its contract stands in package drain/levers.
//
//	[[lever]]
//	name    = "notebook"
//	run     = ["/usr/lib/ebb/levers/notebook", "--store", "s3"]
//	timeout = "2m"                                  # of one call
//	steps   = ["snapshot", "restore", "remove"]     # default: all of its class
type Lever struct {
	Name    string
	Run     []string
	Timeout time.Duration
	Steps   []string
}

type rawLever struct {
	Name    string   `toml:"name"`
	Run     []string `toml:"run"`
	Timeout string   `toml:"timeout"`
	Steps   []string `toml:"steps"`
}

// parkSteps are those of a workload that is parked on its host.
var parkSteps = struct{ needed, other []string }{[]string{"snapshot", "resume"}, []string{"park", "clock", "answers", "wake"}}

// leverSteps are the steps that a lever may have, by class; those that its class
// can't do without come first.
var leverSteps = map[fleet.Class]struct{ needed, other []string }{
	fleet.Stateless: {[]string{"start", "health"}, []string{"flip", "stop"}},
	fleet.Pausable:  {[]string{"snapshot", "restore", "remove"}, []string{"ship", "clock", "answers", "flip"}},
	fleet.Durable:   {[]string{"fence", "replay", "promote", "remove"}, []string{"announce", "archive", "repoint", "prove"}},
}

func (s *source) levers(raw []rawLever) []Lever {
	names := map[string]bool{}
	var out []Lever
	for i, r := range raw {
		at := fmt.Sprintf("lever[%d]", i)
		if s.word(at+".name", r.Name, "a lever's name") {
			s.unique(names, at+".name", r.Name, "lever")
		}
		if len(r.Run) == 0 {
			s.add(at+".run", "is missing: an absolute path and its arguments")
		} else {
			s.absolute(at+".run[0]", r.Run[0])
		}
		for j, step := range r.Steps {
			known := slices.Contains(parkSteps.needed, step) || slices.Contains(parkSteps.other, step)
			for _, c := range leverSteps {
				known = known || slices.Contains(c.needed, step) || slices.Contains(c.other, step)
			}
			if !known {
				s.add(fmt.Sprintf("%s.steps[%d]", at, j), "%q is not a step of any strategy", step)
			}
		}
		out = append(out, Lever{Name: r.Name, Run: r.Run, Timeout: s.duration(at+".timeout", r.Timeout, time.Minute), Steps: r.Steps})
	}
	return out
}

// leverOf checks that the lever of a class rule is there and does what the class
// can't do without.
func (s *source) leverOf(at string, r fleet.ClassRule, levers []Lever) {
	if r.Readiness != "" && r.InFlight == nil {
		s.add(at+".readiness", "without in_flight nothing says when the traffic has gone")
	}
	switch {
	case !r.Park:
	case r.Class != fleet.Pausable:
		s.add(at+".park", "only a workload of class pausable is parked")
	case r.Lever == "":
		s.add(at+".park", "without a lever nothing parks it")
	}
	if r.Lever == "" {
		return
	}
	i := slices.IndexFunc(levers, func(l Lever) bool { return l.Name == r.Lever })
	steps, moves := leverSteps[r.Class]
	what := "class " + string(r.Class)
	if r.Park && moves {
		steps, what = parkSteps, "a workload that is parked"
	}
	switch {
	case i < 0:
		s.add(at+".lever", "there is no [[lever]] %q", r.Lever)
	case !moves:
		s.add(at+".lever", "a workload of class %s needs none", r.Class)
	case len(levers[i].Steps) > 0:
		var missing []string
		for _, step := range steps.needed {
			if !slices.Contains(levers[i].Steps, step) {
				missing = append(missing, step)
			}
		}
		if len(missing) > 0 {
			s.add(at+".lever", "%q does not do %s, which %s can't do without", r.Lever, strings.Join(missing, ", "), what)
		}
	}
}

func (s *source) offer(o fleet.Offer) fleet.Offer {
	for key, n := range map[string]int{"slots": o.Slots, "gpus": o.GPUs} {
		if n < 0 {
			s.add("offer."+key, "%d: want 0 (not said) or more", n)
		}
	}
	for kind, n := range o.Kinds {
		if n < 0 {
			s.add("offer.kinds."+kind, "%d: want 0 or more", n)
		}
	}
	return o
}

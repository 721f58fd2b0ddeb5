package agent

import (
	"slices"

	"ebb/fleet"
)

// summary is what a fleet is watched by.
func (a *Agent) summary() fleet.Summary {
	f := a.Facts()
	s := fleet.Summary{
		Generation: f.Generation, At: f.At, Clock: a.cfg.Clock.Now(), Machine: f.Machine, Boot: f.Boot, Version: a.cfg.Version, Scope: a.cfg.Scope,
		Holds: f.Holds, Unheld: f.Unheld, Sealed: f.Sealed, Tickets: len(f.OpenTickets()), Classes: map[fleet.Class]int{},
		Offer: f.Offer, Kinds: map[string]int{},
	}
	for _, w := range f.Workloads.Value {
		if w.Kept == "" {
			s.Classes[w.Class]++
		}
		s.Kinds[w.Key.Kind]++
		if g := w.Needs.Group; g != "" && !slices.Contains(s.Groups, g) {
			s.Groups = append(s.Groups, g)
		}
	}
	for _, p := range f.Processes.Value {
		if p.Owner.IsZero() && p.System == "" && p.Kept == "" {
			s.Unattributed++
		}
	}
	for _, g := range f.GPUs.Value {
		s.GPUs[1]++
		if len(g.Holders) > 0 {
			s.GPUs[0]++
		}
	}
	for _, p := range f.Probes() {
		if p.Status != fleet.OK && p.Status != fleet.NotApplicable {
			s.ProbesFailed = append(s.ProbesFailed, p.Name)
		}
	}
	return s
}

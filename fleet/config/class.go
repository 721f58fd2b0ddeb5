package config

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"ebb/fleet"
)

// Class is a class rule and what a lever needs to know about what it matches.
type Class struct {
	fleet.ClassRule
}

// Defaults are the budgets of the classes. No move budget means that there is
// none: an ephemeral workload has its own expiry, a stuck one no strategy but
// the escalation. A stuck workload's owner may give a longer grace.
func Defaults() map[fleet.Class]fleet.Budget {
	return map[fleet.Class]fleet.Budget{
		fleet.Ephemeral: {Grace: time.Minute},
		fleet.Stateless: {Move: 20 * time.Minute, Grace: 3 * time.Minute},
		fleet.Pausable:  {Move: 10 * time.Minute},
		fleet.Durable:   {Move: 30 * time.Minute},
		fleet.Stuck:     {Grace: 10 * time.Minute},
	}
}

var classNames = []string{"ephemeral", "stateless", "pausable", "durable", "stuck"}

type rawClass struct {
	Name  string `toml:"name"`
	Match struct {
		Kind  string `toml:"kind"`
		ID    string `toml:"id"`
		Owner string `toml:"owner"`
		Label string `toml:"label"`
		Plane string `toml:"plane"`
		Pool  string `toml:"pool"`
	} `toml:"match"`
	Class    string `toml:"class"`
	Move     string `toml:"move"`
	Grace    string `toml:"grace"`
	Keep     bool   `toml:"keep"`
	Park     bool   `toml:"park"`
	Lever    string `toml:"lever"`
	Ready    string `toml:"readiness"`
	InFlight *struct {
		URL    string   `toml:"url"`
		Gauge  []string `toml:"gauge"`
		Window string   `toml:"window"`
	} `toml:"in_flight"`
}

type rawClassBudget struct {
	Move  string `toml:"move"`
	Grace string `toml:"grace"`
}

func (s *source) classes(raw []rawClass, planes []Plane, levers []Lever) []Class {
	names := map[string]bool{}
	for _, p := range planes {
		names[p.Name] = true
	}
	var out []Class
	for i, r := range raw {
		at := fmt.Sprintf("class[%d]", i)
		var c Class
		c.Lever, c.Readiness, c.Park = r.Lever, r.Ready, r.Park
		c.Name, c.Class, c.Keep, c.Match = r.Name, fleet.Class(r.Class), r.Keep, fleet.RuleMatch(r.Match)
		c.Move = s.duration(at+".move", r.Move, 0)
		c.Grace = s.duration(at+".grace", r.Grace, 0)
		switch {
		case r.Class != "":
			s.oneOf(at+".class", r.Class, classNames)
		case !r.Keep:
			s.add(at+".class", "is missing: one of %s, or keep = true", strings.Join(classNames, ", "))
		}
		if r.Keep && c.Match == (fleet.RuleMatch{}) {
			s.add(at+".keep", "a rule that matches everything would keep everything")
		}
		for _, g := range []struct{ key, glob string }{
			{".match.kind", r.Match.Kind}, {".match.id", r.Match.ID}, {".match.owner", r.Match.Owner}, {".match.pool", r.Match.Pool},
		} {
			s.glob(at+g.key, g.glob)
		}
		if k, _, _ := strings.Cut(r.Match.Label, "="); r.Match.Label != "" && strings.TrimSpace(k) != k || strings.HasPrefix(r.Match.Label, "=") {
			s.add(at+".match.label", "%q: want KEY or KEY=VALUE", r.Match.Label)
		}
		if p := r.Match.Plane; p != "" && !names[p] {
			s.add(at+".match.plane", "there is no plane %q in this file", p)
		}
		if f := r.InFlight; f != nil {
			c.InFlight = &fleet.InFlight{URL: f.URL, Gauge: f.Gauge, Window: s.duration(at+".in_flight.window", f.Window, 10*time.Second)}
			s.inFlight(at+".in_flight", c.InFlight)
		}
		s.leverOf(at, c.ClassRule, levers)
		out = append(out, c)
	}
	return out
}

// inFlight wants a loopback address: the agent asks, and what it asks must not
// be chosen to reach anything else.
func (s *source) inFlight(at string, f *fleet.InFlight) {
	u, err := url.Parse(f.URL)
	if err != nil || u.Scheme != "http" || !loopback(u.Hostname()) {
		s.add(at+".url", "want http://127.0.0.1:PORT/…: the agent reads it on its own host")
	}
	if len(f.Gauge) == 0 {
		s.add(at+".gauge", "is missing: the names of the gauges that count requests")
	}
	for i, g := range f.Gauge {
		if g == "" {
			s.add(fmt.Sprintf("%s.gauge[%d]", at, i), "is empty")
		}
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (s *source) budgets(raw map[string]rawClassBudget) map[fleet.Class]fleet.Budget {
	all := Defaults()
	for name, b := range raw {
		at := "budget." + name
		s.oneOf(at, name, classNames)
		def := all[fleet.Class(name)]
		all[fleet.Class(name)] = fleet.Budget{
			Move:  s.duration(at+".move", b.Move, def.Move),
			Grace: s.duration(at+".grace", b.Grace, def.Grace),
		}
	}
	return all
}

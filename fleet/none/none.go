// Package none is the control plane of machines that have none: hosts from a
// list, such as a configuration file or ssh_config gives.
//
// What an agent recognises on a host is its own claim there (SelfClaims), so
// nothing is ever a ghost or an orphan for want of a plane. There is no flag to
// set and no scheduler to ask: the host's word suffices for a cordon, and Set
// and Lift succeed without doing anything. Nothing here does I/O.
package none

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ebb/fleet"
)

// Plane is a fixed list of hosts.
type Plane struct {
	name  string
	hosts []fleet.Host
}

// New makes a plane of hosts whose ids are complete (NAME/ID). Of hosts with the
// same id the first one counts.
func New(name string, hosts []fleet.Host) *Plane {
	p := &Plane{name: name, hosts: slices.Clone(hosts)}
	slices.SortStableFunc(p.hosts, func(a, b fleet.Host) int { return strings.Compare(string(a.ID), string(b.ID)) })
	p.hosts = slices.CompactFunc(p.hosts, func(a, b fleet.Host) bool { return a.ID == b.ID })
	for i := range p.hosts {
		p.hosts[i].Labels = maps.Clone(p.hosts[i].Labels)
		if p.hosts[i].Instance == "" {
			p.hosts[i].Instance = p.hosts[i].Labels["instance"]
		}
	}
	return p
}

// SelfClaims reports that recognised workloads are their own claims.
func (p *Plane) SelfClaims() bool { return true }

// Hosts lists the hosts by id.
func (p *Plane) Hosts(context.Context) ([]fleet.Host, error) {
	out := slices.Clone(p.hosts)
	for i := range out {
		out[i].Labels = maps.Clone(out[i].Labels)
	}
	return out, nil
}

// Claims returns an entry without claims for every host that was asked for; nil
// means all.
func (p *Plane) Claims(_ context.Context, hosts []fleet.HostID) (map[fleet.HostID][]fleet.Claim, error) {
	out := map[fleet.HostID][]fleet.Claim{}
	if hosts == nil {
		for _, h := range p.hosts {
			out[h.ID] = nil
		}
	}
	for _, h := range hosts {
		if err := p.known(h); err != nil {
			return nil, err
		}
		out[h] = nil
	}
	return out, nil
}

// Set succeeds and stores nothing; the flag it returns is the one it was given.
func (p *Plane) Set(_ context.Context, host fleet.HostID, f fleet.Flag) (fleet.Flag, error) {
	return f, p.known(host)
}

// Lift succeeds: there is no flag.
func (p *Plane) Lift(_ context.Context, host fleet.HostID, _ bool) error { return p.known(host) }

// Eligible says that there is no scheduler to ask.
func (p *Plane) Eligible(_ context.Context, host fleet.HostID) (fleet.Eligibility, error) {
	return fleet.Eligibility{
		Eligible: fleet.ReadNotApplicable[bool]("plane "+p.name, time.Time{}, "there is no control plane, and so no scheduler"),
	}, p.known(host)
}

// MissingError says that a host is not in the list.
type MissingError struct {
	Plane string
	Host  fleet.HostID
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("plane %s does not know a host %q", e.Plane, e.Host)
}

// Final says that trying again does not help.
func (e *MissingError) Final() bool { return true }

func (p *Plane) known(host fleet.HostID) error {
	if _, ok := slices.BinarySearchFunc(p.hosts, host, func(h fleet.Host, id fleet.HostID) int {
		return strings.Compare(string(h.ID), string(id))
	}); !ok {
		return &MissingError{Plane: p.name, Host: host}
	}
	return nil
}

package demo

import (
	"context"
	"fmt"
	"time"

	"ebb/fleet"
)

// populate puts workloads of every class on the hosts, as a running fleet has
// them, and a few of the things that are wrong with real ones.
func (p *Platform) populate(ctx context.Context) error {
	owners := []string{"search", "inference", "lena", "data", "ci-team", "payments"}
	for i, h := range p.fleet.Hosts {
		owner := owners[i%len(owners)]
		work := []Spec{
			{Kind: "job", ID: fmt.Sprintf("ci-%d", 88200+i), Class: fleet.Ephemeral, Owner: "ci-team", Life: time.Duration(12+7*i) * time.Minute},
			{Kind: "service", ID: fmt.Sprintf("web-%d", i+1), Class: fleet.Stateless, Owner: owner, Serve: true, Grace: 20 * time.Second},
		}
		switch i % 4 {
		case 0:
			work = append(work, Spec{Kind: "batch", ID: fmt.Sprintf("etl-%d", i+1), Class: fleet.Stuck, Owner: "data", IgnoreTerm: true},
				Spec{Kind: "notebook", ID: fmt.Sprintf("nb-%s-%d", owner, i), Class: fleet.Pausable, Owner: owner})
		case 1:
			work = append(work, Spec{Kind: "notebook", ID: fmt.Sprintf("nb-lena-%d", i), Class: fleet.Pausable, Owner: "lena"})
		case 2:
			work = append(work, Spec{Kind: "service", ID: fmt.Sprintf("vllm-%d", i), Class: fleet.Stateless, Owner: "inference", Serve: true, Grace: 30 * time.Second})
		}
		if pool(h.Name) == "data" {
			work = append(work, Spec{Kind: "postgres", ID: fmt.Sprintf("pg-orders-%d", i), Class: fleet.Durable, Owner: "payments"})
		}
		for _, s := range work {
			if err := p.RunOn(ctx, h, s); err != nil {
				return err
			}
		}
		for _, s := range movable(i, owner) {
			if err := p.runMoved(ctx, h, s); err != nil {
				return err
			}
		}
	}
	// What real fleets have too: something started by hand that nobody claims, and
	// a directory that nobody's process uses any more.
	first := p.fleet.Hosts[0].Place()
	if err := StartTrainer(first, "by-hand-1"); err != nil {
		return err
	}
	return LeakDir(p.fleet.Hosts[1%len(p.fleet.Hosts)].Place(), "old-7")
}

// movable are workloads that the demo's levers move.
func movable(i int, owner string) []Spec {
	switch i % 4 {
	case 1:
		return []Spec{{Kind: "counter", ID: fmt.Sprintf("tally-%d", i), Class: fleet.Pausable, Owner: owner, As: "counter"}}
	case 2: // a tenant's, which parks on its host
		s := tenant
		s.ID, s.Owner = fmt.Sprintf("tenant-%d", i), owner
		return []Spec{s}
	case 3:
		return []Spec{{Kind: "store", ID: fmt.Sprintf("orders-%d", i), Class: fleet.Durable, Owner: "payments", As: "store"},
			{Kind: pageKind, ID: fmt.Sprintf("shop-%d", i), Class: fleet.Stateless, Owner: owner, Serve: true, Grace: 20 * time.Second}}
	}
	return nil
}

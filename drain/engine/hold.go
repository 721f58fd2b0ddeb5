package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// announce makes the turn's epoch known to source and targets, so that nothing
// of an earlier driver begins there any more. Whoever can't be reached is told
// before the first act there.
func (d *Driver) announce(ctx context.Context, facts fleet.Facts) error {
	err := d.renewHold(ctx, facts)
	if err == nil && facts.Holds.Drain == nil && !d.settingUp() {
		err = d.announceTo(ctx, d.host)
	}
	if err != nil {
		if decided(err) {
			return err
		}
		d.e.cfg.Log.Warn("epoch not announced", "host", d.host, "error", err)
	}
	return d.announceTargets(ctx)
}

func (d *Driver) announceTargets(ctx context.Context) error {
	targets := map[fleet.HostID]bool{}
	for _, it := range d.s.Items {
		if it.Open() && it.Target != "" {
			targets[it.Target] = true
		}
	}
	for _, a := range d.s.Open {
		if a.Target != "" && a.Target != d.host {
			targets[a.Target] = true
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var stale error
	for t := range targets {
		wg.Go(func() {
			err := d.announceTo(ctx, t)
			if err == nil {
				return
			}
			d.e.cfg.Log.Warn("epoch not announced", "host", t, "error", err)
			if errors.Is(err, drain.ErrLeaseLost) {
				mu.Lock()
				stale = err
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return stale
}

func (d *Driver) announceTo(ctx context.Context, host fleet.HostID) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	agent, err := d.e.cfg.Agents.Agent(ctx, host, RoleOperate)
	if err == nil {
		_, err = agent.Announce(ctx, d.s.Drain, d.lease.Epoch)
	}
	if err != nil {
		return fmt.Errorf("announce drain %s to %s: %w", d.s.Drain, host, err)
	}
	return nil
}

// settingUp reports whether the drain is still, or again, at setting its hold: a
// person has asked for it, and the journal says so.
func (d *Driver) settingUp() bool {
	return d.s.Phase == drain.Planned || d.s.Phase == drain.Cordoning
}

// renewHold sets the drain hold, and again whenever what it says has changed:
// the fence's epoch, and the deadline that limits how far work is renewed. A
// hold that somebody has lifted in mid-drain is not set again, by no driver:
// that was a decision.
func (d *Driver) renewHold(ctx context.Context, facts fleet.Facts) error {
	want := fleet.Hold{Kind: fleet.DrainHold, Who: d.s.By.Name, Why: d.s.Reason, Drain: d.s.Drain, Journal: d.e.cfg.Journal.Name(),
		Epoch: d.lease.Epoch, Deadline: d.s.Deadline, Evacuate: d.s.Evacuate, For: d.s.For}
	if d.s.Undone || facts.Sealed != "" { // a sealed host changes nothing, and is looked after all the same
		return nil
	}
	if h := facts.Holds.Drain; h == nil {
		if !d.settingUp() {
			return nil
		}
	} else if h.Drain == want.Drain && h.Epoch == want.Epoch && h.Deadline.Equal(want.Deadline) && h.Evacuate == want.Evacuate && h.For == want.For {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	agent, err := d.e.cfg.Agents.Agent(ctx, d.host, RoleOperate)
	if err != nil {
		return fmt.Errorf("drain %s: %w", d.host, err)
	}
	if _, err := agent.SetHold(ctx, want, facts.Machine); err != nil {
		return fmt.Errorf("drain %s: set the drain hold: %w", d.host, err)
	}
	return nil
}

// retell tells a plane again that has not heard of the cordon, or has forgotten
// it.
func (d *Driver) retell(ctx context.Context, v drain.View) {
	if v.Source.Cordon != fleet.HostOnly || d.settingUp() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := d.e.stillOurs(ctx, d.tenure)
	var plane Cordoner
	if err == nil {
		plane, err = d.e.cfg.Plane(d.host)
	}
	if err == nil {
		_, err = plane.Set(ctx, d.host, fleet.Flag{Set: true, Why: d.s.Reason, Who: d.e.cfg.Actor.Name})
	}
	if err != nil {
		d.e.cfg.Log.Warn("plane not told again", "host", d.host, "error", err)
	}
}

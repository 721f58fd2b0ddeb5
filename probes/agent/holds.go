package agent

import (
	"cmp"

	"ebb/fleet"
	"ebb/probes/wire"
)

// commit makes a record durable and only then current. The lock is held.
func (a *Agent) commit(next Record) error {
	if err := a.ready(); err != nil {
		return notRecorded(err)
	}
	next.Machine = a.cfg.Machine
	if err := a.slots.save(next); err != nil {
		return notRecorded(err)
	}
	wasHeld := a.rec.Holds.Any()
	a.rec = next
	if !wasHeld || !next.Holds.Any() {
		a.idle = nil // what was seen unused before the hold does not count
	}
	a.publish()
	return nil
}

// ready opens the slots where that has not succeeded yet: the disk may have
// been full or read-only when the agent started.
func (a *Agent) ready() error {
	if a.life.Err() != nil {
		return errEnding // another agent may own the directory by now
	}
	if a.slots != nil {
		return nil
	}
	s, rec, err := openSlots(a.cfg.StateDir)
	if s == nil {
		return err
	}
	a.slots = s
	if err == nil && rec.Machine == a.cfg.Machine && a.rec.Unheld {
		a.rec = rec.forBoot(a.cfg.Boot) // it turned up late, and is what holds this host
	}
	return nil
}

// publish puts holds, tickets and exceptions into the facts. The lock is held.
func (a *Agent) publish() {
	a.store.update(func(f *fleet.Facts) {
		f.Holds = fleet.Holds{Cordon: cloneHold(a.rec.Holds.Cordon), Drain: cloneHold(a.rec.Holds.Drain)}
		f.Unheld = a.rec.Unheld
		f.Sealed = a.rec.sealedIn(a.cfg.Boot)
		f.Tickets = openTickets(a.tickets)
		f.Accepted = a.rec.acceptedIn(a.cfg.Boot)
	})
}

func (a *Agent) holdReply(changed bool) wire.HoldReply {
	f, _ := a.store.get()
	return wire.HoldReply{Holds: f.Holds, Machine: a.cfg.Machine, Boot: a.cfg.Boot, At: a.cfg.Clock.Now(), Changed: changed}
}

// cordon sets the cordon. It stands even where the audit log can't be written,
// and the reply says so then.
func (a *Agent) cordon(c Caller, req wire.CordonRequest) (wire.HoldReply, error) {
	if err := a.checkMachine(req.Machine, false); err != nil {
		return wire.HoldReply{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.ready(); err != nil {
		return wire.HoldReply{}, notRecorded(err)
	}
	was := a.rec.Holds.Cordon
	reworded := req.Reword && was != nil && was.Who == clip(req.Who, maxText) && was.Why != clip(req.Why, maxText)
	changed := was == nil || a.rec.Unheld || reworded
	if changed {
		next := a.rec
		next.Unheld = false
		switch {
		case reworded:
			next.Holds.Cordon = cloneHold(was)
			next.Holds.Cordon.Why = clip(req.Why, maxText)
		case was == nil:
			next.Holds.Cordon = &fleet.Hold{
				Kind: fleet.CordonHold, Who: clip(req.Who, maxText), Why: clip(req.Why, maxText), Since: a.cfg.Clock.Now(),
			}
		}
		if err := a.commit(next); err != nil {
			_ = a.audit.append(a.auditLine(c, note{"cordon", "", clip(req.Why, maxText)}, outcome(err)))
			return wire.HoldReply{}, err
		}
	}
	reply := a.holdReply(changed)
	result := "done"
	if !changed {
		result = "already"
	}
	if err := a.audit.append(a.auditLine(c, note{"cordon", "", clip(req.Why, maxText)}, result)); err != nil {
		reply.Audit = err.Error()
	}
	return reply, nil
}

// uncordon lifts the cordon and nothing else. On a host without a record of
// its holds it is the word that nothing holds it.
func (a *Agent) uncordon(c Caller, req wire.LiftRequest) (wire.HoldReply, error) {
	if err := a.checkMachine(req.Machine, false); err != nil {
		return wire.HoldReply{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := false
	err := a.audited(c, note{"uncordon", "", clip(req.Why, maxText)}, func() error {
		if err := a.ready(); err != nil {
			return notRecorded(err)
		}
		if err := a.notSealed(); err != nil {
			return err
		}
		if a.rec.Holds.Cordon == nil && !a.rec.Unheld {
			return nil
		}
		changed = true
		next := a.rec
		next.Holds.Cordon, next.Unheld = nil, false
		return a.commit(next)
	})
	return a.holdReply(changed), err
}

func (a *Agent) notSealed() error {
	if drain := a.rec.sealedIn(a.cfg.Boot); drain != "" {
		return refuse(wire.CodeSealed, "the host has been sealed for termination by drain "+drain).
			hint("the terminate role can lift the seal; it ends with this boot")
	}
	return nil
}

// drain sets or renews the drain hold, which is the fence of one drain.
func (a *Agent) drain(c Caller, req wire.DrainRequest) (wire.HoldReply, error) {
	if err := a.checkMachine(req.Machine, false); err != nil {
		return wire.HoldReply{}, err
	}
	if req.Drain == "" || req.Deadline.IsZero() {
		return wire.HoldReply{}, refuse(wire.CodeBadRequest, "a drain needs an id and an outer deadline")
	}
	if err := cmp.Or(fits("drain", req.Drain, maxID), fits("journal", req.Journal, maxText)); err != nil {
		return wire.HoldReply{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	next, err := a.withDrain(req)
	if err == nil && next.Holds.Equal(a.rec.Holds) && !a.rec.Unheld {
		return a.holdReply(false), nil // renewed as it is: nothing to record
	}
	err = a.audited(c, note{"drain", req.Drain, clip(req.Why, maxText)}, func() error {
		if err != nil {
			return err
		}
		return a.commit(next)
	})
	return a.holdReply(err == nil), err
}

// withDrain is the record with the drain hold set or renewed.
func (a *Agent) withDrain(req wire.DrainRequest) (Record, error) {
	if err := a.ready(); err != nil {
		return Record{}, notRecorded(err)
	}
	if err := a.notSealed(); err != nil {
		return Record{}, err
	}
	old := a.rec.Holds.Drain
	if old != nil && old.Drain != req.Drain {
		return Record{}, otherDrain(old)
	}
	if err := a.notStale(req.Drain, req.Epoch); err != nil {
		return Record{}, err
	}
	hold := fleet.Hold{
		Kind: fleet.DrainHold, Who: clip(req.Who, maxText), Why: clip(req.Why, maxText), Since: a.cfg.Clock.Now(),
		Drain: req.Drain, Journal: req.Journal, Epoch: req.Epoch, Deadline: req.Deadline, Evacuate: req.Evacuate,
		For: fleet.Purpose(clip(string(req.For), 64)),
	}
	next := a.rec
	if old != nil {
		hold.Who, hold.Why, hold.Since = old.Who, old.Why, old.Since
	} else {
		next.Moved = nil
	}
	next.Holds.Drain, next.Unheld = &hold, false
	return next.withEpoch(req.Drain, req.Epoch), nil
}

func otherDrain(h *fleet.Hold) error {
	return refuse(wire.CodeOtherDrain, "drain "+h.Drain+" holds this host").hold(h).
		hint("where its journal is dead, lift it with undrain --theirs")
}

// notStale refuses a driver that a newer one has replaced.
func (a *Agent) notStale(drain string, epoch uint64) error {
	if top, ok := a.rec.epoch(drain); ok && epoch < top {
		return refuse(wire.CodeStaleEpoch, "a newer driver of this drain has been here").epoch(top)
	}
	return nil
}

// undrain lifts the drain hold and nothing else.
func (a *Agent) undrain(c Caller, req wire.LiftRequest) (wire.HoldReply, error) {
	if err := a.checkMachine(req.Machine, false); err != nil {
		return wire.HoldReply{}, err
	}
	verb := "undrain"
	if req.Theirs {
		verb = "undrain --theirs"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := false
	err := a.audited(c, note{verb, clip(req.Drain, maxID), clip(req.Why, maxText)}, func() (err error) {
		changed, err = a.liftDrain(req)
		return err
	})
	return a.holdReply(changed), err
}

func (a *Agent) liftDrain(req wire.LiftRequest) (bool, error) {
	if err := a.notSealed(); err != nil {
		return false, err
	}
	old := a.rec.Holds.Drain
	if old == nil {
		return false, nil
	}
	if !req.Theirs {
		if old.Drain != req.Drain {
			return false, otherDrain(old)
		}
		// A person who lifts the hold of a known drain names no epoch.
		if err := a.notStale(req.Drain, req.Epoch); err != nil && req.Epoch != 0 {
			return false, err
		}
	}
	next := a.rec
	next.Holds.Drain, next.Moved = nil, nil
	return true, a.commit(next)
}

// announce remembers the epoch of a new driver, on a source as on a target.
// Epoch 0 only asks for the highest one seen.
func (a *Agent) announce(c Caller, req wire.EpochRequest) (wire.EpochReply, error) {
	if req.Drain == "" {
		return wire.EpochReply{}, refuse(wire.CodeBadRequest, "which drain?")
	}
	if err := fits("drain", req.Drain, maxID); err != nil {
		return wire.EpochReply{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	top, seen := a.rec.epoch(req.Drain)
	if req.Epoch == 0 || (seen && req.Epoch == top) {
		return wire.EpochReply{Epoch: top}, nil
	}
	err := a.audited(c, note{"epoch", req.Drain, itoa(int(req.Epoch))}, func() error {
		if err := a.notStale(req.Drain, req.Epoch); err != nil {
			return err
		}
		return a.raise(req.Drain, req.Epoch)
	})
	return wire.EpochReply{Epoch: max(top, req.Epoch)}, err
}

// raise persists a higher epoch. A host that knows nothing of its holds stays
// so: to hear of a driver is not to be told of holds.
func (a *Agent) raise(drain string, epoch uint64) error {
	next := a.rec.withEpoch(drain, epoch)
	if h := next.Holds.Drain; h != nil && h.Drain == drain {
		hold := *h
		hold.Epoch = max(hold.Epoch, epoch)
		next.Holds.Drain = &hold
	}
	return a.commit(next)
}

package sim

import (
	"context"
	"fmt"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

// intrude is somebody who can write to the database and is no operator: what he
// writes is unsigned, signed with a key of his own, or an operator's word used
// again for something else. None of it may be obeyed.
func (w *World) intrude(id fleet.HostID) {
	r, s := w.rng, w.watches[id].state
	k := wk("nothing")
	var run fleet.Run
	if p := w.pick(id); p != nil {
		k, run = p.key, p.run
	}
	drainID := s.Drain
	if drainID == "" || r.IntN(4) == 0 {
		drainID = "d-thief"
	}
	var body drain.Body
	switch r.IntN(9) {
	case 0:
		body, drainID = drain.AskStart{Deadline: w.log.clock().Add(time.Minute), Reason: "mine", MayDie: []fleet.Key{k}}, "d-thief"
	case 1:
		body = drain.AskStart{Deadline: w.log.clock().Add(time.Minute), Reason: "mine", MayDie: []fleet.Key{k}}
	case 2:
		body = drain.AskExtend{Until: w.log.clock().Add(-time.Minute)}
	case 3:
		body = drain.AskStop{}
	case 4:
		body = drain.AskClass{Key: k, Class: fleet.Stuck}
	case 5:
		body = drain.AskRetry{}
	case 6:
		body = drain.AskKeep{Key: k}
	default:
		body = drain.AskEscalate{Key: k, Run: run}
	}
	ev, err := drain.NewEvent(id, w.newID(), drainID, 0, drain.Actor{Name: "op", Console: "op/1"}, body)
	if err != nil {
		panic(err)
	}
	switch r.IntN(4) {
	case 0:
	case 1:
		ev, err = engine.Sign(ev, w.thief)
	case 2:
		ev, err = engine.Sign(ev, w.thief)
		ev.By.Key = w.opFingerprint()
	case 3:
		if old, ok := w.lastAsk(); ok {
			ev.Sig, ev.By = old.Sig, old.By // of another ask
			if r.IntN(2) == 0 {             // or the very same one, elsewhere
				fresh := ev.ID
				ev = old
				ev.ID, ev.Stream = fresh, string(id)
			}
		}
	}
	if err != nil {
		panic(err)
	}
	w.forged[ev.ID] = true
	if _, err := w.log.Append(context.Background(), drain.Batch{Stream: ev.Stream, Events: []drain.Event{ev}}); err != nil {
		w.must(NoStranger, false, "%s", fmt.Sprintf("a thief's event was not appended: %v", err))
	}
}

func (w *World) opFingerprint() string {
	ev, _ := engine.Sign(drain.Event{Kind: drain.AskStop{}.Kind()}, w.opKey)
	return ev.By.Key
}

// lastAsk is something that an operator has signed.
func (w *World) lastAsk() (drain.Event, bool) {
	for i := len(w.log.all) - 1; i >= 0; i-- {
		if ev := w.log.all[i]; ev.Sig != "" && !w.forged[ev.ID] {
			return ev, true
		}
	}
	return drain.Event{}, false
}

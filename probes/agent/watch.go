package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ebb/fleet"
	"ebb/probes/wire"
)

// place is where a reader of a watch says it is: at a generation of an agent's
// life. One that knows deltas is told what changed by key.
type place struct {
	since   uint64
	started int64 // of the agent, as its facts say; 0: not said
	byKey   bool
}

func placeOf(q url.Values) place {
	since, _ := strconv.ParseUint(q.Get("since"), 10, 64)
	started, _ := strconv.ParseInt(q.Get("started"), 10, 64)
	return place{since: since, started: started, byKey: q.Get("by") == "key"}
}

// serveWatch streams changes. A slow reader is given the latest state once it
// reads again: what lay between is folded into one change.
func (a *Agent) serveWatch(w http.ResponseWriter, r call) (any, error) {
	if a.Facts().Processes.Status == fleet.Unknown {
		if _, err := a.fresh(r.Context()); err != nil { // the first scan is still running
			return nil, err
		}
	}
	if err := a.shared.begin(); err != nil {
		return nil, err
	}
	defer a.shared.end()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	return nil, a.watch(r.Context(), w, placeOf(r.URL.Query()), r.caller.Role)
}

func (a *Agent) watch(ctx context.Context, w http.ResponseWriter, at place, role wire.Role) error {
	out := http.NewResponseController(w)
	send := func(line []byte) bool {
		_ = out.SetWriteDeadline(time.Now().Add(time.Minute))
		_, err := w.Write(line)
		return err == nil && out.Flush() == nil
	}
	last, changed, first, err := a.begins(at, role)
	if err != nil {
		return err
	}
	for _, line := range first {
		if !send(line) {
			return nil
		}
	}
	beat := time.NewTicker(a.cfg.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.life.Done():
			return nil
		case <-changed:
		case <-beat.C:
		}
		var next fleet.Facts
		next, changed = a.store.get()
		line, err := a.shared.line(last, next, at.byKey)
		if err != nil || !send(line) {
			return nil
		}
		last = next
	}
}

// begins returns what a watch begins with, and the state that it leads to. Who
// knows a state of this agent from which all changes are kept is told those;
// everybody else is told everything.
func (a *Agent) begins(at place, role wire.Role) (fleet.Facts, <-chan struct{}, [][]byte, error) {
	f, changed, changes, known := a.store.since(at.since)
	if !known || at.started != 0 && at.started != f.Agent.Started.UnixNano() || len(changes) > 0 && !at.byKey {
		first, err := a.wholeLine(f, role)
		return f, changed, [][]byte{first}, err
	}
	// At the end, how old everything is by now.
	ages := wire.Diff(f, f)
	if !at.byKey {
		ages = ages.Whole(f)
	}
	now := wire.Change{Generation: f.Generation, Since: f.Generation, Idle: true, At: f.At}
	if !ages.IsZero() {
		now.Patch = &ages
	}
	var lines [][]byte
	for _, c := range append(changes, now) {
		line, err := json.Marshal(c)
		if err != nil {
			return f, changed, nil, err
		}
		lines = append(lines, append(line, '\n'))
	}
	return f, changed, lines, nil
}

// wholeLine is a change that is everything.
func (a *Agent) wholeLine(f fleet.Facts, role wire.Role) ([]byte, error) {
	full, err := a.shared.encoded(f, role)
	if err != nil {
		return nil, err
	}
	raw := json.RawMessage(full)
	b, err := json.Marshal(struct {
		wire.Change
		Full *json.RawMessage `json:"full"`
	}{wire.Change{Generation: f.Generation, At: f.At}, &raw})
	return append(b, '\n'), err
}

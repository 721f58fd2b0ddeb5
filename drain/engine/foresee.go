package engine

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"ebb/drain"
	"ebb/fleet"
)

// Foreseer is a lever that can say beforehand what would become of an act, and
// changes nothing by it.
type Foreseer interface {
	Foresee(ctx context.Context, j drain.Job) (drain.Answer, error)
}

// How many levers are asked at a time, and for how long in all: who asks for a
// plan waits for it.
const (
	foreseeAtOnce = 16
	foreseeLimit  = 15 * time.Second
)

// askLevers asks every lever of a plan, side by side, and folds what they say. One
// that does not answer is named, and keeps nobody waiting for longer than the
// limit.
func (e *Engine) askLevers(ctx context.Context, p drain.Plan) drain.Plan {
	lever, ok := e.cfg.Levers[drain.ActLever].(Foreseer)
	questions := p.Questions()
	if !ok || len(questions) == 0 {
		return p
	}
	ctx, cancel := context.WithTimeout(ctx, foreseeLimit)
	defer cancel()
	var mu sync.Mutex
	said := make(map[fleet.Key]drain.LeverWord, len(questions))
	var g errgroup.Group
	g.SetLimit(foreseeAtOnce)
	for _, j := range questions {
		g.Go(func() error {
			var w drain.LeverWord
			a, err := lever.Foresee(ctx, j)
			if w.Answer = a; err != nil {
				w = drain.LeverWord{Silent: err.Error()}
			}
			mu.Lock()
			defer mu.Unlock()
			said[j.Act.Key] = w
			return nil
		})
	}
	_ = g.Wait()
	return p.Told(said)
}

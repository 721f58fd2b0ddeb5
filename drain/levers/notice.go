package levers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// NoticeBody is what a receiver gets, as JSON: a webhook in its body, a command
// on its standard input.
type NoticeBody struct {
	Act    string        `json:"act"` // unique: a receiver may get a notice twice
	Host   fleet.HostID  `json:"host"`
	Drain  string        `json:"drain"`
	For    fleet.Purpose `json:"for,omitempty"`
	Reason string        `json:"reason,omitempty"`
	By     string        `json:"by"`
	Kind   string        `json:"kind"`
	ID     string        `json:"id"`
	Owner  string        `json:"owner,omitempty"`
	Class  fleet.Class   `json:"class,omitempty"`
	TermAt time.Time     `json:"term_at"` // when TERM will be sent
	Grace  string        `json:"grace"`   // how long it then has
}

// Receiver takes notices.
type Receiver interface {
	Send(ctx context.Context, n NoticeBody) error
}

// Notice tells the owner of a workload what is about to happen to it.
type Notice struct {
	Receivers []Receiver
	Timeout   time.Duration // for each receiver; default 10s
}

// Do tells every receiver. One that accepts is enough; with none configured
// there is nobody to tell, and that is said.
func (l Notice) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	if len(l.Receivers) == 0 {
		return drain.Answer{Result: drain.Done, Reason: fleet.Because(drain.Untold), Detail: "no receiver is configured"}, nil
	}
	n := NoticeBody{Act: j.Act.ID, Host: j.Source.ID, Drain: j.Drain, For: j.For, Reason: j.Reason, By: j.By,
		Kind: j.Item.Key.Kind, ID: j.Item.Key.ID, Owner: j.Item.Owner, Class: j.Item.Class,
		TermAt: j.Act.At, Grace: j.Item.Budget.Grace.String()}
	timeout := l.Timeout
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	errs := make([]error, len(l.Receivers))
	var wg sync.WaitGroup // one that hangs keeps no other from being told
	for i, r := range l.Receivers {
		wg.Go(func() {
			rctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			errs[i] = r.Send(rctx, n)
		})
	}
	wg.Wait()
	accepted := 0
	for _, err := range errs {
		if err == nil {
			accepted++
		}
	}
	failed := errors.Join(errs...)
	if accepted == 0 {
		return drain.Answer{Result: drain.FailedAct, Detail: failed.Error()}, nil
	}
	detail := fmt.Sprintf("%d of %d receivers took it", accepted, len(l.Receivers))
	if failed != nil {
		detail += ": " + failed.Error()
	}
	return drain.Answer{Result: drain.Done, Detail: detail}, nil
}

// Status says that nothing is known: a notice may repeat.
func (l Notice) Status(context.Context, drain.Job) (drain.Answer, bool, error) {
	return drain.Answer{}, false, nil
}

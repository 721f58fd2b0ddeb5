package station

import (
	"context"
	"fmt"
	"time"

	"ebb/drain"
	"ebb/drain/journal"
)

// journalOr answers every call with why there is no journal, where there is
// none.
type journalOr struct {
	*journal.Journal
	err error
}

func (j journalOr) missing() error { return fmt.Errorf("the journal is not open: %w", j.err) }

func (j journalOr) Append(ctx context.Context, b drain.Batch) ([]drain.Event, error) {
	if j.Journal == nil {
		return nil, j.missing()
	}
	return j.Journal.Append(ctx, b)
}

func (j journalOr) Stream(ctx context.Context, stream string, after uint64, limit int) ([]drain.Event, error) {
	if j.Journal == nil {
		return nil, j.missing()
	}
	return j.Journal.Stream(ctx, stream, after, limit)
}

func (j journalOr) Acquire(ctx context.Context, id, holder string, minEpoch uint64) (drain.Lease, error) {
	if j.Journal == nil {
		return drain.Lease{}, j.missing()
	}
	return j.Journal.Acquire(ctx, id, holder, minEpoch)
}

func (j journalOr) Renew(ctx context.Context, l drain.Lease) (drain.Lease, error) {
	if j.Journal == nil {
		return l, j.missing()
	}
	return j.Journal.Renew(ctx, l)
}

func (j journalOr) Release(ctx context.Context, l drain.Lease) error {
	if j.Journal == nil {
		return j.missing()
	}
	return j.Journal.Release(ctx, l)
}

func (j journalOr) Leases(ctx context.Context) ([]drain.Lease, error) {
	if j.Journal == nil {
		return nil, j.missing()
	}
	return j.Journal.Leases(ctx)
}

func (j journalOr) Now(ctx context.Context) (time.Time, error) {
	if j.Journal == nil {
		return time.Time{}, j.missing()
	}
	return j.Journal.Now(ctx)
}

func (j journalOr) Name() string {
	if j.Journal == nil {
		return ""
	}
	return j.Journal.Name()
}

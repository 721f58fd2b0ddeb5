package station

import (
	"context"

	"ebb/drain"
	"ebb/fleet"
)

// Silent reads which drivers have gone without a word.
func (s *Station) Silent(ctx context.Context) (drain.Silent, error) {
	now, err := s.Journal.Now(ctx)
	if err != nil {
		return nil, err
	}
	leases, err := s.Journal.Leases(ctx)
	if err != nil {
		return nil, err
	}
	return drain.SilentOf(leases, now), nil
}

// State is the newest drain of a host, driven by nobody where its driver has gone
// without a word.
func (s *Station) State(ctx context.Context, id fleet.HostID) (drain.State, error) {
	st, err := s.Engine.State(ctx, id)
	if err != nil || st.Driver == "" {
		return st, err
	}
	silent, err := s.Silent(ctx)
	return silent.Of(st), err
}

package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// What steps look at, through the program's JSON output.
type (
	cordonLook struct {
		State  fleet.CordonState `json:"state"`
		Proved []string          `json:"proved"`
	}
	diffLook struct {
		Findings []fleet.Finding `json:"findings"`
	}
	gateLook struct {
		Issues []fleet.Issue `json:"issues"`
	}
	hostLook struct {
		Host  fleet.HostID `json:"host"`
		State string       `json:"state"`
		Holds fleet.Holds  `json:"holds"`

		Parked []struct {
			Key fleet.Key `json:"key"`
		} `json:"parked"`
	}
)

func (s *Stage) board(ctx context.Context, host string) (drain.State, error) {
	var st drain.State
	err := s.quiet().read(ctx, &st, "board", host)
	return st, err
}

// item waits until an item of a drain is as wanted.
func (s *Stage) item(ctx context.Context, host string, key fleet.Key, what string, want func(drain.Item) bool) error {
	return s.until(ctx, key.String()+" "+what, func() (bool, error) {
		st, err := s.board(ctx, host)
		if err != nil {
			return false, err
		}
		it, ok := st.Items[key]
		if ok && want(it) {
			return true, nil
		}
		return false, fmt.Errorf("phase %s, step %q, reason %v, end %q by %q", st.Phase, it.Step, it.Reason, it.End, it.EndBy)
	})
}

func ended(end drain.End, by string) func(drain.Item) bool {
	return func(it drain.Item) bool { return it.End == end && (by == "" || it.EndBy == by) }
}

func (s *Stage) hosts(ctx context.Context) (map[string]hostLook, error) {
	var lines []hostLook
	err := s.quiet().read(ctx, &lines, "hosts")
	out := make(map[string]hostLook, len(lines))
	for _, l := range lines {
		out[l.Host.Name()] = l
	}
	return out, err
}

// refusals lists the placements that a host refused.
func (s *Stage) refusals(ctx context.Context, h *Host) ([]string, error) {
	all, err := s.Fleet.Platform.Plane.Refused(ctx)
	var out []string
	for _, r := range all {
		if r.Host == h.ID() {
			out = append(out, r.Key.String()+": "+r.Why)
		}
	}
	return out, err
}

// claimed returns where a workload's claim stands, and in which phase.
func (s *Stage) claimed(ctx context.Context, key fleet.Key) (fleet.HostID, fleet.Phase, error) {
	all, err := s.Fleet.Platform.Plane.Claims(ctx, nil)
	if err != nil {
		return "", "", err
	}
	for host, claims := range all {
		for _, c := range claims {
			if c.Key == key {
				return host, c.Phase, nil
			}
		}
	}
	return "", "", fmt.Errorf("%s is not claimed anywhere", key)
}

// dur writes a scaled duration as a flag takes it.
func (s *Stage) dur(d time.Duration) string {
	return s.Fleet.Scaled(d).Round(time.Millisecond).String()
}

func issueText(issues []fleet.Issue) string {
	parts := make([]string, len(issues))
	for i, is := range issues {
		parts[i] = is.Detail
	}
	return strings.Join(parts, "; ")
}

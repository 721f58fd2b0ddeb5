package station

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ebb/fleet"
	"ebb/tui/words"
)

// Hosts lists the hosts of every plane. Planes that can't be read are in the
// error; the others' hosts are returned all the same.
func (s *Station) Hosts(ctx context.Context) ([]fleet.Host, error) {
	var hosts []fleet.Host
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.planes)) {
		got, err := s.planes[name].Hosts(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("plane %s: %w", name, err))
		}
		hosts = append(hosts, got...)
	}
	return hosts, errors.Join(errs...)
}

// Resolve finds the host that was typed: "plane/id", or an id that only one
// plane has.
func (s *Station) Resolve(ctx context.Context, typed string) (fleet.HostID, error) {
	if plane, _, ok := strings.Cut(typed, "/"); ok {
		if _, known := s.planes[plane]; known {
			return fleet.HostID(typed), nil
		}
	}
	hosts, err := s.Hosts(ctx)
	var found []fleet.HostID
	for _, h := range hosts {
		if h.ID.Name() == typed || string(h.ID) == typed {
			found = append(found, h.ID)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", &HintError{Err: fmt.Errorf("host %q: %d planes have one", typed, len(found)), Next: fmt.Sprintf("name the plane, as in %s", found[0])}
	case err != nil && len(s.planes) == 1:
		// It can't be another plane's, and a cordon must work all the same.
		return fleet.NewHostID(slices.Sorted(maps.Keys(s.planes))[0], typed), nil
	case err != nil:
		return "", &HintError{Err: fmt.Errorf("host %q: %w", typed, err), Next: "name the plane, as in PLANE/" + typed + ", to cordon it all the same"}
	}
	if name, rest, ok := strings.Cut(typed, "/"); ok && slices.ContainsFunc(hosts, func(h fleet.Host) bool { return h.ID.Name() == name }) {
		return "", &HintError{Err: fmt.Errorf("%q is no host: a workload is HOST/KIND/ID, as in %s/KIND/%s", typed, name, rest), Next: "ebb board " + name}
	}
	next := "ebb hosts"
	if near := nearest(typed, hosts); near != "" {
		next = "did you mean " + near + "? All of them: ebb hosts"
	}
	return "", &HintError{Err: fmt.Errorf("host %q: no plane lists it", typed), Next: next}
}

// nearest finds hosts that a slip of a finger leads to, or one that begins like
// what was typed, or contains it.
func nearest(typed string, hosts []fleet.Host) string {
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = h.ID.Name()
	}
	if near := words.Near(typed, names); len(near) > 0 {
		return strings.Join(near, " or ")
	}
	for _, h := range hosts {
		if strings.HasPrefix(h.ID.Name(), typed) || strings.Contains(h.ID.Name(), typed) {
			return h.ID.Name()
		}
	}
	return ""
}

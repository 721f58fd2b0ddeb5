package wire

import (
	"slices"
	"time"

	"ebb/fleet"
)

func workloadKey(w *fleet.Workload) fleet.Key { return w.Key }
func resourceKey(r *fleet.Resource) fleet.Key { return r.Key }

// section returns what turns one reading of a section into another: a delta, or
// all of it where things can't be told apart by key or the probe's status has
// changed. Both are nil where nothing differs but the time.
func section[T any](a, b fleet.Reading[[]T], key func(*T) fleet.Key) (*fleet.Reading[[]T], *Delta[T]) {
	switch {
	case !sameStatus(a, b):
		return &b, nil
	case inOrder(a.Value, key) && inOrder(b.Value, key):
		if d := delta(a.Value, b.Value, key); len(d.Set)+len(d.Gone) > 0 {
			return nil, &d
		}
		return nil, nil
	case sameReading(a, b):
		return nil, nil
	}
	return &b, nil
}

// keepAge adds the age of a section that is older than the facts.
func keepAge[T any](b fleet.Reading[[]T], at time.Time, key func(*T) fleet.Key, whole *fleet.Reading[[]T], d *Delta[T]) (*fleet.Reading[[]T], *Delta[T]) {
	switch {
	case whole != nil || !older(b, at):
		return whole, d
	case !inOrder(b.Value, key):
		return &b, nil
	case d == nil:
		d = new(Delta[T])
	}
	d.At = b.At
	return nil, d
}

func inOrder[T any](list []T, key func(*T) fleet.Key) bool {
	for i := 1; i < len(list); i++ {
		if key(&list[i-1]).Compare(key(&list[i])) >= 0 {
			return false
		}
	}
	return true
}

// delta compares two lists that are in order.
func delta[T any](a, b []T, key func(*T) fleet.Key) Delta[T] {
	var d Delta[T]
	i := 0
	for j := range b {
		k := key(&b[j])
		for i < len(a) && key(&a[i]).Compare(k) < 0 {
			d.Gone = append(d.Gone, key(&a[i]))
			i++
		}
		if i == len(a) || key(&a[i]) != k {
			d.Set = append(d.Set, b[j])
			continue
		}
		if !sameValue(a[i], b[j]) {
			d.Set = append(d.Set, b[j])
		}
		i++
	}
	for ; i < len(a); i++ {
		d.Gone = append(d.Gone, key(&a[i]))
	}
	return d
}

// applyDelta returns the reading after a delta, or as it is where there is none.
func applyDelta[T any](r fleet.Reading[[]T], d *Delta[T], key func(*T) fleet.Key) fleet.Reading[[]T] {
	if d == nil {
		return r
	}
	if !d.At.IsZero() {
		r.At = d.At
	}
	if len(d.Set)+len(d.Gone) == 0 {
		return r
	}
	drop := make(map[fleet.Key]bool, len(d.Set)+len(d.Gone))
	for _, k := range d.Gone {
		drop[k] = true
	}
	for i := range d.Set {
		drop[key(&d.Set[i])] = true
	}
	next := make([]T, 0, len(r.Value)+len(d.Set))
	for i := range r.Value {
		if !drop[key(&r.Value[i])] {
			next = append(next, r.Value[i])
		}
	}
	next = append(next, d.Set...)
	slices.SortStableFunc(next, func(a, b T) int { return key(&a).Compare(key(&b)) })
	r.Value = next
	return r
}

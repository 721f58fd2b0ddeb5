package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"ebb/drain"
)

// A cordon that is lifted while the host is looked at stands in what was seen: the
// host is not empty by that.
func TestLiftedWhileTheHostIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.cordoned()
		e, bob := w.engine(ann), w.engine(bob)
		start(t, e, 2*time.Hour)
		s, err := e.Step(t.Context(), source, nil)
		if err != nil {
			t.Fatal(err)
		}
		begun, _, err := s.Open(t.Context())
		for range 100 {
			for _, b := range begun {
				a, err := b.Do()
				if err = s.Deliver(b, a, err); err != nil {
					t.Fatal(err)
				}
			}
			if err == nil {
				err = s.Renew(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			if st := s.State(); st.Phase == drain.Verifying && !st.Seen.IsZero() {
				break // the next reading decides
			}
			time.Sleep(time.Second)
			begun, _, _, err = s.Pass(t.Context())
		}
		w.hand(func(call string) {
			if call != "plane eligible" { // the host has been read by then
				return
			}
			w.hand(nil)
			if _, err := bob.Uncordon(t.Context(), source, "a mistake", true); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		if _, _, _, err := s.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		st := s.State()
		if st.Phase != drain.Verifying || w.boxes[source].holds.Cordon != nil {
			t.Errorf("%s, with holds %+v", st.Phase, w.boxes[source].holds)
		}
	})
}

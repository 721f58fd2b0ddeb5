package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// incident is a night on which a host looks broken: cordoned on a hunch, begun to
// be drained, and given back when it turns out to have been nothing.
func incident() Script {
	return Script{
		Name: "incident", About: "cordon on a hunch, look, begin to drain, and give the host back", Hosts: 3,
		Steps: []Step{
			{"A host looks slow: cordon it, without waiting for anything", func(ctx context.Context, s *Stage) error {
				for _, w := range []Spec{pg, nb} {
					if err := s.Fleet.Platform.RunOn(ctx, s.Fleet.Host(target), w); err != nil {
						return err
					}
				}
				var c cordonLook
				if err := s.read(ctx, &c, "cordon", target, "--no-wait"); err != nil {
					return err
				}
				if c.State != fleet.Cordoning {
					return fmt.Errorf("it is %q", c.State)
				}
				s.held("plane and host have confirmed; the proof comes later")
				return nil
			}},
			{"New work is refused at the host, what runs goes on", incidentRefused},
			{"Look: claims and host agree", func(ctx context.Context, s *Stage) error {
				var d diffLook
				if err := s.read(ctx, &d, "diff", target); err != nil {
					return err
				}
				if len(d.Findings) != 0 {
					return fmt.Errorf("the diff shows %d findings", len(d.Findings))
				}
				return s.cordonedFor(ctx, "on a hunch")
			}},
			{"The reason is known now: say it, and have the cordon proved", func(ctx context.Context, s *Stage) error {
				var c cordonLook
				if err := s.read(ctx, &c, "cordon", target, "--reason", "ECC errors on two GPUs"); err != nil {
					return err
				}
				if c.State != fleet.Cordoned {
					return fmt.Errorf("the cordon is %q, not proved", c.State)
				}
				return s.cordonedFor(ctx, "ECC errors on two GPUs")
			}},
			{"Begin to drain it: what no lever moves is named, and kept where its owner says so", incidentDrain},
			{"The host's agent is killed in the middle: it comes back holding", incidentRestart},
			{"It was the power cap, not the memory: stop, and give the host back", incidentGivenBack},
		},
	}
}

// cordonedFor wants the cordon to stand alone, with its reason.
func (s *Stage) cordonedFor(ctx context.Context, why string) error {
	hosts, err := s.hosts(ctx)
	if err != nil {
		return err
	}
	if h := hosts[target].Holds; h.Cordon == nil || h.Cordon.Why != why || h.Drain != nil {
		return fmt.Errorf("the holds are %+v", h)
	}
	s.held("no ghosts, orphans or leaks; held only by the cordon %q", why)
	return nil
}

func incidentDrain(ctx context.Context, s *Stage) error {
	if err := s.background(ctx, "drain", "drain", target, "--deadline", s.dur(20*time.Minute), "--for", "hardware", "--reason", "ECC errors on two GPUs"); err != nil {
		return err
	}
	for _, w := range []Spec{pg, nb} {
		if err := s.item(ctx, target, w.Key(), "waits for its owner", func(it drain.Item) bool { return it.Reason.Code == drain.WaitNoStrategy }); err != nil {
			return err
		}
	}
	if _, err := s.run(ctx, 0, "ask", target+"/"+pg.Key().String(), "keep", "--reason", "payments: not before 06:00"); err != nil {
		return err
	}
	if err := s.item(ctx, target, pg.Key(), "is kept", func(it drain.Item) bool { return it.Keep }); err != nil {
		return err
	}
	if _, err := s.run(ctx, 3, "ask", target+"/"+pg.Key().String(), "class", string(fleet.Durable)); err != nil {
		return err
	}
	if err := s.Fleet.Platform.OwnerEnds(s.Fleet.Host(target), nb); err != nil {
		return err
	}
	if err := s.item(ctx, target, nb.Key(), "left by its owner", ended(drain.LeftHost, "owner")); err != nil {
		return err
	}
	s.held("%s is kept by word of its owner, %s was ended by hers", pg.Key(), nb.Key())
	return nil
}

func incidentRefused(ctx context.Context, s *Stage) error {
	_, err := s.Fleet.Platform.Admit(ctx, s.Fleet.Host(target), ci)
	if err == nil || !strings.Contains(err.Error(), "refused") {
		return fmt.Errorf("the host admitted it: %w", err)
	}
	s.held("%v", err)
	f, err := s.Fleet.Host(target).Facts(ctx)
	if err != nil {
		return err
	}
	if n := len(f.Workloads.Value); n != 2 {
		return fmt.Errorf("%d workloads run, not 2", n)
	}
	s.held("%s and %s run on", pg.Key(), nb.Key())
	return nil
}

func incidentRestart(ctx context.Context, s *Stage) error {
	h := s.Fleet.Host(target)
	if err := h.agent.Process.Kill(); err != nil {
		return err
	}
	<-h.ended
	if err := h.startAgent(); err != nil {
		return err
	}
	if err := h.ready(ctx); err != nil {
		return err
	}
	f, err := h.Facts(ctx)
	if err != nil {
		return err
	}
	if !f.Holds.Both() || len(f.Workloads.Value) != 1 {
		return fmt.Errorf("after the restart: holds %+v, %d workloads", f.Holds, len(f.Workloads.Value))
	}
	s.held("killed with SIGKILL and started anew: both holds as before, %s untouched", pg.Key())
	return nil
}

func incidentGivenBack(ctx context.Context, s *Stage) error {
	if _, err := s.run(ctx, 0, "handover", "--write", target+": the power cap, not the memory; pg-orders never moved"); err != nil {
		return err
	}
	if _, err := s.run(ctx, 0, "ask", target, "stop", "--reason", "a false alarm: the power cap"); err != nil {
		return err
	}
	if err := s.finish(ctx, "drain", 5); err != nil {
		return err
	}
	for _, verb := range []string{"undrain", "uncordon"} {
		if _, err := s.run(ctx, 0, verb, target); err != nil {
			return err
		}
	}
	h := s.Fleet.Host(target)
	job := ci
	job.Life = time.Hour
	if err := s.Fleet.Platform.RunOn(ctx, h, job); err != nil {
		return err
	}
	hosts, err := s.Fleet.Platform.Plane.Hosts(ctx)
	if err != nil {
		return err
	}
	for _, p := range hosts {
		if p.ID == h.ID() && p.Draining {
			return errors.New("the plane's flag is still set")
		}
	}
	s.held("host and plane are free, and the host takes %s", job.Key())
	return nil
}

// deadline is a drain that does not get done in time.
func deadline() Script {
	return Script{
		Name: "deadline", About: "a deadline that ends with names, is extended, and then met", Hosts: 3,
		Steps: []Step{
			{"A database runs on the host, and nothing moves it", func(ctx context.Context, s *Stage) error {
				w := web
				w.Grace = s.Fleet.Scaled(20 * time.Second)
				return errors.Join(s.Fleet.Platform.RunOn(ctx, s.Fleet.Host(target), pg), s.Fleet.Platform.RunOn(ctx, s.Fleet.Host(target), w))
			}},
			{"Drain: the deadline is reached, and names what is left", deadlineReached},
			{"Extend it, and let the owner act", deadlineExtended},
			{"Empty: verified and signed", func(ctx context.Context, s *Stage) error {
				_, err := s.run(ctx, 0, "verify", target, "--out", filepath.Join(s.Fleet.Dir, "proof.json"))
				return err
			}},
			{"Give it back: undrain and uncordon, each on its own word", deadlineGivenBack},
		},
	}
}

func deadlineReached(ctx context.Context, s *Stage) error {
	out, err := s.run(ctx, 4, "drain", target, "--deadline", (s.Fleet.Scaled(4*time.Minute) + 6*time.Second).String(), "--for", "hardware")
	if err != nil {
		return err
	}
	if !strings.Contains(out, "deadline reached") || !strings.Contains(out, pg.Key().String()) {
		return fmt.Errorf("it does not name %s: %s", pg.Key(), out)
	}
	st, err := s.board(ctx, target)
	if err != nil {
		return err
	}
	if st.Phase != drain.DeadlineReached || len(st.Left) != 1 || st.Left[0].Key != pg.Key() || st.Left[0].Owner != pg.Owner {
		return fmt.Errorf("phase %s, left %+v", st.Phase, st.Left)
	}
	f, err := s.Fleet.Host(target).Facts(ctx)
	if err != nil || !f.Holds.Both() {
		return errors.Join(err, fmt.Errorf("the holds are %+v", f.Holds))
	}
	s.held("exit status 4; %s of %s is named, untouched, and the host stays held", pg.Key(), pg.Owner)
	return nil
}

func deadlineExtended(ctx context.Context, s *Stage) error {
	if err := s.background(ctx, "drain", "drain", target, "--deadline", (s.Fleet.Scaled(10*time.Minute) + 10*time.Second).String()); err != nil {
		return err
	}
	if err := s.until(ctx, "the drain goes on", func() (bool, error) {
		st, err := s.board(ctx, target)
		return st.Phase == drain.Draining, err
	}); err != nil {
		return err
	}
	if err := s.Fleet.Platform.OwnerEnds(s.Fleet.Host(target), pg); err != nil {
		return err
	}
	if err := s.finish(ctx, "drain", 0); err != nil {
		return err
	}
	st, err := s.board(ctx, target)
	if err != nil || st.Phase != drain.Empty || st.Count().Lost > 0 {
		return errors.Join(err, fmt.Errorf("phase %s, %d lost", st.Phase, st.Count().Lost))
	}
	s.held("its owner ended %s inside the new deadline: empty, nothing lost", pg.Key())
	return nil
}

func deadlineGivenBack(ctx context.Context, s *Stage) error {
	if _, err := s.run(ctx, 0, "undrain", target); err != nil {
		return err
	}
	f, err := s.Fleet.Host(target).Facts(ctx)
	if err != nil || f.Holds.Cordon == nil || f.Holds.Drain != nil {
		return errors.Join(err, fmt.Errorf("after undrain the holds are %+v", f.Holds))
	}
	s.held("undrain lifted its hold, and the cordon stayed")
	if _, err := s.run(ctx, 0, "uncordon", target); err != nil {
		return err
	}
	f, err = s.Fleet.Host(target).Facts(ctx)
	if err != nil || f.Holds.Any() {
		return errors.Join(err, fmt.Errorf("after uncordon the holds are %+v", f.Holds))
	}
	s.held("serving again")
	return nil
}

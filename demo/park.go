package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// A counter that is parked has no process. What it had counted lies in the file
// "parked" on its own host's disk, which its manifest names as what rests there, and
// outlives a reboot; from it, and from nothing else, it is resumed.

const restFile = "parked"

func (w site) parked() string { return filepath.Join(w.dir(), restFile) }

// rests is the manifest of a workload that has no process.
func (w site) rests() error {
	return writeManifest(w.s.file(filepath.Join(w.Root, manifestDir)), fleet.Manifest{ID: w.s.ID, Kind: w.s.Kind, Class: w.s.Class, Owner: w.s.Owner,
		Needs: w.s.Needs, Rest: "/" + filepath.Join(workDir, w.s.Kind+"-"+w.s.ID, restFile)})
}

// stays reports whether the workload stays on its host.
func (l *lever) stays() bool { return slices.Contains(l.Steps, drain.StepPark) }

func (l *lever) resumedFile() string { return filepath.Join(l.rec, "resumed") }

// counterPark keeps the snapshot on the host, says that it rests there, and then
// ends the paused process. Its pid file is put aside first: a platform that finds
// one of a dead process takes its workload for ended.
func counterPark(l *lever) error {
	w := l.source
	s, err := l.saved()
	if err != nil {
		return fmt.Errorf("there is no snapshot: %w", err)
	}
	if !there(w.paused()) {
		return refuses("it counts, and was to be paused")
	}
	if err := writeFile(w.parked(), fmt.Sprintln(s.Value)); err != nil {
		return err
	}
	aside, pid := filepath.Join(l.rec, "pid"), pidFile(filepath.Join(w.Root, manifestDir), w.s)
	if there(pid) {
		if err := os.Rename(pid, aside); err != nil {
			return err
		}
	}
	if err := errors.Join(w.rests(), remove(l.resumedFile())); err != nil {
		return err
	}
	l.note = fmt.Sprintf("at %d, on the disk of %s", s.Value, filepath.Base(w.Root))
	if !there(aside) || dead(aside) {
		return remove(aside)
	}
	if err := signalTo(aside, w.Token, syscall.SIGKILL); err != nil {
		return err
	}
	if err := within(func() bool { return dead(aside) }); err != nil {
		return err
	}
	return remove(aside)
}

// counterUnpark brings the paused process back, which does not count.
func counterUnpark(l *lever) error {
	if !there(l.source.parked()) {
		return nil
	}
	if !l.source.up() {
		if _, err := Launch(l.source.Place, l.source.s); err != nil {
			return err
		}
	}
	return remove(l.source.parked())
}

// counterResumeHere starts what was parked. A process that this lever has not
// started is not its business.
func counterResumeHere(l *lever) error {
	w := l.source
	l.final = true
	if w.up() {
		if !there(l.resumedFile()) {
			l.final = false
			return refuses("it runs already, and not by this lever")
		}
		return remove(w.parked())
	}
	raw, err := os.ReadFile(w.parked())
	if err != nil {
		l.final = false
		return fmt.Errorf("nothing is parked: %w", err)
	}
	if err := errors.Join(writeFile(l.resumedFile(), ""), writeFile(w.value(), string(raw)), remove(w.paused())); err != nil {
		return err
	}
	if _, err := Launch(w.Place, w.s); err != nil {
		return err
	}
	return remove(w.parked())
}

// tenant is what parks: a sandbox that may be paused for as long as its host is
// being maintained.
var tenant = Spec{Kind: "sandbox", ID: "tenant-7", Class: fleet.Pausable, Owner: "lena", As: "counter",
	Needs: fleet.Needs{Compat: map[string]string{"engine": ""}}}

// parking is a maintenance through which a workload stays on its host.
func parking() Script {
	return Script{
		Name: "parking", About: "park here, reboot, resume on word: no gap, and never in two places", Hosts: 3,
		Steps: []Step{
			{"A sandbox runs on gpu-041 and counts", func(ctx context.Context, s *Stage) error {
				if err := s.Fleet.Platform.runMoved(ctx, s.Fleet.Host(target), tenant); err != nil {
					return err
				}
				return s.counts(ctx)
			}},
			{"Plan: for a kernel it is parked; to retire the host, it is shipped", parkPlan},
			{"Drain: it is parked, and the host is not empty", parkDrain},
			{"The gate stays shut: something at rest depends on this host", parkGate},
			{"Maintenance: the host is rebooted, held as before, and nothing comes back by itself", parkReboot},
			{"Resume, on word: it counts on from where it was", parkResume},
			{"Give it back: undrain and uncordon, each on its own word", deadlineGivenBack},
			{"Parked once more: uncordon gives the host back, and what is parked there with it", parkAgain},
		},
	}
}

// counts waits until the counter has counted on, on one host only.
func (s *Stage) counts(ctx context.Context) error {
	first := 0
	return s.until(ctx, "it counts", func() (bool, error) {
		n, where, err := CountLog(s.Fleet.countLog(tenant))
		if err != nil || len(where) != 1 || where[0] != target {
			return false, errors.Join(err, fmt.Errorf("it counted on %v", where))
		}
		if first == 0 {
			first = n
		}
		return n > first, nil
	})
}

func parkPlan(ctx context.Context, s *Stage) error {
	for _, purpose := range []fleet.Purpose{fleet.ForKernel, fleet.ForRetire} {
		var p drain.Plan
		if err := s.read(ctx, &p, "plan", target, "--deadline", s.dur(30*time.Minute), "--for", string(purpose)); err != nil {
			return err
		}
		if len(p.Items) != 1 || !p.Items[0].Reason.IsZero() {
			return fmt.Errorf("planned: %+v", p.Items)
		}
		it := p.Items[0]
		switch parks := purpose == fleet.ForKernel; {
		case it.Parks != parks, parks != (it.Target == ""), parks != it.NotParked.IsZero():
			return fmt.Errorf("for %s: parked %v, to %q, %v", purpose, it.Parks, it.Target, it.NotParked)
		case parks:
			s.held("for %s: %s", purpose, it.Strategy)
		default:
			s.held("for %s: to %s, %s", purpose, it.Target.Name(), it.Strategy)
		}
	}
	return nil
}

// drainToPark drains the host until all that is left is parked on it.
func (s *Stage) drainToPark(ctx context.Context) error {
	if _, err := s.run(ctx, 0, "drain", target, "--deadline", s.dur(30*time.Minute), "--for", "kernel", "--reason", "CVE-2026-1183"); err != nil {
		return err
	}
	st, err := s.board(ctx, target)
	if err != nil {
		return err
	}
	host, phase, err := s.claimed(ctx, tenant.Key())
	if it := st.Items[tenant.Key()]; err != nil || st.Phase != drain.Parked || !it.Parked() || len(st.Lost) > 0 || phase != fleet.AtRest || host.Name() != target {
		return errors.Join(err, fmt.Errorf("phase %s, %+v, claimed %s on %s", st.Phase, it, phase, host))
	}
	w := site{s.Fleet.Host(target).Place(), tenant}
	if w.up() {
		return errors.New("its process runs")
	}
	s.held("%s is parked on %s, claimed at rest there, with no process", tenant.Key(), target)
	return nil
}

func parkDrain(ctx context.Context, s *Stage) error { return s.drainToPark(ctx) }

func parkGate(ctx context.Context, s *Stage) error {
	out, err := s.run(ctx, 3, "verify", target, "--out", filepath.Join(s.Fleet.Dir, "proof.json"))
	if err != nil {
		return err
	}
	hosts, err := s.hosts(ctx)
	if err != nil || len(hosts[target].Parked) != 1 || hosts[target].Parked[0].Key != tenant.Key() {
		return errors.Join(err, fmt.Errorf("ebb hosts shows %+v parked", hosts[target].Parked))
	}
	s.held("no proof: %s", firstLine(out, "rests here"))
	return nil
}

func parkReboot(ctx context.Context, s *Stage) error {
	h := s.Fleet.Host(target)
	before, _, err := CountLog(s.Fleet.countLog(tenant))
	if err != nil {
		return err
	}
	if err := h.reboot(ctx); err != nil {
		return err
	}
	f, err := h.Facts(ctx)
	if err != nil {
		return err
	}
	if !f.Holds.Both() || len(f.Workloads.Value) != 1 || f.Workloads.Value[0].Phase != fleet.AtRest {
		return fmt.Errorf("after the reboot: holds %+v, workloads %+v", f.Holds, f.Workloads.Value)
	}
	if _, err := s.run(ctx, 0, "drain", target); err != nil { // whoever looks changes nothing
		return err
	}
	after, _, err := CountLog(s.Fleet.countLog(tenant))
	if err != nil || after != before {
		return errors.Join(err, fmt.Errorf("it counted from %d to %d", before, after))
	}
	s.held("boot %s, both holds there, %s at rest at %d", f.Boot, tenant.Key(), after)
	return nil
}

func parkResume(ctx context.Context, s *Stage) error {
	if _, err := s.run(ctx, 0, "resume", target); err != nil {
		return err
	}
	if err := s.backHere(ctx); err != nil {
		return err
	}
	f, err := s.Fleet.Host(target).Facts(ctx)
	if err != nil || !f.Holds.Both() {
		return errors.Join(err, fmt.Errorf("the holds are %+v", f.Holds))
	}
	s.held("both holds are still there")
	return nil
}

// backHere looks that the workload runs on its host again.
func (s *Stage) backHere(ctx context.Context) error {
	host, phase, err := s.claimed(ctx, tenant.Key())
	if err != nil || host.Name() != target || phase != fleet.Running {
		return errors.Join(err, fmt.Errorf("claimed %s on %s", phase, host))
	}
	if err := s.counts(ctx); err != nil {
		return err
	}
	last, _, err := CountLog(s.Fleet.countLog(tenant))
	s.held("1 to %d in one row, all on %s", last, target)
	return err
}

func parkAgain(ctx context.Context, s *Stage) error {
	if err := s.drainToPark(ctx); err != nil {
		return err
	}
	for _, verb := range []string{"undrain", "uncordon"} {
		if w := (site{s.Fleet.Host(target).Place(), tenant}); w.up() {
			return fmt.Errorf("it runs before %s", verb)
		}
		if _, err := s.run(ctx, 0, verb, target); err != nil {
			return err
		}
	}
	return s.backHere(ctx)
}

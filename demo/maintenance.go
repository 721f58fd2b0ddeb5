package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// The workloads of the host that the maintenance takes out of service.
var (
	ci   = Spec{Kind: "job", ID: "ci-88213", Class: fleet.Ephemeral, Owner: "ci-team"}
	web  = Spec{Kind: "service", ID: "web-7", Class: fleet.Stateless, Owner: "search", Serve: true}
	nb   = Spec{Kind: "notebook", ID: "nb-lena-12", Class: fleet.Pausable, Owner: "lena"}
	pg   = Spec{Kind: "postgres", ID: "pg-orders", Class: fleet.Durable, Owner: "payments"}
	etl  = Spec{Kind: "batch", ID: "etl-legacy", Class: fleet.Stuck, Owner: "data", IgnoreTerm: true}
	late = Spec{Kind: "job", ID: "late-1", Class: fleet.Ephemeral, Owner: "ci-team"}

	byHand = fleet.Key{Kind: "trainer", ID: "by-hand-1"}
)

const target = "gpu-041"

// maintenance takes one host out of service from the first key to its end.
func maintenance() Script {
	return Script{
		Name: "maintenance", About: "take gpu-041 out of service for a kernel fix", Hosts: 3,
		Steps: []Step{
			{"A working fleet: all five classes on gpu-041, the others busier", setWork},
			{"Cordon: plane and host are told at once; a scheduler with a stale view is refused", cordonStale},
			{"Plan: what would happen to whom, and who may die", showPlan},
			{"Drain: every workload leaves in its own way", drainAll},
			{"Find what nobody claims: the gate refuses by name", gateRefuses},
			{"Clean it, and let the drain end", cleanUp},
			{"Verify: the host signs that it is empty", verifyHost},
			{"Terminate: refused with an edited proof, done with the real one", terminateHost},
		},
	}
}

func setWork(ctx context.Context, s *Stage) error {
	h, p := s.Fleet.Host(target), s.Fleet.Platform
	job := ci
	job.Life = s.Fleet.Scaled(2*time.Minute) + 8*time.Second
	for _, w := range []Spec{job, web, nb, pg, etl} {
		if w.Kind == web.Kind {
			w.Grace = s.Fleet.Scaled(20 * time.Second)
		}
		if err := p.RunOn(ctx, h, w); err != nil {
			return err
		}
	}
	for _, other := range s.Fleet.Hosts {
		for i := range 6 {
			if other == h {
				break
			}
			w := Spec{Kind: "job", ID: fmt.Sprintf("fill-%s-%d", other.Name, i), Class: fleet.Ephemeral, Owner: "ci-team", Life: time.Hour}
			if err := p.RunOn(ctx, other, w); err != nil {
				return err
			}
		}
	}
	if err := StartTrainer(h.Place(), byHand.ID); err != nil {
		return err
	}
	if err := LeakDir(h.Place(), "old-7"); err != nil {
		return err
	}
	slow := late
	slow.Life = s.Fleet.Scaled(time.Minute) + 3*time.Second
	var err error
	s.late, err = p.Admit(ctx, h, slow)
	if err != nil {
		return err
	}
	s.held("%s runs %s, %s, %s, %s and %s", target, ci.Key(), web.Key(), nb.Key(), pg.Key(), etl.Key())
	s.held("%s has been admitted there and is still pulling its image", late.Key())
	p.Stale(true)
	return p.Scheduler.Refresh(ctx)
}

// cordonStale cordons while the scheduler goes on placing by what it believes.
func cordonStale(ctx context.Context, s *Stage) error {
	h := s.Fleet.Host(target)
	if err := s.background(ctx, "cordon", "cordon", target, "--reason", "CVE-2026-1183"); err != nil {
		return err
	}
	if err := s.until(ctx, "the host holds", func() (bool, error) {
		f, err := h.Facts(ctx)
		return f.Holds.Cordon != nil, err
	}); err != nil {
		return err
	}
	placed := 0
	if err := s.until(ctx, "a placement refused with 429", func() (bool, error) {
		w := Spec{Kind: "job", ID: fmt.Sprintf("new-%d", placed), Class: fleet.Ephemeral, Owner: "ci-team", Life: time.Hour}
		placed++
		if _, err := s.Fleet.Platform.Run(ctx, w); err != nil {
			return false, err
		}
		got, err := s.refusals(ctx, h)
		return len(got) > 0, err
	}); err != nil {
		return err
	}
	s.Fleet.Platform.Stale(false)
	refused, err := s.refusals(ctx, h)
	if err != nil {
		return err
	}
	s.held("placed elsewhere after a refusal (429): %s", refused[0])
	if err := s.finish(ctx, "cordon", 0); err != nil {
		return err
	}
	var c cordonLook
	if err := s.read(ctx, &c, "cordon", target); err != nil {
		return err
	}
	if c.State != fleet.Cordoned {
		return fmt.Errorf("the cordon is %q, not proved", c.State)
	}
	host, _, err := s.claimed(ctx, fleet.Key{Kind: "job", ID: "new-0"})
	if err != nil || host == h.ID() {
		return errors.Join(err, fmt.Errorf("new-0 is on %s", host))
	}
	s.held("cordoned, proved: %s", strings.Join(c.Proved, "; "))
	return nil
}

func showPlan(ctx context.Context, s *Stage) error {
	var p drain.Plan
	if err := s.read(ctx, &p, "plan", target, "--deadline", s.dur(20*time.Minute)); err != nil {
		return err
	}
	classes := map[fleet.Key]fleet.Class{}
	for _, it := range p.Items {
		classes[it.Key] = it.Class
		s.held("%-12s %-22s %s", it.Class, it.Key, it.Strategy)
	}
	for _, w := range []Spec{ci, web, nb, pg, etl} {
		if classes[w.Key()] != w.Class {
			return fmt.Errorf("%s is planned as %q", w.Key(), classes[w.Key()])
		}
	}
	die := p.MayDie()
	if !slices.Contains(die, etl.Key()) || slices.Contains(die, pg.Key()) || slices.Contains(die, nb.Key()) || slices.Contains(die, byHand) {
		return fmt.Errorf("the plan lets die: %v", die)
	}
	s.held("may be killed, after notice, TERM and the full grace: %v", die)
	return nil
}

func drainAll(ctx context.Context, s *Stage) error {
	h, p := s.Fleet.Host(target), s.Fleet.Platform
	if err := s.background(ctx, "drain", "drain", target, "--deadline", s.dur(20*time.Minute)+"", "--for", "kernel", "--reason", "CVE-2026-1183"); err != nil {
		return err
	}
	if err := s.item(ctx, target, etl.Key(), "is seen", func(drain.Item) bool { return true }); err != nil {
		return err
	}
	if err := s.late(ctx); err != nil {
		return err
	}
	if err := s.item(ctx, target, late.Key(), "is seen late", func(it drain.Item) bool { return it.Late }); err != nil {
		return err
	}
	s.held("%s landed after the cordon, by a ticket from before it: seen, and marked late", late.Key())
	for _, w := range []Spec{nb, pg} {
		if err := s.item(ctx, target, w.Key(), "waits for its owner", func(it drain.Item) bool { return it.Reason.Code == drain.WaitNoStrategy }); err != nil {
			return err
		}
		if err := p.OwnerEnds(h, w); err != nil {
			return err
		}
		if err := s.item(ctx, target, w.Key(), "left by its owner", ended(drain.LeftHost, "owner")); err != nil {
			return err
		}
		s.held("%s (%s) was named, waited, and was ended by its owner", w.Key(), w.Class)
	}
	if err := s.item(ctx, target, web.Key(), "left", ended(drain.LeftHost, "lever")); err != nil {
		return err
	}
	host, phase, err := s.claimed(ctx, web.Key())
	if err != nil || host == h.ID() || phase != fleet.Running {
		return errors.Join(err, fmt.Errorf("%s is claimed %s on %s", web.Key(), phase, host))
	}
	s.held("%s answers on %s, and only then was the old one stopped", web.Key(), host.Name())
	if err := s.item(ctx, target, etl.Key(), "left", ended(drain.LeftHost, "lever")); err != nil {
		return err
	}
	st, err := s.board(ctx, target)
	if err != nil {
		return err
	}
	it := st.Items[etl.Key()]
	if it.TermAt.IsZero() || it.Term2At.Sub(it.TermAt) < it.Budget.Grace || it.RecordAt.Before(it.Term2At) || it.KillAt.Before(it.RecordAt) {
		return fmt.Errorf("%s was ended out of order: %+v", etl.Key(), it)
	}
	s.held("%s ignored TERM: notice, TERM, %s grace, TERM, record, KILL", etl.Key(), it.Budget.Grace.Round(100*time.Millisecond))
	for _, w := range []Spec{ci, late} {
		if err := s.item(ctx, target, w.Key(), "left", ended(drain.LeftHost, "")); err != nil {
			return err
		}
	}
	s.held("%s and %s expired by themselves", ci.Key(), late.Key())
	return nil
}

func gateRefuses(ctx context.Context, s *Stage) error {
	var d diffLook
	if err := s.read(ctx, &d, "diff", target); err != nil {
		return err
	}
	verdicts := map[string]fleet.Verdict{}
	for _, f := range d.Findings {
		verdicts[f.Key.String()] = f.Verdict
	}
	leak := "dir//" + workDir + "/trainer-old-7"
	if verdicts[byHand.String()] != fleet.Orphan || verdicts[leak] != fleet.Leak {
		return fmt.Errorf("the diff shows %v", verdicts)
	}
	s.held("%s is an orphan: it runs and nobody claims it", byHand)
	s.held("%s is a leak: its owner is gone", leak)
	var g gateLook
	if err := s.read(ctx, &g, "verify", target); err != nil {
		return err
	}
	text := issueText(g.Issues)
	if !strings.Contains(text, byHand.ID) || !strings.Contains(text, "old-7") {
		return fmt.Errorf("the gate says: %s", text)
	}
	out, err := s.run(ctx, 3, "verify", target, "--out", filepath.Join(s.Fleet.Dir, "early.json"))
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.Fleet.Dir, "early.json")); err == nil {
		return errors.New("a proof was written all the same")
	}
	s.held("the gate is shut: %s", firstLine(out, "locked"))
	return nil
}

func firstLine(text, with string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, with) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

func cleanUp(ctx context.Context, s *Stage) error {
	before, err := s.run(ctx, 0, "clean", target)
	if err != nil {
		return err
	}
	if !strings.Contains(before, "nothing was changed") {
		return fmt.Errorf("the dry run says: %s", before)
	}
	if _, err := os.Stat(filepath.Join(s.Fleet.Host(target).Dir, workDir, "trainer-old-7")); err != nil {
		return errors.New("the dry run removed something")
	}
	if _, err := s.run(ctx, 0, "clean", target, "--yes"); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.Fleet.Host(target).Dir, workDir, "trainer-old-7")); err == nil {
		return errors.New("the directory is still there")
	}
	s.held("the leaked directory is gone")
	if err := s.item(ctx, target, byHand, "left", ended(drain.LeftHost, "lever")); err != nil {
		return err
	}
	s.held("the orphan ended on TERM, by name")
	if err := s.finish(ctx, "drain", 0); err != nil {
		return err
	}
	st, err := s.board(ctx, target)
	if err != nil {
		return err
	}
	if st.Phase != drain.Empty || st.Count().Lost != 0 {
		return fmt.Errorf("the drain is %s, %d lost", st.Phase, st.Count().Lost)
	}
	s.held("the drain is over: empty, nothing lost")
	return nil
}

func (s *Stage) proofFile() string { return filepath.Join(s.Fleet.Dir, "proof.json") }

func verifyHost(ctx context.Context, s *Stage) error {
	if _, err := s.run(ctx, 0, "verify", target, "--out", s.proofFile()); err != nil {
		return err
	}
	if _, err := s.run(ctx, 0, "proof", "check", s.proofFile()); err != nil {
		return err
	}
	s.held("%s and its signature are good", filepath.Base(s.proofFile()))
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		s.held("(ssh-keygen is not installed here: its own check is left out)")
		return nil
	}
	signers, err := s.run(ctx, 0, "proof", "signers", target)
	if err != nil {
		return err
	}
	allowed := filepath.Join(s.Fleet.Dir, "allowed_signers")
	if err := os.WriteFile(allowed, []byte(signers), 0o600); err != nil {
		return err
	}
	doc, err := os.ReadFile(s.proofFile())
	if err != nil {
		return err
	}
	who := string(s.Fleet.Host(target).ID())
	cmd := exec.CommandContext(ctx, keygen, "-Y", "verify", "-f", allowed, "-I", who, "-n", "ebb-proof", "-s", s.proofFile()+".sig")
	cmd.Stdin = bytes.NewReader(doc)
	said, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("ssh-keygen -Y verify: %w: %s", err, said)
	}
	s.held("ssh-keygen -Y verify: %s", strings.TrimSpace(string(said)))
	return nil
}

func terminateHost(ctx context.Context, s *Stage) error {
	h := s.Fleet.Host(target)
	doc, err := os.ReadFile(s.proofFile())
	if err != nil {
		return err
	}
	sig, err := os.ReadFile(s.proofFile() + ".sig")
	if err != nil {
		return err
	}
	edited := filepath.Join(s.Fleet.Dir, "edited.json")
	changed := bytes.Replace(doc, []byte(`"epoch":`), []byte(`"epoch":1`), 1)
	if bytes.Equal(changed, doc) {
		return errors.New("the proof could not be edited")
	}
	if err := errors.Join(os.WriteFile(edited, changed, 0o600), os.WriteFile(edited+".sig", sig, 0o600)); err != nil {
		return err
	}
	if _, err := s.run(ctx, 3, "terminate", target, "--proof", edited, "--confirm", target); err != nil {
		return err
	}
	if f, err := h.Facts(ctx); err != nil || f.Sealed != "" {
		return errors.Join(err, fmt.Errorf("after the refusal the host is sealed: %q", f.Sealed))
	}
	s.held("refused with an edited proof; the host is untouched")
	if _, err := s.run(ctx, 0, "terminate", target, "--proof", s.proofFile(), "--confirm", target); err != nil {
		return err
	}
	if h.alive() {
		return errors.New("the host's agent still runs")
	}
	s.held("done with the real one: %s is gone, and stays silent", target)
	if _, err := s.run(ctx, 3, "terminate", target, "--proof", s.proofFile(), "--confirm", target); err != nil {
		return err
	}
	s.held("a second terminate is refused")
	return nil
}

//go:build ignore

// Mutants breaks each check that keeps something from happening that must never
// happen, one at a time and only in an overlay, and runs the tests that have to
// notice. It fails if one of them does not, or if a check is no longer where it
// was.
//
//	go run .ci/mutants.go [NAME…]
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// mutant is one check, broken: the text old, which stands once in the file,
// becomes new.
type mutant struct {
	name, file, old, new string
	tests                []string // arguments of go test
}

func agent(run string) []string { return []string{"./probes/agent", "-run", run} }
func seeds(first, n string) []string {
	return []string{"./demo/sim", "-run", "TestHistories", "-first", first, "-seeds", n, "-stop", "1"}
}

var (
	likeAgent   = []string{"./demo/sim", "-run", "TestAgentIsTheAgent"}
	likeJournal = []string{"./demo/sim", "-run", "TestLogIsTheJournal"}
	engines     = []string{"./drain/engine"}
)

var mutants = []mutant{
	{"fence: stale epoch", "probes/agent/holds.go", "ok && epoch < top {", "ok && epoch < top && top == 0 {", likeAgent},
	{"fence: another drain", "probes/agent/acts.go", "if hold != nil && hold.Drain != req.Drain {", "if hold != nil && hold.Drain == \"\" {", likeAgent},
	{"fence: the simulated agent", "demo/sim/agent.go", "epoch < top {", "epoch < top && top == 0 {", seeds("1", "300")},
	{"act once", "probes/agent/acts.go", "if old := a.acts.byID[req.ID]; old != nil {", "if old := a.acts.byID[req.ID]; old != nil && old.req.ID == \"\" {", likeAgent},
	{"lease: append without", "drain/journal/append.go", "if b.Lease != nil {", "if b.Lease != nil && b.Lease.Holder == \"\" {", likeJournal},
	{"lease: run out", "drain/journal/books.go", "if have.Until.UnixMicro() <= b.now {", "if have.Until.UnixMicro() < 0 {", likeJournal},
	{"lease: taken from another", "drain/journal/books.go", "have.Holder != holder && have.Until.UnixMicro() > b.now {", "have.Holder == holder && b.now < 0 {", likeJournal},
	{"lease: an act begun late", "drain/engine/lease.go", "if t.left() > 0 {", "if t.left() > -100*time.Hour {", []string{"./drain/engine", "-run", "Overtaken"}},
	{"grace gap: agent", "probes/agent/signal.go", "if t.At-first >= grace {", "if grace >= 0 {", agent("Kill")},
	{"notice gap: core", "drain/escalate.go", "it.NoticeAt.Add(d.p.Notice), it.TermAt.Add(grace)", "it.NoticeAt.Add(0 * d.p.Notice), it.TermAt.Add(grace)", seeds("1", "60")},
	{"grace gap: core", "drain/escalate.go", "it.NoticeAt.Add(d.p.Notice), it.TermAt.Add(grace)", "it.NoticeAt.Add(d.p.Notice), it.TermAt.Add(0 * grace)", seeds("1", "60")},
	{"notice that was never sent", "drain/apply_items.go", "case act.Step == StepNotice && b.Result == NotDone:", "case act.Step == \"\" && b.Result == NotDone:", seeds("1", "300")},
	{"run identity: start time", "probes/agent/signal.go", "case start != run.Start:", "case start == 0:", agent("Signal|Run|Identi")},
	{"run identity: owner", "probes/agent/signal.go", "case !a.isOf(f, p, req.Key):", "case p.Run.PID == 0:", likeAgent},
	{"run identity: core", "drain/apply_items.go", "case old.Open() && old.Run == f.Run:", "case old.Open():", []string{"./drain"}},
	{"unknown probe: proof", "fleet/proof/issues.go", "return p.Status == fleet.OK || p.Status == fleet.NotApplicable && p.Name != \"processes\"", "return p.Status != \"x\"", []string{"./fleet/proof"}},
	{"unknown probe: vanished", "drain/inventory.go", "case d.facts.Processes.Status != fleet.OK:", "case d.facts.Processes.Status == \"x\":", seeds("1", "200")},
	{"empty: a second reading", "drain/closing.go", "again := d.facts.At.IsZero() || !d.s.Seen.IsZero() && d.facts.At.After(d.s.Seen)", "again := true", []string{"./drain"}},
	{"digest", "probes/agent/seal.go", "if proof.Digest(items) == doc.Digest {", "if proof.Digest(items) != \"\" {", agent("Seal|Proof|Terminat")},
	{"digest: the simulated agent", "demo/sim/agent_gate.go", "proof.Digest(proof.Items(f)) != doc.Digest {", "proof.Digest(proof.Items(f)) == \"\" {", seeds("1", "300")},
	{"digest: claims moved since", "drain/engine/terminate.go", "if issues := claimsMoved(p.doc, v); len(issues) > 0 {", "if issues := claimsMoved(p.doc, v); len(issues) > 99 {", engines},
	{"terminate: no seal", "drain/engine/terminate.go", "if err == nil && len(issues) == 0 {\n\t\tissues, err = plan.agent.Seal", "if err != nil && len(issues) == 0 {\n\t\tissues, err = plan.agent.Seal", seeds("1", "200")},
	{"terminate: twice", "drain/engine/settle.go", "case !t.done.IsZero():", "case !t.done.IsZero() && t.num == 0:", engines},
	{"terminate: an intent stands", "drain/engine/settle.go", "case t.open.Act != \"\":", "case t.open.Act != \"\" && t.num == 0:", engines},
	{"seal: ends with the boot", "probes/agent/record.go", "if r.Seal == nil || r.Seal.Boot != boot {\n\t\treturn \"\"", "if r.Seal == nil {\n\t\treturn \"\"", agent("Seal|Proof|Terminat|Boot")},
	{"seal: not for ever undriven", "drain/engine/hold.go", "if d.s.Undone || facts.Sealed != \"\" {", "if d.s.Undone {", engines},
	{"seal: the agent is the model", "probes/agent/seal.go", "if issues := a.actIssues(); len(issues) > 0 {\n\t\treturn wire.SealReply{}, refuse(wire.CodeChanged", "if issues := a.actIssues(); len(issues) == 0 {\n\t\treturn wire.SealReply{}, refuse(wire.CodeChanged", likeAgent},
	{"signed asks: none needed", "drain/engine/trust.go", "if !t.Required || !ev.Kind.IsAsk() {", "if !t.Required || !ev.Kind.IsAsk() || ev.Sig == \"\" {", seeds("1", "200")},
	{"signed asks: of another", "drain/engine/trust.go", "if err := sshsig.Verify(drain.AskNamespace, ev.Signed(), ev.Sig, o.Key); err != nil {", "if err := sshsig.Verify(drain.AskNamespace, ev.Signed(), ev.Sig, o.Key); err != nil && ev.ID == \"\" {", seeds("1", "300")},
	{"room: promised with the intent", "drain/place.go", "if it.FlippedAt.IsZero() && s.coming(it) {", "if it.FlippedAt.IsZero() && s.coming(it) && !it.StartedAt.IsZero() {", engines},
	{"room: looked at once more", "drain/engine/pass.go", "if places(decision) {", "if places(decision) && d.host == \"\" {", engines},
	{"room: what others bring", "drain/place.go", "for _, n := range p.Promised[t.Host.ID] {\n\t\tadd(n, false)", "for _, n := range p.Promised[t.Host.ID][:0] {\n\t\tadd(n, false)", []string{"./drain"}},
	{"room: moves to one target", "drain/place.go", "if p.Limit > 0 && len(p.Inbound[t.Host.ID]) >= p.Limit {", "if p.Limit < 0 && len(p.Inbound[t.Host.ID]) >= p.Limit {", seeds("1", "300")},
	{"serving: in flight", "drain/quiesce.go", "case it.InFlight == nil || ", "case it.InFlight != nil || ", seeds("1", "300")},
	{"act once: the simulated agent", "demo/sim/agent_acts.go", "if old := a.acts[r.ID]; old != nil {", "if old := a.acts[r.ID]; old != nil && old.req.ID == \"\" {", seeds("1", "300")},
	{"forgery: an act's id", "drain/waits.go", "plain = c > ' ' && c < 0x7f && c != '%' && c != '~'", "plain = c != 0", seeds("1", "100")},
	{"cordon: both sides", "drain/next.go", "if state == fleet.Cordoned && d.facts.Holds.Both() ", "if state != \"\" && d.facts.Holds.Both() ", seeds("1", "300")},
	{"left or lost: two clocks", "drain/inventory.go", " && !d.facts.At.Before(it.Expires) {", " {", []string{"./drain", "-run", "TestATime"}},
	{"cleaning: identity", "probes/agent/clean.go", "if r.Key == key && r.Identity == identity {", "if r.Key == key && identity != \"\" {", agent("Clean")},
	{"cleaning: in use", "probes/agent/clean.go", "case len(r.Users) > 0:", "case len(r.Users) > 99:", agent("Clean")},
	{"seal", "probes/agent/holds.go", "if drain := a.rec.sealedIn(a.cfg.Boot); drain != \"\" {", "if drain := a.rec.sealedIn(a.cfg.Boot); drain == \"x\" {", agent("Seal|Proof|Terminat")},
	{"left or lost", "drain/inventory.go", "return Ended{Key: it.Key, End: Lost, By: how}, true", "return Ended{Key: it.Key, End: LeftHost, By: \"owner\"}, how != \"\"", seeds("1", "60")},
	{"left or lost: reboot", "drain/next.go", "end := Ended{Key: k, End: Lost, By: \"the host", "end := Ended{Key: k, End: LeftHost, By: \"owner\" + \"the host", []string{"./drain"}},
	{"tickets: cleaning", "probes/agent/acts.go", "open := openTickets(a.tickets)\n\tif len(open) == 0 {", "open := openTickets(a.tickets)\n\tif len(open) >= 0 {", agent("Clean|Ticket|Admission")},
	{"tickets: proof", "fleet/proof/issues.go", "for _, t := range f.OpenTickets() {", "for _, t := range f.OpenTickets()[:0] {", []string{"./fleet/proof"}},
	{"one copy: removed without the other", "drain/levered.go", "if why := d.removable(it); !why.IsZero() {", "if why := d.removable(it); why.Code == \"x\" {", []string{"./drain", "-run", "OtherCopy"}},
	{"one copy: order of undoing", "drain/move.go", "for _, s := range slices.Backward(m.Steps) {", "for _, s := range m.Steps {", seeds("1", "150")},
	{"one replacement: what a start left", "drain/levered.go", "if b.leaves(a) {", "if b.leaves(a) && a.ID == \"\" {", []string{"./drain", "-run", "Start"}},
	{"park: on word only", "drain/apply_items.go", "case a.Step == StepResume && a.Op == OpDo && it.Resume.IsZero():", "case a.Step == StepResume && a.Op == OpDo && it.Resume.By == \"x\":", []string{"./drain", "-run", "Resume"}},
	{"park: claimed here", "drain/park.go", "case !d.claimedHere(it.Key):", "case it.Key.ID == \"\":", []string{"./drain", "-run", "Resume"}},
	{"deadline names all", "drain/closing.go", "\t\tif !it.Open() {\n\t\t\tcontinue\n\t\t}\n\t\treason := it.Reason", "\t\tif !it.Open() || it.Late {\n\t\t\tcontinue\n\t\t}\n\t\treason := it.Reason", seeds("1", "150")},
	{"cordon before acts", "drain/next.go", "case !d.s.Proved:", "case d.s.Drain == \"\":", []string{"./drain"}},
	{"hold: lifted by no driver", "drain/engine/hold.go", "if _, err := agent.SetHold(ctx, want, facts.Machine); err != nil {", "if facts.Holds.Drain != nil {\n\t\t_, err = agent.LiftHold(ctx, Lift{Kind: fleet.DrainHold, Drain: want.Drain, Epoch: want.Epoch, Machine: facts.Machine})\n\t\treturn err\n\t}\n\tif _, err := agent.SetHold(ctx, want, facts.Machine); err != nil {", seeds("1", "30")},
}

func main() {
	mutants = slices.DeleteFunc(mutants, func(m mutant) bool {
		unwanted := len(os.Args) > 1 && !slices.ContainsFunc(os.Args[1:], func(s string) bool { return strings.Contains(m.name, s) })
		return m.tests == nil || unwanted
	})
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		fail(err)
	}
	defer os.RemoveAll(dir)
	alive := 0
	for _, m := range mutants {
		begun := time.Now()
		how := m.run(dir)
		if !strings.HasPrefix(how, "killed") {
			alive++
		}
		fmt.Printf("%-28s %-28s %6.1fs  %s\n", m.name, m.file, time.Since(begun).Seconds(), how)
	}
	fmt.Printf("%d mutants, %d killed\n", len(mutants), len(mutants)-alive)
	if alive > 0 {
		os.RemoveAll(dir)
		os.Exit(1)
	}
}

func (m mutant) run(dir string) string {
	raw, err := os.ReadFile(m.file)
	if err != nil {
		fail(err)
	}
	if n := bytes.Count(raw, []byte(m.old)); n != 1 {
		return fmt.Sprintf("NOT APPLIED: its text stands there %d times", n)
	}
	broken := filepath.Join(dir, "broken.go")
	if err := os.WriteFile(broken, bytes.Replace(raw, []byte(m.old), []byte(m.new), 1), 0o600); err != nil {
		fail(err)
	}
	real, err := filepath.Abs(m.file)
	if err != nil {
		fail(err)
	}
	over, err := json.Marshal(map[string]map[string]string{"Replace": {real: broken}})
	if err != nil {
		fail(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, over, 0o600); err != nil {
		fail(err)
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "./"+filepath.Dir(m.file)).CombinedOutput(); err != nil {
		return "DOES NOT BUILD: " + line(out)
	}
	args := append([]string{"test", "-overlay", overlay, "-count=1", "-timeout", "180s"}, m.tests...)
	if m.tests[0] == "./demo/sim" || m.tests[0] == "./drain" { // no time for the smallest example
		args = append(args, "-rapid.nofailfile", "-rapid.shrinktime=100ms")
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	if err == nil {
		return "SURVIVED"
	}
	return "killed: " + line(out)
}

// line is the first line of a test's output that says what failed.
func line(out []byte) string {
	for _, l := range strings.Split(string(out), "\n") {
		l = strings.TrimSpace(l)
		if strings.HasPrefix(l, "new seeds:") || strings.HasSuffix(l, "failed") && strings.Contains(l, " histories, ") {
			continue
		}
		if l != "" && !strings.HasPrefix(l, "---") && !strings.HasPrefix(l, "#") && !strings.HasPrefix(l, "===") {
			return l[:min(len(l), 110)]
		}
	}
	return ""
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "mutants:", err)
	os.Exit(1)
}

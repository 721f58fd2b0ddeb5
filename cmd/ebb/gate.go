package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"ebb/cmd/ebb/station"
	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
	"ebb/fleet/proof"
	"ebb/tui/widget"
	"ebb/tui/words"
)

func verifyCommand(a *app) *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "verify HOST --out proof.json", Short: "Read everything anew and have the host sign that it is empty",
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withHost(cmd.Context(), args[0], func(s *station.Station, id fleet.HostID) error {
				return a.verify(cmd.Context(), s, id, out)
			})
		},
	}
	c.Flags().StringVar(&out, "out", "", "write the proof here, and its signature beside it as FILE.sig; without it nothing is signed")
	return a.outputFlag(c)
}

func (a *app) verify(ctx context.Context, s *station.Station, id fleet.HostID, out string) error {
	var ver engine.Verification
	var err error
	if out == "" {
		ver, _, _, err = s.Engine.Check(ctx, id)
	} else {
		ver, err = s.Engine.Verify(ctx, id, s.Actor.Name)
	}
	if err != nil {
		return err
	}
	if ver.Proof != nil {
		if err := station.WriteProof(out, *ver.Proof); err != nil {
			return err
		}
	}
	if err := a.show(ver, func(w io.Writer) error { return gateText(w, ver, out) }); err != nil {
		return err
	}
	if len(ver.Issues) > 0 {
		if ver.Next != "" {
			a.note("hint: %s", widget.Clean(ver.Next))
		}
		return &exitStatus{code: exitRefused}
	}
	return nil
}

// gateText prints the checks in their order, each failure by name.
func gateText(w io.Writer, ver engine.Verification, out string) error {
	fmt.Fprintf(w, "%s: can it be terminated?\n", ver.Host)
	shut, unread := 0, 0
	for _, check := range fleet.Checks {
		issues := slices.DeleteFunc(slices.Clone(ver.Issues), func(is fleet.Issue) bool { return is.Check != check })
		if len(issues) == 0 && ver.Unread && words.OfHost(check) {
			unread++
			fmt.Fprintf(w, "  ? %s   %s\n", words.Check(check), words.Unreached)
			continue
		}
		if len(issues) == 0 {
			fmt.Fprintf(w, "  ✓ %s\n", words.Check(check))
			continue
		}
		shut++
		fmt.Fprintf(w, "  ✗ %s\n", words.Check(check))
		for _, is := range issues {
			accept := ""
			switch {
			case is.Check == fleet.CheckLeaks:
				accept = "   (ebb clean " + ver.Host.Name() + ", or ebb accept " + ver.Host.Name() + " " + is.Key.String() + " --reason …)"
			case is.Acceptable:
				accept = "   (ebb accept " + ver.Host.Name() + " " + is.Key.String() + " --reason …)"
			}
			fmt.Fprintf(w, "      %s%s\n", widget.Clean(is.Detail), widget.Clean(accept))
		}
	}
	switch {
	case unread > 0:
		fmt.Fprintf(w, "locked: %d of %d checks, and %d not read\n", shut, len(fleet.Checks), unread)
	case shut > 0:
		fmt.Fprintf(w, "locked: %d of %d checks\n", shut, len(fleet.Checks))
	case ver.Doc != nil:
		fmt.Fprintf(w, "open: %s and %s.sig, valid until %s (%s)\n", out, out, ver.Doc.Expires.Local().Format("15:04:05"), leftText(ver.Doc.Expires, time.Now()))
		fmt.Fprintf(w, "next: ebb terminate %s --proof %s --confirm %s\n", ver.Host.Name(), out, ver.Host.Name())
	default:
		fmt.Fprintf(w, "nothing stands in the way: ebb verify %s --out proof.json has the host sign it\n", ver.Host.Name())
	}
	return nil
}

func proofCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "proof", Short: "Check proofs, and print whom to believe"}
	check := &cobra.Command{
		Use: "check FILE", Short: "Check a proof's signature, age and content, without the host", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.proofCheck(args[0]) },
	}
	signers := &cobra.Command{
		Use: "signers HOST", Short: "Print the allowed_signers line for ssh-keygen -Y verify", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withHost(cmd.Context(), args[0], func(s *station.Station, id fleet.HostID) error {
				line, err := s.AllowedSigners(cmd.Context(), id)
				if err != nil {
					return err
				}
				fmt.Fprintln(a.out, line)
				return nil
			})
		},
	}
	c.AddCommand(a.outputFlag(check), signers)
	return c
}

// proofCheck says what a file proves. It can't know the host's key: it names the
// one that signed, to compare with "ebb proof signers".
func (a *app) proofCheck(path string) error {
	signed, err := station.ReadProof(path)
	if err != nil {
		return err
	}
	sig, err := proof.ParseSignature(signed.Signature)
	if err != nil {
		return fmt.Errorf("proof %s: %w", path, err)
	}
	if err := proof.Verify(signed.Proof, signed.Signature, sig.Key); err != nil {
		return &exitStatus{exitRefused, fmt.Errorf("proof %s: %w", path, err)}
	}
	doc, err := proof.Parse(signed.Proof)
	if err != nil {
		return &exitStatus{exitRefused, fmt.Errorf("proof %s: %w", path, err)}
	}
	issues := proof.Check(doc, proof.Expect{Now: time.Now(), HostKey: ssh.FingerprintSHA256(sig.Key), Scoped: true})
	report := struct {
		Document proof.Document `json:"document"`
		Key      string         `json:"key"`
		Issues   []fleet.Issue  `json:"issues"`
	}{doc, ssh.FingerprintSHA256(sig.Key), issues}
	if err := a.show(report, func(w io.Writer) error { return proofText(w, doc, report.Key, issues) }); err != nil {
		return err
	}
	if len(issues) > 0 {
		return &exitStatus{code: exitRefused}
	}
	return nil
}

func proofText(w io.Writer, d proof.Document, key string, issues []fleet.Issue) error {
	t := newTable("", "")
	t.add("host", string(d.Host))
	t.add("machine, boot", d.Machine+", "+d.Boot)
	t.add("drain", fmt.Sprintf("%s, epoch %d %s", d.Drain, d.Epoch, d.Purpose))
	t.add("made", d.Made.Local().Format(time.RFC3339)+", expires "+d.Expires.Local().Format("15:04:05"))
	t.add("digest", fmt.Sprintf("%s over %d items", d.Digest, d.Items))
	t.add("signed by", key)
	if d.Scope != "" {
		t.add("scope", d.Scope+" (says nothing about the rest of its machine)")
	}
	for _, k := range d.Kept {
		t.add("kept", k.Key.String()+" "+k.Name+" by "+k.Rule)
	}
	for _, x := range d.Accepted {
		t.add("accepted", x.Key.String()+" by "+x.Who+": "+x.Reason)
	}
	for _, l := range d.Asserted.Lost {
		t.add("lost", l.Key.String()+": "+l.How)
	}
	if err := t.print(w); err != nil {
		return err
	}
	for _, is := range issues {
		fmt.Fprintf(w, "✗ %s\n", widget.Clean(is.Detail))
	}
	if len(issues) == 0 {
		fmt.Fprintln(w, "✓ the signature fits, and the proof is good; whether the key is the host's: ebb proof signers "+d.Host.Name())
	}
	return nil
}

func terminateCommand(a *app) *cobra.Command {
	var proofFile, confirm, to, outcome string
	c := &cobra.Command{
		Use: "terminate HOST --proof proof.json --confirm HOST", Short: "Give the host away, with a proof that it confirms itself (terminate role)",
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			if confirm != args[0] {
				return &usageError{err: fmt.Errorf("terminate %s: repeat the host's name with --confirm %s", args[0], args[0])}
			}
			return a.withHost(cmd.Context(), args[0], func(s *station.Station, id fleet.HostID) error {
				if err := s.NeedJournal(); err != nil {
					return err
				}
				if outcome != "" {
					return a.settle(cmd.Context(), s, id, outcome)
				}
				return a.terminate(cmd.Context(), s, id, proofFile, to)
			})
		},
	}
	c.Flags().StringVar(&proofFile, "proof", "", "the proof that ebb verify wrote")
	c.Flags().StringVar(&confirm, "confirm", "", "the host's name once more")
	c.Flags().StringVar(&to, "to", "", "who takes the host, where the terminator is release")
	c.Flags().StringVar(&outcome, "outcome", "", "settle a terminate that was cut short: done or failed, as you found it")
	return c
}

func (a *app) terminate(ctx context.Context, s *station.Station, id fleet.HostID, file, to string) error {
	if file == "" {
		return &usageError{err: fmt.Errorf("terminate %s: a proof is required, as in --proof proof.json", id.Name())}
	}
	signed, err := station.ReadProof(file)
	if err != nil {
		return err
	}
	t := s.Terminator(to)
	if t.Type == "release" && to == "" {
		return &usageError{err: fmt.Errorf("terminate %s: the terminator is release: say who takes it with --to", id.Name())}
	}
	if err := s.Engine.Terminate(ctx, id, signed, t, s.Gone); err != nil {
		return err
	}
	switch t.Type {
	case "release":
		fmt.Fprintf(a.out, "%s: released to %s\n", id, widget.Clean(to))
	case "poweroff":
		fmt.Fprintf(a.out, "%s: powered off, and silent since\n", id)
	default:
		fmt.Fprintf(a.out, "%s: terminated\n", id)
	}
	return nil
}

func (a *app) settle(ctx context.Context, s *station.Station, id fleet.HostID, outcome string) error {
	if outcome != "done" && outcome != "failed" {
		return &usageError{err: fmt.Errorf("outcome %q: want done or failed", outcome)}
	}
	if err := s.Engine.Settle(ctx, id, outcome == "done", "as "+s.Actor.Name+" found it"); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "%s: the terminate is settled as %s\n", id, outcome)
	return nil
}

func cleanCommand(a *app) *cobra.Command {
	var kind, wanted string
	var yes bool
	c := &cobra.Command{
		Use: "clean HOST [--kind K] [--id ID]", Short: "Show the leaks on a held host; with --yes remove them",
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withHost(cmd.Context(), args[0], func(s *station.Station, id fleet.HostID) error {
				return a.clean(cmd.Context(), s, id, fleet.Key{Kind: kind, ID: wanted}, yes)
			})
		},
	}
	c.Flags().StringVar(&kind, "kind", "", "only this kind: netns, loop, dir, process, or a workload's")
	c.Flags().StringVar(&wanted, "id", "", "only this one")
	c.Flags().BoolVar(&yes, "yes", false, "do it; without it nothing is changed")
	return a.outputFlag(c)
}

// clean shows or removes leaks. Processes that nothing claims are not removed
// here: they are escalated by name through the host's drain, with notice and
// grace.
func (a *app) clean(ctx context.Context, s *station.Station, id fleet.HostID, want fleet.Key, yes bool) error {
	v, err := s.Observer.Look(ctx, id)
	if err != nil {
		return err
	}
	if err := a.unread(ctx, s, "clean", v); err != nil {
		return err
	}
	var found []fleet.Finding
	for _, f := range v.Findings {
		cleanable := f.Verdict == fleet.Leak || f.Verdict == fleet.Orphan || f.Verdict == fleet.Unattributed
		if cleanable && (want.Kind == "" || f.Key.Kind == want.Kind) && (want.ID == "" || f.Key.ID == want.ID) {
			found = append(found, f)
		}
	}
	if !yes {
		return a.show(found, func(w io.Writer) error { return cleanTable(w, id, found, v.Facts.Value.Holds.Any()) })
	}
	if len(found) == 0 {
		a.note("nothing to clean")
		return nil
	}
	if !v.Facts.Value.Holds.Any() {
		return &engine.Refused{Verb: "clean", Host: id, Issues: []fleet.Issue{{Check: fleet.CheckHolds, Detail: "only a held host is cleaned, and nothing holds this one; nothing was changed"}},
			Next: "ebb cordon " + id.Name() + ", then ebb clean " + id.Name() + " again"}
	}
	failed := 0
	for _, f := range found {
		if err := a.cleanOne(ctx, s, id, v, f); err != nil {
			a.note("%s: %s", widget.Clean(f.Key.String()), widget.Clean(err.Error()))
			failed++
		}
	}
	if failed > 0 {
		return &exitStatus{exitRefused, fmt.Errorf("clean %s: %d of %d are still there", id, failed, len(found))}
	}
	return nil
}

func (a *app) cleanOne(ctx context.Context, s *station.Station, id fleet.HostID, v fleet.HostView, f fleet.Finding) error {
	if f.Resource == nil {
		st, err := s.Engine.State(ctx, id)
		if err != nil {
			return err
		}
		it, known := st.Items[f.Key]
		if !known || st.Undone {
			return fmt.Errorf("a process is escalated through a drain, and the host's drain does not know it: ebb drain %s", id.Name())
		}
		if err := s.Engine.AskOf(ctx, st, drain.AskEscalate{Key: f.Key, Run: it.Run}); err != nil {
			return err
		}
		driver := "ebb drain " + id.Name() + " carries it out"
		if st.Driver != "" {
			driver = st.Driver + " carries it out"
		}
		fmt.Fprintf(a.out, "%s: will be escalated (notice, TERM, grace, TERM, KILL); %s\n", widget.Clean(f.Key.String()), driver)
		return nil
	}
	answer, err := s.Engine.Clean(ctx, id, *f.Resource, v.Facts.Value.Machine)
	if err != nil {
		return err
	}
	if answer.Result != drain.Done {
		return fmt.Errorf("%s", answer.Detail)
	}
	fmt.Fprintf(a.out, "%s: gone\n", widget.Clean(f.Key.String()))
	return nil
}

func cleanTable(w io.Writer, id fleet.HostID, found []fleet.Finding, held bool) error {
	if len(found) == 0 {
		_, err := fmt.Fprintf(w, "%s: nothing to clean\n", id)
		return err
	}
	t := newTable("WHAT", "VERDICT", "SINCE", "DETAIL", "WOULD")
	for _, f := range found {
		would, detail := "remove it", ""
		if f.Resource == nil {
			would = "escalate it: notice, TERM, grace, TERM, KILL"
			if f.Process != nil {
				detail = f.Process.Comm
			}
		} else {
			detail = f.Resource.Detail
		}
		t.add(f.Key.String(), string(f.Verdict), agoOr(f.Since, time.Now()), orDot(strings.TrimSpace(detail)), would)
	}
	if err := t.print(w); err != nil {
		return err
	}
	next := "--yes does it"
	if !held {
		next = "only a held host is cleaned, so ebb cordon " + id.Name() + " comes first"
	}
	_, err := fmt.Fprintf(w, "nothing was changed: %s\n", next)
	return err
}

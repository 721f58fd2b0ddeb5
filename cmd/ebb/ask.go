package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/station"
	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
	"ebb/tui/words"
)

// askVerbs are the asks with what they take: k a workload, a an argument.
var askVerbs = map[string]string{
	"extend": "a", "stop": "", "more-time": "ka", "class": "ka", "hold": "k", "retry": "?", "escalate": "k", "keep": "k", "target-gone": "k", "park": "k", "ship": "k",
}

func askCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "ask HOST[/KIND/ID] extend|stop|more-time|class|hold|retry|escalate|keep|target-gone|park|ship [ARG]",
		Short: "Ask something of a running drain",
		Long: `Asks are journaled and taken up by whoever drives the drain.

  ebb ask gpu-041 extend 30m                     move the outer deadline
  ebb ask gpu-041 stop                           end the drain; both holds stay
  ebb ask gpu-041 retry                          go on after a gap
  ebb ask gpu-041/service/web-7 more-time 10m    more move budget and grace
  ebb ask gpu-041/service/web-7 class stuck      choose its class
  ebb ask gpu-041/service/web-7 hold             leave it alone
  ebb ask gpu-041/service/web-7 retry            take it up again: held, kept or failed
  ebb ask gpu-041/service/web-7 escalate         notice, TERM, grace, TERM, KILL
  ebb ask gpu-041/service/web-7 keep --reason T  let it stay; the gate names it
  ebb ask gpu-041/service/web-7 target-gone      the host on which its replacement was begun is gone
                                                 for good: start it elsewhere
  ebb ask gpu-041/notebook/nb-7 park             keep it at rest on its host (ebb resume)
  ebb ask gpu-041/notebook/nb-7 ship             restore it elsewhere, whatever its rule says`,
		Args: cobra.RangeArgs(2, 3), ValidArgsFunction: a.completeAsk,
		RunE: func(cmd *cobra.Command, args []string) error {
			host, key, err := splitTarget(args[0])
			if err != nil {
				return err
			}
			arg := ""
			if len(args) == 3 {
				arg = args[2]
			}
			if _, known := askVerbs[args[1]]; !known {
				return unknownAsk(args[1])
			}
			if known, takes := askVerbs[args[1]], "k"; key.IsZero() && strings.Contains(known, takes) {
				return &usageError{err: fmt.Errorf("ask %s %s: name the workload, as in HOST/KIND/ID", args[0], args[1])}
			}
			if known := askVerbs[args[1]]; !key.IsZero() && !strings.ContainsAny(known, "k?") {
				return &usageError{err: fmt.Errorf("ask %s %s: that is about the whole drain of %s: name the host alone", args[0], args[1], host), command: "ebb ask"}
			}
			if args[1] == "keep" && strings.TrimSpace(reason) == "" {
				return &usageError{err: fmt.Errorf("ask %s keep: a reason is required, as in --reason TEXT", args[0]), command: "ebb ask"}
			}
			return a.withHost(cmd.Context(), host, func(s *station.Station, id fleet.HostID) error {
				return a.ask(cmd.Context(), s, id, key, args[1], arg, reason)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why")
	return c
}

func (a *app) completeAsk(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeHosts(cmd, args, prefix)
	}
	var verbs []string
	for v := range askVerbs {
		verbs = append(verbs, v)
	}
	slices.Sort(verbs)
	return verbs, cobra.ShellCompDirectiveNoFileComp
}

// splitTarget reads HOST, HOST/KIND/ID, PLANE/HOST or PLANE/HOST/KIND/ID. Ids
// may hold slashes; kinds and host names may not.
func splitTarget(s string) (host string, key fleet.Key, err error) {
	parts := strings.SplitN(s, "/", 4)
	switch len(parts) {
	case 1, 2:
		return s, key, nil
	case 3:
		return parts[0], fleet.Key{Kind: parts[1], ID: parts[2]}, nil
	}
	return parts[0] + "/" + parts[1], fleet.Key{Kind: parts[2], ID: parts[3]}, nil
}

func (a *app) ask(ctx context.Context, s *station.Station, id fleet.HostID, key fleet.Key, verb, arg, reason string) error {
	if err := s.NeedJournal(); err != nil {
		return err
	}
	if takes := askVerbs[verb]; strings.Contains(takes, "a") != (arg != "") {
		return &usageError{err: fmt.Errorf("ask %s: see ebb ask --help for its arguments", verb)}
	}
	st, err := s.State(ctx, id)
	if err != nil {
		return err
	}
	st.Host = id // that of a host without a drain is not set
	if !key.IsZero() && st.Drain != "" && !st.First {
		if st, err = foreseen(ctx, s, st, key); err != nil {
			return err
		}
	}
	if _, there := st.Items[key]; !key.IsZero() && st.Drain != "" && !there {
		return &station.HintError{Err: fmt.Errorf("ask %s: the drain of %s knows no %s", verb, id.Name(), key), Next: "ebb board " + id.Name()}
	}
	now, err := s.Journal.Now(ctx)
	if err != nil {
		return err
	}
	body, err := askBody(st, key, verb, arg, reason, now)
	if err != nil {
		return err
	}
	if park, ok := body.(drain.AskPark); ok && !park.Ship && len(drain.Against(st, park)) == 0 {
		if err := wouldPark(ctx, s, st, key); err != nil {
			return err
		}
	}
	if err := s.Engine.AskOf(ctx, st, body); err != nil {
		return err
	}
	if verb == "escalate" {
		a.note("%s is ended by signals: %s", key, escalation(st.Items[key], s.Policy))
	}
	switch {
	case verb == "stop" && st.Driver == "":
		a.note("stopped")
		return nil
	case st.Phase == drain.Stopped:
		a.note("noted; the drain is stopped")
		return nil
	}
	if st.Driver == "" {
		a.note("asked; nobody drives it now: ebb drain %s takes it up", id.Name())
		return nil
	}
	a.note("asked; %s drives it", st.Driver)
	return nil
}

// escalation says what comes upon a workload, and whether its owner hears of it.
func escalation(it drain.Item, p drain.Policy) string {
	notice := "its owner is told, and"
	if !p.Receivers {
		notice = "no receiver is configured, its owner is not told;"
	}
	return fmt.Sprintf("%s TERM follows after %s, TERM again after %s more, KILL %s after that", notice, words.Duration(p.Notice), words.Duration(p.Grace(it)), words.Duration(p.TermGap))
}

// foreseen looks at a host whose drain has not looked at its workloads yet, as while
// its cordon is proved: what is on it can be spoken of from the beginning.
func foreseen(ctx context.Context, s *station.Station, st drain.State, key fleet.Key) (drain.State, error) {
	v, err := s.Observer.Look(ctx, st.Host)
	if err != nil {
		return st, err
	}
	if _, read := v.Facts.Get(); !read {
		return st, fmt.Errorf("ask about %s: the drain has not looked at %s yet, and it can't be read now: %s", key, st.Host.Name(), v.Facts.Error)
	}
	return st.Foreseen(key, v, s.Policy), nil
}

// wouldPark refuses to ask for what the drain would take and then not do, as the
// host is now.
func wouldPark(ctx context.Context, s *station.Station, st drain.State, key fleet.Key) error {
	v, err := s.Observer.Look(ctx, st.Host)
	if err != nil {
		return err
	}
	if _, read := v.Facts.Get(); !read {
		return fmt.Errorf("ask to park %s: whether %s can park it is not known, it can't be read: %s", key, st.Host.Name(), v.Facts.Error)
	}
	if why := st.WouldNotPark(key, v, s.Policy); !why.IsZero() {
		return &engine.Refused{Verb: "ask", Host: st.Host, Issues: []fleet.Issue{{Key: key, Detail: words.Reason(why)}}}
	}
	return nil
}

func unknownAsk(verb string) error {
	near := words.Suggest(verb, slices.Collect(maps.Keys(askVerbs)))
	if near == "" {
		near = ": want extend, stop, more-time, class, hold, retry, escalate, keep, target-gone, park or ship"
	}
	return &usageError{err: fmt.Errorf("nothing that can be asked is called %q%s", verb, near), command: "ebb ask"}
}

func askBody(st drain.State, key fleet.Key, verb, arg, reason string, now time.Time) (drain.Body, error) {
	var by time.Duration
	if verb == "extend" || verb == "more-time" {
		d, err := words.ReadDuration(arg)
		if err != nil {
			return nil, &usageError{err: fmt.Errorf("ask %s: %w", verb, err)}
		}
		by = d
	}
	switch verb {
	case "extend":
		from := st.Deadline
		if from.Before(now) {
			from = now
		}
		return drain.AskExtend{Until: from.Add(by)}, nil
	case "stop":
		return drain.AskStop{Reason: reason}, nil
	case "more-time":
		return drain.AskMoreTime{Key: key, By: by}, nil
	case "class":
		c := fleet.Class(arg)
		if !c.Valid() {
			var all []string
			for _, c := range fleet.Classes {
				if c.Valid() {
					all = append(all, string(c))
				}
			}
			return nil, &usageError{err: fmt.Errorf("class %q%s (ephemeral, stateless, pausable, durable or stuck)", arg, words.Suggest(arg, all))}
		}
		return drain.AskClass{Key: key, Class: c}, nil
	case "hold":
		return drain.AskHold{Key: key, Reason: reason}, nil
	case "retry":
		return drain.AskRetry{Key: key}, nil
	case "escalate":
		return drain.AskEscalate{Key: key, Run: st.Items[key].Run}, nil
	case "park", "ship":
		return drain.AskPark{Key: key, Ship: verb == "ship"}, nil
	case "target-gone":
		target, _ := st.InDoubt(key)
		return drain.AskTargetGone{Key: key, Target: target, Reason: reason}, nil
	}
	return drain.AskKeep{Key: key, Reason: reason}, nil
}

func acceptCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "accept HOST KIND/ID --reason TEXT", Short: "Make an exception for the gate, by name (terminate role)",
		Args: cobra.ExactArgs(2), ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := fleet.ParseKey(args[1])
			if err != nil {
				return &usageError{err: err}
			}
			if strings.TrimSpace(reason) == "" {
				return &usageError{err: fmt.Errorf("accept %s: a reason is required, as in --reason TEXT", key)}
			}
			return a.withHost(cmd.Context(), args[0], func(s *station.Station, id fleet.HostID) error {
				if err := s.Engine.Accept(cmd.Context(), id, key, reason, args[1]); err != nil {
					return err
				}
				fmt.Fprintf(a.out, "%s: %s is accepted, and stands in the proof\n", id, key)
				return nil
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why the gate may open all the same")
	return c
}

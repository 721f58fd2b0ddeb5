package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/station"
	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/handoverview"
)

func handoverCommand(a *app) *cobra.Command {
	var output, word string
	var accept bool
	c := &cobra.Command{
		Use: "handover", Short: "Print what one shift tells the next, leave a word for it, or take over",
		Long: `Prints the page between two shifts: what needs somebody, drains and what is left
of them, what comes in the next hours, holds and why, notices and promises,
what a signal ended, and the last words.

--write leaves a word for the next shift; --accept says that you take over. Both
are journaled. What a console drives comes to another one with a on its handover
screen; after --accept, ebb drain HOST drives what nobody does.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"table", "md", "json"}, output) {
				return &usageError{err: fmt.Errorf("output %q: want table, md or json", output), command: cmd.CommandPath()}
			}
			if cmd.Flags().Changed("write") && word == "" {
				return &usageError{err: fmt.Errorf("--write wants the word"), command: cmd.CommandPath()}
			}
			return a.with(cmd.Context(), func(s *station.Station) error {
				if err := s.NeedJournal(); err != nil {
					return err
				}
				switch {
				case accept:
					return a.acceptShift(cmd.Context(), s, word)
				case word != "":
					if err := s.Engine.Ask(cmd.Context(), feed.Shift, "", drain.AskHandover{Note: word}); err != nil {
						return err
					}
					fmt.Fprintln(a.out, "written down for the next shift")
					return nil
				}
				return a.handover(cmd.Context(), s, output)
			})
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "table", "table, md or json")
	c.Flags().StringVar(&word, "write", "", "leave this word for the next shift")
	c.Flags().BoolVar(&accept, "accept", false, "take over: journal it for every drain that is open")
	return c
}

// page reads the fleet and the journal once.
func (a *app) page(ctx context.Context, s *station.Station) (handoverview.Page, error) {
	views, err := s.Survey(ctx)
	if err != nil && len(views) == 0 {
		return handoverview.Page{}, err
	}
	if err != nil {
		a.note("%v", err)
	}
	now, err := s.Journal.Now(ctx)
	if err != nil {
		return handoverview.Page{}, err
	}
	f := feed.Frame{At: now, Made: time.Now(), Snapshot: fleet.Snapshot{Hosts: views}, Drains: map[fleet.HostID]drain.State{},
		Policy: s.Policy, Config: feed.Config{Operator: s.Actor.Name}}
	all, err := s.Journal.All(ctx, 0, 0)
	if err != nil {
		return handoverview.Page{}, err
	}
	for _, ev := range all {
		h := fleet.HostID(ev.Stream)
		f.Drains[h], _ = s.Trust.Apply(f.Drains[h], ev) // what does not fit is passed over
		if ev.Kind == (drain.AskHandover{}).Kind() && s.Trust.Check(ev) == nil {
			f.Words = append(f.Words, ev)
		}
	}
	silent, err := s.Silent(ctx)
	if err != nil {
		return handoverview.Page{}, err
	}
	for h, st := range f.Drains {
		f.Drains[h] = silent.Of(st)
	}
	f.Events = all[max(0, len(all)-feed.EventsKept):]
	f.Words = f.Words[max(0, len(f.Words)-feed.WordsKept):]
	return handoverview.Make(f, time.Now(), time.Local), nil
}

func (a *app) handover(ctx context.Context, s *station.Station, output string) error {
	p, err := a.page(ctx, s)
	if err != nil {
		return err
	}
	switch output {
	case "json":
		enc := json.NewEncoder(a.out)
		enc.SetIndent("", "  ")
		return enc.Encode(p)
	case "md":
		return p.Markdown(a.out)
	}
	return p.Table(a.out)
}

// acceptShift journals on every open drain who has taken over; with none, that
// the shift was taken.
func (a *app) acceptShift(ctx context.Context, s *station.Station, word string) error {
	p, err := a.page(ctx, s)
	if err != nil {
		return err
	}
	ask := drain.AskHandover{To: s.Actor.Name, Note: cmp.Or(word, "taken over")}
	if len(p.Drains) == 0 {
		if err := s.Engine.Ask(ctx, feed.Shift, "", ask); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.out, "taken over by %s: no drain is open\n", s.Actor.Name)
		return err
	}
	return a.takeAll(ctx, s, p.Drains, ask, a.out)
}

func (a *app) takeAll(ctx context.Context, s *station.Station, drains []handoverview.Line, ask drain.AskHandover, w io.Writer) error {
	for _, l := range drains {
		if err := s.Engine.Ask(ctx, l.Host, l.About, ask); err != nil {
			return fmt.Errorf("handover %s: %w", l.Host, err)
		}
		st, err := s.State(ctx, l.Host)
		if err != nil {
			return err
		}
		text := "nobody drives it: ebb drain " + l.Host.Name() + " takes it up"
		if st.Driver != "" {
			text = "driven by " + st.Driver
		} else if st.Phase.Ended() {
			text = string(st.Phase)
		}
		if _, err := fmt.Fprintf(w, "%s: taken over by %s; %s\n", l.Host, s.Actor.Name, text); err != nil {
			return err
		}
	}
	return nil
}

// Package plain is the console as lines: for screen readers, for logs, for
// terminals that can do nothing else. It writes one line for each thing that
// happens and never moves a cursor, takes nothing back and colours nothing.
//
// It reads the same frames as the screens. It can't act: the commands can.
package plain

import (
	"context"
	"fmt"
	"io"
	"time"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/words"
)

// Run writes what is there, and then what happens, until ctx ends or the writer
// fails.
func Run(ctx context.Context, source feed.Source, to io.Writer, now func() time.Time) error {
	p := &printer{to: to, now: now, hosts: map[fleet.HostID]string{}, planes: map[string]bool{}}
	for {
		f, newer := source.Latest()
		p.frame(f)
		if p.err != nil {
			return fmt.Errorf("write: %w", p.err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-newer:
		}
	}
}

// printer knows what has been said.
type printer struct {
	to  io.Writer
	now func() time.Time
	err error

	begun   bool
	hosts   map[fleet.HostID]string // what was said of each
	planes  map[string]bool         // whether each could be read
	journal string                  // what was wrong with it
	seq     uint64                  // the last event
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.to, format+"\n", args...)
	}
}

// at is the time of a line, by the journal's clock.
func (p *printer) at(f feed.Frame) string { return words.HMS(f.Clock(p.now())) }

func (p *printer) frame(f feed.Frame) {
	if f.Snapshot.At.IsZero() {
		return // nothing has been read yet
	}
	p.sources(f)
	if !p.begun {
		p.begin(f)
		return
	}
	p.events(f)
	p.changes(f)
}

// begin says what is there.
func (p *printer) begin(f feed.Frame) {
	p.begun = true
	p.line("ebb, %s UTC: %d hosts. Each line is one thing that happens. This can't act; ebb --help lists the commands that can.",
		f.Clock(p.now()).UTC().Format("2006-01-02 15:04:05"), len(f.Snapshot.Hosts))
	for _, v := range f.Snapshot.Hosts {
		said := describe(f, v)
		p.hosts[v.Host.ID] = said
		p.line("%s  %s: %s", p.at(f), words.Host(v.Host.ID), said)
	}
	if n := len(f.Events); n > 0 {
		p.seq = f.Events[n-1].Seq
	}
}

// events says what was written down since. Frames are skipped where this can't
// keep up, and a frame holds the newest events only: a gap is named.
func (p *printer) events(f feed.Frame) {
	for _, e := range f.Events {
		if e.Seq <= p.seq {
			continue
		}
		if missed := e.Seq - p.seq - 1; missed > 0 && len(f.Events) >= feed.EventsKept {
			p.line("%s  %d events were missed here: ebb log has them", p.at(f), missed)
		}
		p.seq = e.Seq
		p.line("%s", words.Line(e))
	}
}

// changes says which hosts are something else now.
func (p *printer) changes(f feed.Frame) {
	here := make(map[fleet.HostID]bool, len(f.Snapshot.Hosts))
	for _, v := range f.Snapshot.Hosts {
		here[v.Host.ID] = true
		said := describe(f, v)
		if was, known := p.hosts[v.Host.ID]; !known || was != said {
			p.line("%s  %s: %s", p.at(f), words.Host(v.Host.ID), said)
			p.hosts[v.Host.ID] = said
		}
	}
	for id := range p.hosts {
		if !here[id] {
			p.line("%s  %s: no plane lists it any more", p.at(f), words.Host(id))
			delete(p.hosts, id)
		}
	}
}

// sources says when a plane or the journal can't be read, and when it can again.
func (p *printer) sources(f feed.Frame) {
	for _, s := range f.Snapshot.Planes {
		ok := s.Status == fleet.OK
		if was, known := p.planes[s.Name]; was != ok && (known || !ok) {
			if ok {
				p.line("%s  plane %s can be read again", p.at(f), words.Name(s.Name))
			} else {
				p.line("%s  plane %s can't be read: %s", p.at(f), words.Name(s.Name), words.Text(s.Error))
			}
		}
		p.planes[s.Name] = ok
	}
	wrong := ""
	if f.Journal.Status == fleet.Failed {
		wrong = "can't be read: " + words.Text(f.Journal.Error)
	}
	if wrong != p.journal {
		p.line("%s  the journal %s", p.at(f), orAgain(wrong))
	}
	p.journal = wrong
}

func orAgain(wrong string) string {
	if wrong == "" {
		return "can be read again"
	}
	return wrong
}

// describe says of a host what stays true for a while: its state, who holds it
// and why, and of its drain the deadline and what needs somebody.
func describe(f feed.Frame, v fleet.HostView) string {
	var s *drain.State
	if d, ok := f.Drains[v.Host.ID]; ok && d.Drain != "" && !d.Undone {
		s = &d
	}
	_, text := words.State(&v, s)
	if !v.Unreachable.IsZero() {
		text += " since " + words.HMS(v.Unreachable)
		if v.Problem != "" {
			text += ": " + words.Text(v.Problem)
		}
	}
	if holds, _, ok := v.Holds(); ok && holds.Cordon != nil {
		text += ", cordoned by " + words.Name(holds.Cordon.Who) + " at " + words.HMS(holds.Cordon.Since)
		if why := holds.Cordon.Why; why != "" {
			text += ": " + words.Text(why)
		}
	}
	if parked, _ := words.ParkedHere(f.Drains[v.Host.ID]); parked != "" {
		text += ", " + parked
	}
	if s == nil || s.Phase.Ended() {
		return text
	}
	text += ", drain until " + words.HM(s.Deadline)
	if c := s.Count(); c.NeedsYou > 0 {
		text += fmt.Sprintf(", %d of %d need you", c.NeedsYou, c.Total)
	}
	return text
}

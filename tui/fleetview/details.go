package fleetview

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// details is all that is known of a host, for a page of its own.
func (d *drawing) details(r *row) feed.Show {
	v, now := r.v, d.env.Now()
	var out []string
	add := func(name, text string) {
		if text != "" {
			out = append(out, widget.Fit(name, 10)+" "+text)
		}
	}
	add("state", r.word)
	add("", r.gone)
	add("address", words.Text(v.Host.Address))
	add("instance", words.Text(v.Host.Instance))
	add("labels", labels(v.Host.Labels))
	if hb := v.Host.Heartbeat; !hb.IsZero() {
		add("plane", "heard it "+widget.Ago(now.Sub(hb)))
	}
	add("agent", d.agentText(v))
	if s, ok := v.Summary.Get(); ok {
		add("", "ebbd "+words.Text(s.Version)+", machine "+words.Name(s.Machine)+", boot "+words.Name(s.Boot))
	}
	out = append(out, "")
	add("holds", d.holdsText(v))
	out = append(out, d.drainText(r)...)
	if r.parked != "" {
		add("at rest", r.parked)
	}
	if r.resumes {
		add("", words.BringsBack)
	}
	out = append(out, "")
	out = append(out, d.contents(r)...)
	return feed.Show{Title: widget.Name(string(v.Host.ID)), Lines: out}
}

func labels(all map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out = append(out, widget.Name(k)+"="+widget.Name(all[k]))
	}
	return strings.Join(out, " ")
}

func (d *drawing) agentText(v *fleet.HostView) string {
	at, now := feed.ReadAt(v), d.env.Now()
	text := "never heard"
	if !at.IsZero() {
		text = "heard " + widget.Ago(now.Sub(at))
	}
	if u := v.Unreachable; !u.IsZero() {
		text = "unreachable since " + words.HMS(u) + ", " + text
		if v.Problem != "" {
			text += ": " + words.Text(v.Problem)
		}
	}
	return text
}

// holdsText names each hold with who, why and how long, and how far the cordon
// has been shown to hold.
func (d *drawing) holdsText(v *fleet.HostView) string {
	holds, _, known := v.Holds()
	if !known {
		return "not known: the host was not read"
	}
	var out []string
	for _, h := range []*fleet.Hold{holds.Cordon, holds.Drain} {
		if h == nil {
			continue
		}
		text := fmt.Sprintf("%s by %s since %s (%s)", h.Kind, words.Name(h.Who), words.HM(h.Since), widget.Age(d.env.Now().Sub(h.Since)))
		if h.Why != "" {
			text += ": " + words.Text(h.Why)
		}
		if h.Drain != "" {
			text += ", drain " + words.Name(h.Drain)
		}
		out = append(out, text)
	}
	if len(out) == 0 && !v.Host.Draining {
		return "none"
	}
	if v.Host.Draining {
		text := "its plane sends it nothing new"
		if v.Host.DrainWho != "" {
			text += ", told by " + words.Name(v.Host.DrainWho)
		}
		out = append(out, text)
	} else {
		out = append(out, "its plane does not know of it")
	}
	return strings.Join(out, "; ")
}

func (d *drawing) drainText(r *row) []string {
	if r.s == nil {
		return nil
	}
	text := fmt.Sprintf("%s of %s, %s, %s, deadline %s", words.Name(r.s.Drain), words.Name(r.s.By.Name), words.Phase(r.s.Phase),
		words.StillLeft(*r.s), words.HM(r.s.Deadline))
	if r.s.Driver != "" {
		text += ", driven by " + words.Name(r.s.Driver)
	}
	return []string{widget.Fit("drain", 10) + " " + text}
}

// contents is what is on the host, as far as it was read.
func (d *drawing) contents(r *row) []string {
	var out []string
	if n, ok := r.classes(); ok && r.gone == "" {
		var parts []string
		for i, c := range fleet.Classes {
			if n[i] > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n[i], words.Class(c)))
			}
		}
		text := strings.Join(parts, ", ")
		if text == "" {
			text = "nothing"
		}
		out = append(out, widget.Fit("runs", 10)+" "+text)
	}
	if busy, all, ok := r.gpus(); ok && all > 0 {
		out = append(out, widget.Fit("GPUs", 10)+fmt.Sprintf(" %d of %d busy", busy, all))
	}
	if s, ok := r.v.Summary.Get(); ok {
		if s.Tickets > 0 {
			out = append(out, widget.Fit("admission", 10)+fmt.Sprintf(" %d open: something admitted before has not reported back", s.Tickets))
		}
		if s.Sealed != "" {
			out = append(out, widget.Fit("sealed", 10)+" "+words.Text(s.Sealed))
		}
		for _, p := range s.ProbesFailed {
			out = append(out, widget.Fit("probe", 10)+" "+words.Name(p)+" failed")
		}
	}
	for _, f := range r.v.Findings {
		if !f.Verdict.Clean() && r.v.Facts.Status == fleet.OK {
			out = append(out, widget.Fit("differs", 10)+" "+words.Key(f.Key)+": "+words.Verdict(f.Verdict))
		}
	}
	return out
}

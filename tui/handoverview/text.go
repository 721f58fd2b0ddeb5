package handoverview

import (
	"fmt"
	"io"
	"strings"
	"time"

	"ebb/tui/widget"
	"ebb/tui/words"
)

// When is the column of times: how long there is, or since when.
func (l Line) When(clock time.Time, section string) string {
	switch {
	case section == "next hours":
		return widget.Clock(max(l.Due.Sub(clock), 0))
	case section == "last words":
		return words.HM(l.Since)
	case l.Since.IsZero():
		return ""
	}
	return widget.Age(clock.Sub(l.Since))
}

// Table writes the page as text: a section after the other, those without a line
// left out.
func (p Page) Table(w io.Writer) error {
	fmt.Fprintf(w, "handover at %s\n", p.At.UTC().Format("2006-01-02 15:04 UTC"))
	empty := true
	for _, s := range p.Sections() {
		if len(s.Lines) == 0 {
			continue
		}
		empty = false
		fmt.Fprintf(w, "\n%s\n", strings.ToUpper(s.Title))
		for _, l := range s.Lines {
			if _, err := fmt.Fprintf(w, "  %-16s %8s  %-12s %s\n", or(l.Host.Name()), or(l.When(p.At, s.Title)), or(l.Who), widget.Clean(l.Text)); err != nil {
				return err
			}
		}
	}
	if empty {
		fmt.Fprintln(w, "\n"+nothing)
	}
	return nil
}

const nothing = "nothing is held, nothing is drained, nobody left word"

// Markdown writes the page for a ticket or a chat.
func (p Page) Markdown(w io.Writer) error {
	fmt.Fprintf(w, "# Handover, %s\n", p.At.UTC().Format("2006-01-02 15:04 UTC"))
	empty := true
	for _, s := range p.Sections() {
		if len(s.Lines) == 0 {
			continue
		}
		empty = false
		fmt.Fprintf(w, "\n## %s\n\n", strings.ToUpper(s.Title[:1])+s.Title[1:])
		for _, l := range s.Lines {
			line := "-"
			if l.Host != "" {
				line += " **" + escape(l.Host.Name()) + "**"
			}
			if when := l.When(p.At, s.Title); when != "" {
				line += " " + when
			}
			if l.Who != "" {
				line += ", " + escape(l.Who)
			}
			if _, err := fmt.Fprintf(w, "%s: %s\n", line, escape(l.Text)); err != nil {
				return err
			}
		}
	}
	if empty {
		fmt.Fprintln(w, "\n"+nothing)
	}
	return nil
}

// escape keeps what somebody wrote from being markup.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "#", `\#`, "|", `\|`).Replace(widget.Clean(s))
}

func or(s string) string {
	if s = widget.Clean(s); s == "" {
		return "·"
	}
	return s
}

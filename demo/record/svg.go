package record

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"io"
	"strings"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/vt"
)

// The size of a cell, in pixels.
const (
	cellW = 8.4
	cellH = 17
	pad   = 10
)

// What cells have that name no colour of their own.
const (
	paper = "#16181d"
	ink   = "#d8dbe0"
)

// SVG writes a film as a picture that moves by itself, without a script. What it
// draws are the cells of a terminal that was sent the film. Each line that is
// ever shown stands in it once. It rests on the last picture for a while, and
// begins anew.
func (f Film) SVG(w io.Writer, title string) error {
	const rest = 4 * time.Second
	if len(f.Takes) == 0 {
		return fmt.Errorf("record: nothing was filmed")
	}
	term := vt.NewEmulator(f.Width, f.Height)
	defer term.Close()
	whole := f.Takes[len(f.Takes)-1].At + rest
	lines := map[string]int{}
	var defs, shots bytes.Buffer
	for i, t := range f.Takes {
		if _, err := term.Write(t.Data); err != nil {
			return err
		}
		until := whole
		if i+1 < len(f.Takes) {
			until = f.Takes[i+1].At
		}
		fmt.Fprintf(&shots, `<g display="none"><animate attributeName="display" values="none;inline;none;none" keyTimes="0;%s;%s;1" dur="%.3fs" calcMode="discrete" repeatCount="indefinite"/>`,
			part(t.At, whole), part(until, whole), whole.Seconds())
		for y := range f.Height {
			line := drawLine(term, y, f.Width)
			if line == "" {
				continue
			}
			n, ok := lines[line]
			if !ok {
				n = len(lines)
				lines[line] = n
				fmt.Fprintf(&defs, `<g id="l%d">%s</g>`+"\n", n, line)
			}
			fmt.Fprintf(&shots, `<use href="#l%d" y="%d"/>`, n, y*cellH)
		}
		shots.WriteString("</g>\n")
	}
	var b bytes.Buffer
	width, height := float64(f.Width)*cellW+2*pad, f.Height*cellH+2*pad
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="14" xml:space="preserve">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" rx=\"6\" fill=\"%s\"/>\n<defs>\n", html.EscapeString(title), paper)
	b.Write(defs.Bytes())
	fmt.Fprintf(&b, "</defs>\n<g transform=\"translate(%d %d)\" fill=\"%s\">\n", pad, pad, ink)
	b.Write(shots.Bytes())
	b.WriteString("</g>\n</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

// part is how much of a film is over, without the zeros behind.
func part(at, whole time.Duration) string {
	s := strings.TrimRight(fmt.Sprintf("%.5f", min(at.Seconds()/whole.Seconds(), 1)), "0")
	return strings.TrimSuffix(s, ".")
}

// run is neighbouring cells of one style.
type run struct {
	x, n  int
	text  string
	style uv.Style
}

// drawLine draws one line of cells: what lies under them, then the text in runs
// of one style, each stretched to its cells whatever font there is.
func drawLine(term *vt.Emulator, y, width int) string {
	var runs []run
	for x := 0; x < width; {
		text, n, style := " ", 1, uv.Style{}
		if c := term.CellAt(x, y); c != nil {
			style, n = c.Style, max(c.Width, 1)
			if c.Content != "" {
				text = c.Content
			}
		}
		if last := len(runs) - 1; last >= 0 && runs[last].style == style {
			runs[last].text += text
			runs[last].n += n
		} else {
			runs = append(runs, run{x, n, text, style})
		}
		x += n
	}
	var under, over strings.Builder
	for _, r := range runs {
		fg, bg := hex(r.style.Fg), hex(r.style.Bg)
		if r.style.Attrs&uv.AttrReverse != 0 {
			if fg, bg = bg, fg; fg == "" {
				fg = paper
			}
			if bg == "" {
				bg = ink
			}
		}
		if bg != "" {
			fmt.Fprintf(&under, `<rect x="%.1f" width="%.1f" height="%d" fill="%s"/>`, float64(r.x)*cellW, float64(r.n)*cellW, cellH, bg)
		}
		if strings.TrimSpace(r.text) == "" {
			continue
		}
		body := strings.TrimRight(r.text, " ")
		n := r.n - (len(r.text) - len(body))
		lead := len(body) - len(strings.TrimLeft(body, " "))
		attr := ""
		if fg != "" {
			attr += fmt.Sprintf(` fill="%s"`, fg)
		}
		if r.style.Attrs&uv.AttrBold != 0 {
			attr += ` font-weight="bold"`
		}
		if r.style.Attrs&uv.AttrFaint != 0 {
			attr += ` opacity=".6"`
		}
		if r.style.Attrs&uv.AttrItalic != 0 {
			attr += ` font-style="italic"`
		}
		if r.style.Underline != 0 {
			attr += ` text-decoration="underline"`
		}
		fmt.Fprintf(&over, `<text x="%.1f" y="13" textLength="%.1f"%s>%s</text>`, float64(r.x+lead)*cellW, float64(n-lead)*cellW, attr, html.EscapeString(body[lead:]))
	}
	return under.String() + over.String()
}

// hex is a colour as it is written in SVG; empty for the terminal's own.
func hex(c color.Color) string {
	if c == nil {
		return ""
	}
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}

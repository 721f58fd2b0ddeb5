package replay

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"ebb/tui/widget"
	"ebb/tui/words"
)

// Mark stands at the beginning of every line of a replay.
const Mark = "replay"

// Lines writes a tape as lines, an event each, every one marked. Times are those
// of the place given.
func Lines(w io.Writer, t *Tape, local *time.Location) error {
	out := bufio.NewWriter(w)
	for _, note := range t.Notes {
		fmt.Fprintf(out, "%s  %s\n", Mark, widget.Clean(note))
	}
	for _, e := range t.events {
		fmt.Fprintf(out, "%s  %s  %-16s  %-12s  %s\n", Mark, e.At.In(local).Format("2006-01-02 15:04:05"),
			widget.Clean(e.Stream), widget.Clean(e.By.Name), widget.Clean(words.Event(e)))
	}
	return out.Flush()
}

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"ebb/tui/widget"
)

// table prints rows in columns. What comes from hosts and databases is cleaned,
// so that no name can move a cursor; widths are those on the screen.
type table struct {
	head []string
	rows [][]string
}

func newTable(head ...string) *table { return &table{head: head} }

func (t *table) add(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = widget.Clean(c)
	}
	t.rows = append(t.rows, row)
}

func (t *table) print(w io.Writer) error {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, c := range row {
			widths[i] = max(widths[i], ansi.StringWidth(c))
		}
	}
	for _, row := range append([][]string{t.head}, t.rows...) {
		var b strings.Builder
		for i, c := range row {
			b.WriteString(c)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-ansi.StringWidth(c)+2))
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// orDot stands for nothing.
func orDot(s string) string {
	if s == "" {
		return "·"
	}
	return s
}

func agoOr(t time.Time, now time.Time) string {
	if t.IsZero() {
		return "·"
	}
	return widget.Age(now.Sub(t))
}

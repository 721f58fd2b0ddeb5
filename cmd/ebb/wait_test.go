package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// waitFor reads lines until one has the text, and goes on reading beside the
// test so that the writer never blocks.
func waitFor(r io.Reader, text string) error {
	lines := bufio.NewScanner(r)
	var seen []string
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			go func() { _, _ = io.Copy(io.Discard, r) }()
			return nil
		}
		seen = append(seen, lines.Text())
	}
	return fmt.Errorf("%q never came: %s", text, strings.Join(seen, "; "))
}

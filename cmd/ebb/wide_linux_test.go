package main

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"ebb/demo"
	"ebb/fleet"
)

// wideNames are what people call things: scripts of East Asia, pictures of two
// cells, of several code points and of a joined family, letters with marks of
// their own, and signs that some terminals hold for wide.
var wideNames = []string{"仕事-七", "작업-7", "🙂-job", "👩‍💻-dev", "🇩🇪-de", "e\u0301te\u0301", "①②-α", "ok❤️", "plain"}

// Columns are straight in a real terminal, whatever is in them.
func wideCharacters(t *testing.T, f testFleet) {
	const host = "gpu-047"
	var work []demo.Spec
	for i, name := range wideNames {
		work = append(work, demo.Spec{Kind: "notebook", ID: name, Class: fleet.Pausable, Owner: wideNames[len(wideNames)-1-i]})
	}
	f.runs(host, work...)
	h := fleet.Host{ID: f.Host(host).ID(), Address: host, Instance: "i-wide", Labels: map[string]string{"pool": "東京🙂", "rack": "e\u0301"}}
	if err := f.Platform.Plane.AddHost(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	c := f.console("nobu", 120, 36, "")
	c.drains(host, "notebook/plain")
	c.keys("2")
	screen := c.sees("plain", "仕事", "its owner, or you")
	at := map[int][]string{}
	for line := range strings.Lines(screen) {
		if before, _, ok := strings.Cut(line, "its owner, or you"); ok {
			at[c.cells(before)] = append(at[c.cells(before)], strings.TrimSpace(line))
		}
	}
	if len(at) != 1 {
		t.Errorf("the columns are crooked: %v\n%s", at, screen)
	}

	c.keys("1", ":", "group pool", "Enter")
	c.sees("東京🙂")
	c.keys("q")
}

// cells is how many cells tmux takes for a text.
func (term *terminal) cells(text string) int {
	term.t.Helper()
	if out, err := exec.Command("tmux", "-S", term.socket, "set-option", "-p", "@text", text).CombinedOutput(); err != nil {
		term.t.Fatalf("tmux: %v: %s", err, out)
	}
	n, err := strconv.Atoi(term.is("#{w:@text}"))
	if err != nil {
		term.t.Fatal(err)
	}
	return n
}

// A window is made smaller and larger: what matters most stays as long as there is
// room, where there is none no key acts, and everything is there again afterwards.
func narrowWindow(t *testing.T, f testFleet) {
	c := f.console("uma", 120, 36, "")
	c.keys("/", "pool=data", "Enter") // db-01 alone
	c.until("the filter to leave one", func(s string) bool { return strings.Contains(s, "1 of 9") && !strings.Contains(s, "gpu-041") })
	c.resize(40, 12)
	c.until("one host in a small window", func(s string) bool {
		return strings.Contains(s, "db-01") && !strings.Contains(s, "AGENT") && fits(s, 40, 12)
	})
	c.resize(19, 4)
	c.sees("too small")
	c.keys("d", "u", "q") // nothing that can't be seen is done
	c.resize(80, 24)
	c.sees("db-01", "pool=data", "? keys")
	c.keys("Escape")
	c.sees("gpu-041", "db-01")
	c.keys("/", "!gpu", "Enter")
	c.until("all but some", func(s string) bool { return strings.Contains(s, "db-01") && !strings.Contains(s, "gpu-041") })
	c.keys("q")
	c.ended(0)
}

// fits says whether a screen has as many lines, none of them longer.
func fits(screen string, width, height int) bool {
	lines := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
	for _, line := range lines {
		if len([]rune(line)) > width {
			return false
		}
	}
	return len(lines) <= height
}

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// everyCommand calls fn for each command that people call.
func everyCommand(t *testing.T, fn func(*cobra.Command)) {
	t.Helper()
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			return
		}
		fn(c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(&app{getenv: func(string) string { return "" }}))
}

// Every command has an example that its own flags understand, and says how it
// may end; the manual knows no command that is none.
func TestEveryCommandIsDocumented(t *testing.T) {
	seen := map[string]bool{}
	everyCommand(t, func(c *cobra.Command) {
		path := c.CommandPath()
		seen[path] = true
		if c.Short == "" || c.Example == "" || !strings.Contains(c.Long, "Exit status:") {
			t.Errorf("%s: no short text, no example or no exit statuses: give it a place in manuals", path)
		}
		for l := range strings.SplitSeq(c.Example, "\n") {
			checkExample(t, path, strings.TrimSpace(l))
		}
	})
	for path := range manuals {
		if !seen[path] && path != "ebb handover" {
			t.Errorf("the manual has %s, which is no command", path)
		}
	}
	for n := range statuses {
		if statuses[n] == "" {
			t.Errorf("status %d has no words", n)
		}
	}
}

// checkExample has the command line of an example read as if it were typed.
func checkExample(t *testing.T, path, l string) {
	t.Helper()
	l, _, _ = strings.Cut(l, "   ") // what it does
	l, _, _ = strings.Cut(l, " > ")
	var args []string
	for i, part := range strings.Split(l, `"`) { // one quoted word has spaces
		if i%2 == 1 {
			args = append(args, part)
			continue
		}
		args = append(args, strings.Fields(part)...)
	}
	if len(args) == 0 || args[0] != "ebb" {
		t.Errorf("%s: an example that is none: %q", path, l)
		return
	}
	root := newRoot(&app{getenv: func(string) string { return "" }})
	found, rest, err := root.Find(args[1:])
	if err != nil || !strings.HasPrefix(found.CommandPath(), path) {
		t.Errorf("%q leads to %v (%v), not to %s", l, found, err, path)
		return
	}
	if err := found.ParseFlags(rest); err != nil {
		t.Errorf("%q: %v", l, err)
	}
	if err := found.ValidateArgs(found.Flags().Args()); err != nil {
		t.Errorf("%q: %v", l, err)
	}
}

// The pages are the same from run to run: ebb.1 and one for each command, each
// with its example and exit statuses.
func TestManPages(t *testing.T) {
	env := func(k string) string { return map[string]string{"SOURCE_DATE_EPOCH": "1767225600"}[k] }
	write := func() string {
		dir := filepath.Join(t.TempDir(), "man")
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{"man", dir}, nil, &out, &errs, env); code != 0 {
			t.Fatalf("exit %d: %s", code, errs.String())
		}
		return dir
	}
	one, two := write(), write()
	files, err := os.ReadDir(one)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
		a, err := os.ReadFile(filepath.Join(one, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(two, f.Name()))
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s is another one in the second run (%v)", f.Name(), err)
		}
		if strings.HasPrefix(f.Name(), "ebb-completion") || strings.HasPrefix(f.Name(), "ebb-help") {
			continue
		}
		for _, want := range []string{"Exit status", ".SH EXAMPLE", "Jan 2026"} {
			if !strings.Contains(string(a), want) {
				t.Errorf("%s has no %q", f.Name(), want)
			}
		}
	}
	everyCommand(t, func(c *cobra.Command) {
		if name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"; !slices.Contains(names, name) {
			t.Errorf("there is no %s among %v", name, names)
		}
	})
}

// Package cmd holds the programs; its own test keeps the layout of the whole
// module: which folders stand at the top, and which package may import which.
package cmd

import (
	"go/build"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "ebb"

// topLevel is what may stand at the top of the tree, besides dot files.
var topLevel = []string{"cmd", "tui", "fleet", "drain", "probes", "themes", "demo", "go.mod", "go.sum", "Makefile", "README.md"}

// rules say what a package may import of ours: the first rule whose pattern
// matches a package decides. A pattern that ends in "/..." covers the package
// and everything below it.
var rules = []struct {
	pkg string
	may []string
}{
	{"fleet/observe", []string{"fleet", "fleet/reconcile"}},
	{"fleet/sshlink", nil},
	{"fleet/sshsig", nil},
	{"fleet/proof", []string{"fleet", "fleet/sshsig"}},
	{"fleet/...", []string{"fleet"}},
	{"probes/wire", []string{"fleet"}},
	{"probes/agent", []string{"probes", "probes/wire", "fleet", "fleet/proof", "fleet/config"}},
	{"probes/client", []string{"probes/wire", "fleet"}},
	{"probes", []string{"fleet"}},
	{"drain/engine", []string{"drain", "fleet", "fleet/proof", "fleet/reconcile", "fleet/sshsig"}},
	{"drain/...", []string{"drain", "fleet"}},
	{"themes", nil},
	{"tui/keys", nil},
	{"tui/widget", []string{"themes", "tui/keys"}},
	{"tui/feed", []string{"fleet", "drain", "themes", "tui/keys"}},
	{"tui/words", []string{"fleet", "drain"}},
	{"tui", []string{"themes", "fleet", "fleet/proof", "drain", "tui/..."}},
	{"tui/...", []string{"themes", "fleet", "fleet/proof", "drain", "tui/widget", "tui/keys", "tui/feed", "tui/words"}},
	{"demo/...", []string{"fleet/...", "drain/...", "probes/...", "themes", "demo/..."}},
	{"cmd/...", []string{"..."}},
}

// forTests may also be imported by test files: they need a fleet, or a database.
var forTests = []string{"demo/...", "drain/journal/pgtest", "fleet/postgres/pgtest"}

// beyond lists what tests of a package import beyond its rule, each for a reason.
var beyond = map[string][]string{
	"tui/words":    {"themes"},
	"probes/agent": {"probes/client"},
	"drain/engine": {"drain/...", "fleet/..."},
	"drain/levers": {"fleet/..."},
	"fleet/...":    {"fleet/..."},
}

func TestImports(t *testing.T) {
	for _, dir := range packages(t) {
		pkg, err := build.ImportDir(filepath.Join("..", dir), build.ImportComment)
		if err != nil {
			if _, none := err.(*build.NoGoError); none {
				continue
			}
			t.Fatal(err)
		}
		may := allowed(dir)
		check(t, dir, pkg.Imports, may)
		tests := slices.Concat(may, forTests, []string{dir}, extra(dir))
		check(t, dir+" (tests)", slices.Concat(pkg.TestImports, pkg.XTestImports), tests)
	}
}

func extra(dir string) []string {
	var out []string
	for pattern, more := range beyond {
		if match(pattern, dir) {
			out = append(out, more...)
		}
	}
	return out
}

func check(t *testing.T, who string, imports, may []string) {
	t.Helper()
	for _, imp := range imports {
		ours, ok := strings.CutPrefix(imp, module+"/")
		if ok && !slices.ContainsFunc(may, func(p string) bool { return match(p, ours) }) {
			t.Errorf("%s imports %s, which it may not", who, ours)
		}
		if imp == "github.com/NVIDIA/go-nvml/pkg/nvml" && !strings.HasPrefix(who, "cmd/ebbd-nvml") {
			t.Errorf("%s imports go-nvml: only cmd/ebbd-nvml may", who)
		}
	}
}

func allowed(dir string) []string {
	for _, r := range rules {
		if match(r.pkg, dir) {
			return r.may
		}
	}
	return nil
}

func match(pattern, dir string) bool {
	if pattern == "..." {
		return true
	}
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return dir == base || strings.HasPrefix(dir, base+"/")
	}
	return dir == pattern
}

// packages lists every folder below the top that holds Go files.
func packages(t *testing.T) []string {
	t.Helper()
	seen := map[string]bool{}
	err := fs.WalkDir(os.DirFS(".."), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || p != "." && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if path.Ext(p) == ".go" {
			seen[path.Dir(p)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) < 15 {
		t.Fatalf("only %d packages were found", len(seen))
	}
	var out []string
	for dir := range seen {
		out = append(out, dir)
	}
	slices.Sort(out)
	return out
}

func TestTopLevel(t *testing.T) {
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, ".") && name != "bin" && !slices.Contains(topLevel, name) {
			t.Errorf("%s stands at the top level and does not belong there", name)
		}
	}
}

func TestNoVagueNames(t *testing.T) {
	for _, dir := range packages(t) {
		switch path.Base(dir) {
		case "util", "utils", "common", "manager", "helpers", "misc":
			t.Errorf("%s: a package is named for what it holds", dir)
		}
	}
}

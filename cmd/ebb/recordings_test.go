package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"ebb/demo/record"
)

// recordings are the films of the journals in demo/recordings, with the keys that
// are pressed in each.
var recordings = []struct{ name, title, shots string }{
	{"maintenance", "ebb: a host is drained for a new kernel, verified and terminated", "0s=2 24s=end"},
	{"incident", "ebb: a cordon on a hunch, a drain begun, and the host given back", "0s=+ 4s=+ 7s=- 10s=2 17s=7 21s=end"},
	{"deadline", "ebb: a deadline that ends with names, is extended, and then met", "0s=+ 30s=end"},
	{"handover", "ebb: one shift hands a drain over to the next", "0s=+ 12s=6 18s=2 24s=end"},
	{"gate-refused", "ebb: a gate that stays shut, and says why", "0s=+ 14s=6 18s=end"},
}

// Each film is made twice, in terminals of their own and in environments that
// have nothing in common, and must come out the same, byte for byte, as must the
// files that are there; make recordings (EBB_RECORD=write) makes those anew after
// a screen has changed.
func TestRecordings(t *testing.T) {
	dir := filepath.Join("..", "..", "demo", "recordings")
	write := os.Getenv("EBB_RECORD") == "write"
	for _, r := range recordings {
		t.Run(r.name, func(t *testing.T) {
			journal := filepath.Join(dir, r.name+".jsonl")
			made := film(t, journal, r.title, r.shots, "TERM=vt52", "LANG=C", "TZ=Pacific/Chatham", "NO_COLOR=1")
			again := film(t, journal, r.title, r.shots, "TERM=xterm-kitty", "LANG=C.UTF-8", "TZ=America/Lima", "COLORTERM=truecolor")
			for ext, got := range made {
				path := filepath.Join(dir, r.name+ext)
				if !bytes.Equal(got, again[ext]) {
					t.Errorf("%s depends on where it is made", path)
				}
				if len(got) > 200<<10 {
					t.Errorf("%s has %d KiB", path, len(got)>>10)
				}
				if write {
					if err := os.WriteFile(path, got, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s is made otherwise now; make recordings writes it anew", path)
				}
			}
		})
	}
}

// film makes the cast and the moving picture of a journal.
func film(t *testing.T, journal, title, shots string, env ...string) map[string][]byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.Command(filepath.Join(programs, "ebb"), "replay", journal, "--film", shots)
	cmd.Env = append(env, "HOME="+t.TempDir())
	f, err := record.Run(ctx, cmd, 100, 28)
	if err != nil {
		t.Fatal(err)
	}
	var cast, svg bytes.Buffer
	if err := f.Cast(&cast, title); err != nil {
		t.Fatal(err)
	}
	if err := f.SVG(&svg, title); err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{".cast": cast.Bytes(), ".svg": svg.Bytes()}
}

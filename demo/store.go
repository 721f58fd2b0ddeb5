package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ebb/drain"
)

// A store keeps lines: POST /put appends one to its log, syncs it and answers
// with its position; GET /log gives them all. Only the primary takes lines (its
// file "role" says so), and not while a file "fenced" lies beside its log: that
// is read, under the lock under which lines are appended, for each of them, so a
// primary that is started anew is fenced as before.

func (w site) fenced() string  { return filepath.Join(w.dir(), "fenced") }
func (w site) role() string    { return filepath.Join(w.dir(), "role") }
func (w site) logFile() string { return filepath.Join(w.dir(), "log") }

func (w site) isPrimary() bool {
	raw, err := os.ReadFile(w.role())
	return err == nil && strings.TrimSpace(string(raw)) == "primary"
}

// keep is the store's process. What its owner starts, and nobody moved, is a
// primary.
func keep(ctx context.Context, w site) error {
	if !there(w.role()) {
		if err := writeFile(w.role(), "primary\n"); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := writeFile(portFile(w.Root, w.s), l.Addr().String()); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /put", func(rw http.ResponseWriter, r *http.Request) {
		line, err := io.ReadAll(io.LimitReader(r.Body, 4096))
		if err == nil {
			var n int
			if n, err = w.put(string(line)); err == nil {
				_, _ = fmt.Fprintln(rw, n)
				return
			}
		}
		http.Error(rw, err.Error(), http.StatusServiceUnavailable)
	})
	mux.HandleFunc("GET /log", func(rw http.ResponseWriter, _ *http.Request) {
		raw, _ := os.ReadFile(w.logFile())
		_, _ = rw.Write(raw)
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go func() { <-ctx.Done(); _ = srv.Close() }()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (w site) put(line string) (int, error) {
	unlock, err := w.lock()
	if err != nil {
		return 0, err
	}
	defer unlock()
	switch {
	case there(w.fenced()):
		return 0, errors.New("fenced: another primary takes over")
	case !w.isPrimary():
		return 0, errors.New("a standby takes no lines")
	}
	f, err := os.OpenFile(w.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	_, err = fmt.Fprintln(f, strings.ReplaceAll(line, "\n", " "))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return 0, err
	}
	return lines(w.logFile())
}

func lines(path string) (int, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		n++
	}
	return n, nil
}

// storeLever moves a store: durable.
var storeLever = map[drain.Step]step{
	drain.StepAnnounce: {do: func(l *lever) error { return writeFile(l.shared(".moving"), string(l.Target.ID)) }, undo: func(l *lever) error { return remove(l.shared(".moving")) }},
	drain.StepFence:    {do: storeFence, undo: storeUnfence},
	drain.StepArchive:  {do: storeArchive, undo: func(l *lever) error { return remove(l.archive()) }},
	drain.StepReplay:   {do: storeReplay, undo: storeDestroy},
	drain.StepPromote:  {do: storePromote, undo: func(*lever) error { return refuses("a primary that took lines is not taken back") }},
	drain.StepRepoint:  {do: storeRepoint, undo: nothing},
	drain.StepProve:    {do: storeProve, undo: nothing},
	drain.StepRemove:   {do: func(l *lever) error { l.final = true; return l.source.kill() }, undo: nothing}, // its log and its fence stay
}

func (l *lever) archive() string { return filepath.Join(l.rec, "archive") }

// storeFence writes the fence and proves it: a line is offered, and refused.
func storeFence(l *lever) error {
	unlock, err := l.source.lock()
	if err != nil {
		return err
	}
	err = writeFile(l.source.fenced(), l.Drain+"\n")
	unlock()
	if err != nil {
		return err
	}
	if _, err := l.source.put("is it fenced?"); err == nil || !strings.Contains(err.Error(), "fenced") {
		return errors.New("it took a line behind its fence")
	}
	n, err := lines(l.source.logFile())
	l.note = fmt.Sprintf("fenced at %d", n)
	return err
}

// storeUnfence lets the source take lines again, if no other primary does.
func storeUnfence(l *lever) error {
	if l.target.Root != "" && l.target.isPrimary() && l.target.up() {
		return refuses("the target is a primary")
	}
	return remove(l.source.fenced())
}

func storeArchive(l *lever) error {
	raw, err := os.ReadFile(l.source.logFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return writeFile(l.archive(), string(raw))
}

// storeReplay starts a standby and gives it the archived log, a part at each
// look, as a long log would need.
func storeReplay(l *lever) error {
	raw, err := os.ReadFile(l.archive())
	if err != nil {
		return err
	}
	if l.target.isPrimary() {
		return nil
	}
	if err := writeFile(l.target.role(), "standby\n"); err != nil {
		return err
	}
	want := strings.SplitAfter(string(raw), "\n")
	have, err := lines(l.target.logFile())
	if err != nil {
		return err
	}
	upto := min(have+max(len(want)/3, 1), len(want))
	if err := writeFile(l.target.logFile(), strings.Join(want[:upto], "")); err != nil {
		return err
	}
	if !l.target.up() {
		if _, err := Launch(l.target.Place, l.target.s); err != nil {
			return err
		}
	}
	if upto < len(want) {
		return runs(fmt.Sprintf("replayed %d of %d", upto, len(want)-1))
	}
	l.note = fmt.Sprintf("replayed %d", len(want)-1)
	return nil
}

func storeDestroy(l *lever) error {
	return errors.Join(l.target.kill(), os.RemoveAll(l.target.dir()))
}

// storePromote makes the target the primary, once more looking that the old one
// is fenced and that nothing is missing.
func storePromote(l *lever) error {
	if l.target.isPrimary() {
		return nil
	}
	if !there(l.source.fenced()) {
		return refuses("the old primary is not fenced")
	}
	old, err1 := lines(l.source.logFile())
	now, err2 := lines(l.target.logFile())
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if old != now {
		return refuses(fmt.Sprintf("replayed to %d, wanted %d", now, old))
	}
	return writeFile(l.target.role(), "primary\n")
}

func storeRepoint(l *lever) error {
	addr, err := os.ReadFile(portFile(l.target.Root, l.target.s))
	if err != nil {
		return waits("the new primary is not up yet")
	}
	return errors.Join(writeFile(l.shared(".addr"), string(addr)), remove(l.shared(".moving")))
}

// storeProve asks the new primary for its log and finds all of the archive in it.
func storeProve(l *lever) error {
	addr, err := os.ReadFile(l.shared(".addr"))
	if err != nil {
		return err
	}
	got, err := fetch("http://" + string(addr) + "/log")
	if err != nil {
		return err
	}
	want, err := os.ReadFile(l.archive())
	if err == nil && !strings.HasPrefix(got, string(want)) {
		err = errors.New("lines that were acknowledged are missing")
	}
	return err
}

func fetch(url string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(raw), err
}

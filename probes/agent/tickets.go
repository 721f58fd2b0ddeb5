package agent

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ebb/fleet"
)

const (
	ticketDir = "tickets"
	// ticketTTL is how long a creation may take where its creator does not say.
	ticketTTL = 5 * time.Minute
	// closedFor is how long a settled ticket is remembered, so that a repeated
	// report is answered as the first was.
	closedFor  = time.Hour
	sweepEvery = time.Minute
	maxOpen    = 4096 // open tickets: a creator that never reports must not fill the disk
)

// unreadable is the ticket that stands for all of a directory that can't be read.
const unreadable = "UNREADABLETICKETS"

var ticketID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9]{16,64}$`) })

// newTicket makes a ticket with a random id.
func newTicket(op fleet.Op, key fleet.Key, who string, ttl time.Duration, now time.Time) fleet.Ticket {
	if ttl <= 0 {
		ttl = ticketTTL
	}
	return fleet.Ticket{ID: rand.Text(), Op: op, Key: key, Who: clip(who, maxText), At: now, Due: now.Add(ttl)}
}

// takesTicket reports whether the operation creates something here.
func takesTicket(op fleet.Op) bool {
	switch op {
	case fleet.OpClaim, fleet.OpFork, fleet.OpRestore, fleet.OpMoveIn, fleet.OpAdopt, fleet.OpRefill, fleet.OpWake:
		return true
	}
	return false
}

// writeTicket puts a ticket on the disk, replacing its file as a whole.
func writeTicket(state string, t fleet.Ticket) error {
	dir := filepath.Join(state, ticketDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, t.ID+".json"), append(b, '\n'))
}

// replaceFile writes a file beside the old one, syncs it and puts it in place.
func replaceFile(path string, data []byte) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = cmp.Or(err, f.Close())
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		os.Remove(tmp)
		return err
	}
	return syncDir(filepath.Dir(path))
}

// readTickets reads every ticket of a state directory. A file that can't be
// read is an open ticket without a name: it stands for work that may yet land.
func readTickets(state string) (map[string]fleet.Ticket, error) {
	dir := filepath.Join(state, ticketDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]fleet.Ticket{}, nil
	}
	if err != nil {
		return nil, err
	}
	tickets := make(map[string]fleet.Ticket, len(entries))
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || !ticketID().MatchString(id) {
			continue
		}
		t, err := readTicket(dir, id)
		if err != nil {
			t = fleet.Ticket{ID: id, Who: "unreadable ticket: " + err.Error()}
		}
		tickets[id] = t
	}
	return tickets, nil
}

func readTicket(dir, id string) (fleet.Ticket, error) {
	b, err := os.ReadFile(filepath.Join(dir, id+".json"))
	if err != nil {
		return fleet.Ticket{}, err
	}
	var t fleet.Ticket
	if err := json.Unmarshal(b, &t); err != nil {
		return fleet.Ticket{}, err
	}
	if t.ID != id {
		return fleet.Ticket{}, fmt.Errorf("it names ticket %q", t.ID)
	}
	return t, nil
}

// openTickets lists the tickets nobody has settled, oldest first.
func openTickets(all map[string]fleet.Ticket) []fleet.Ticket {
	var open []fleet.Ticket
	for _, t := range all {
		if t.Open() {
			open = append(open, t)
		}
	}
	slices.SortFunc(open, func(a, b fleet.Ticket) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return open
}

// dropClosed forgets tickets that were settled a while ago. The file's age
// says when.
func dropClosed(state string, all map[string]fleet.Ticket, now time.Time) {
	for id, t := range all {
		if t.Open() {
			continue
		}
		path := filepath.Join(state, ticketDir, id+".json")
		info, err := os.Stat(path)
		if err == nil && now.Sub(info.ModTime()) < closedFor {
			continue
		}
		if err == nil {
			os.Remove(path)
		}
		delete(all, id)
	}
}

// sweep drops closed tickets now and then: on a busy host there are thousands,
// and each of them costs a look at its file. The lock is held.
func (a *Agent) sweep() {
	at := a.cfg.Clock.Boottime()
	if a.swept != 0 && at-a.swept < sweepEvery {
		return
	}
	a.swept = at
	dropClosed(a.cfg.StateDir, a.tickets, a.cfg.Clock.Now())
}

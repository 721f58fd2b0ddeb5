package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"ebb/fleet"
	"ebb/probes/wire"
)

// keepActs is how many finished acts are remembered over a restart; those that
// were interrupted always are.
const keepActs = 2048

// actLine is one line of acts.log; exactly one field is set.
//
//	{"begun":{"id":"01J…","kind":"signal",…}}
//	{"ran":{"id":"01J…","run":"BOOT:4117:88123"}}
//	{"sent":{"run":"BOOT:4117:88123","signal":"TERM","boot":"…","at":813000000000}}
//	{"finished":{"id":"01J…","state":"finished","ok":true}}
type actLine struct {
	Begun    *begun         `json:"begun,omitempty"`
	Ran      *ran           `json:"ran,omitempty"`
	Sent     *sent          `json:"sent,omitempty"`
	Finished *wire.ActReply `json:"finished,omitempty"`
}

type begun struct {
	Request wire.ActRequest `json:"request"`
	At      time.Time       `json:"at"`
}

// ran is the process of an act's command. A command outlives the agent that has
// started it, and until it has ended nobody can say what becomes of the act.
type ran struct {
	ID  string    `json:"id"`
	Run fleet.Run `json:"run"`
}

// sent is a TERM that this agent has sent: when, on CLOCK_BOOTTIME of which
// boot, and the grace that the workload's owner asked for at that time.
type sent struct {
	Run   fleet.Run     `json:"run"`
	Key   fleet.Key     `json:"key"`
	Boot  string        `json:"boot"`
	At    time.Duration `json:"at"`
	Grace time.Duration `json:"grace,omitempty"`
}

// act is one act; done is closed once it has ended.
type act struct {
	req   wire.ActRequest
	reply wire.ActReply
	run   fleet.Run // of its command
	done  chan struct{}
}

// acts are the acts of this host and the TERMs it has sent. It is guarded by
// the agent's lock.
type acts struct {
	path  string
	file  *os.File
	byID  map[string]*act
	order []string
	terms map[fleet.Run][]sent
}

// openActs reads the log. An act that began and did not finish is interrupted:
// what it did is for its driver to observe. One whose command is still there goes
// on, and is followed to its end.
func openActs(dir, boot string, alive func(fleet.Run) bool, log *slog.Logger) *acts {
	a := &acts{path: filepath.Join(dir, "acts.log"), byID: map[string]*act{}, terms: map[fleet.Run][]sent{}}
	raw, err := os.ReadFile(a.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Error("acts can't be read", "error", err)
	}
	sc := bufio.NewScanner(bytes.NewReader(raw))
	sc.Buffer(nil, 2*wire.MaxBody)
	for sc.Scan() {
		var line actLine
		if json.Unmarshal(sc.Bytes(), &line) == nil { // else: cut short by a crash
			a.replay(line, boot)
		}
	}
	for _, id := range a.order {
		if act := a.byID[id]; act.reply.State == wire.ActBegun && !(act.run.Boot == boot && alive(act.run)) {
			act.reply.State = wire.ActInterrupted
			close(act.done)
		}
	}
	if err := a.compact(); err != nil {
		log.Warn("acts.log can't be written", "error", err)
	}
	return a
}

func (a *acts) replay(line actLine, boot string) {
	switch {
	case line.Begun != nil:
		r := line.Begun.Request
		a.add(&act{
			req: r, done: make(chan struct{}),
			reply: wire.ActReply{ID: r.ID, State: wire.ActBegun, Begun: line.Begun.At},
		})
	case line.Ran != nil:
		if act := a.byID[line.Ran.ID]; act != nil {
			act.run = line.Ran.Run
		}
	case line.Sent != nil && line.Sent.Boot == boot:
		a.terms[line.Sent.Run] = append(a.terms[line.Sent.Run], *line.Sent)
	case line.Finished != nil:
		if act := a.byID[line.Finished.ID]; act != nil && act.reply.State == wire.ActBegun {
			act.reply = *line.Finished
			close(act.done)
		}
	}
}

func (a *acts) add(act *act) {
	if _, ok := a.byID[act.req.ID]; !ok {
		a.order = append(a.order, act.req.ID)
	}
	a.byID[act.req.ID] = act
}

func (a *acts) underWay() int {
	n := 0
	for _, act := range a.byID {
		if act.reply.State == wire.ActBegun {
			n++
		}
	}
	return n
}

// append makes a line durable.
func (a *acts) append(line actLine) error {
	if a.file == nil {
		if err := a.compact(); err != nil {
			return err
		}
	}
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = a.file.Write(append(b, '\n'))
	if err == nil {
		err = a.file.Sync()
	}
	if err != nil {
		a.close() // the next line begins with a whole file again
	}
	return err
}

// compact writes the log anew, with what is still of use, and opens it.
func (a *acts) compact() error {
	if n := len(a.order) - keepActs; n > 0 {
		var kept []string
		for i, id := range a.order {
			if i < n && a.byID[id].reply.State == wire.ActFinished {
				delete(a.byID, id)
				continue
			}
			kept = append(kept, id)
		}
		a.order = kept
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	write := func(l actLine) error { return enc.Encode(l) }
	for _, id := range a.order {
		act := a.byID[id]
		if err := write(actLine{Begun: &begun{act.req, act.reply.Begun}}); err != nil {
			return err
		}
		if !act.run.IsZero() && act.reply.State == wire.ActBegun {
			if err := write(actLine{Ran: &ran{id, act.run}}); err != nil {
				return err
			}
		}
		if act.reply.State == wire.ActFinished {
			if err := write(actLine{Finished: &act.reply}); err != nil {
				return err
			}
		}
	}
	for _, list := range a.terms {
		for i := range list {
			if err := write(actLine{Sent: &list[i]}); err != nil {
				return err
			}
		}
	}
	if err := replaceFile(a.path, buf.Bytes()); err != nil {
		return err
	}
	a.close()
	f, err := os.OpenFile(a.path, os.O_WRONLY|os.O_APPEND, 0o600)
	a.file = f
	return err
}

func (a *acts) close() {
	if a.file != nil {
		a.file.Close()
		a.file = nil
	}
}

// term remembers a TERM in memory: the first ones count for the gap, so the
// middle of a long list is dropped, never its beginning.
func (a *acts) term(s sent) {
	list := append(a.terms[s.Run], s)
	if len(list) > 32 {
		list = slices.Delete(list, 16, 17)
	}
	a.terms[s.Run] = list
}

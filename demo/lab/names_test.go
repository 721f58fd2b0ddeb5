//go:build linux

package lab_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"ebb/demo/lab"
	"ebb/drain"
	"ebb/fleet"
)

// Names that would move a cursor, forge a line or break a parser: every command
// shows them harmless, and the drain still ends exactly what it named.
func TestNames(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "w1")
	ids := []string{
		"esc\x1b[2J\x1b]0;owned\a", "two\nbox/forged  left", "bidi\u202egnp.exe\u202c\u2066", strings.Repeat("long", 1024),
	}
	comms := []string{"a b) S 1 (", "x\ny", ") R 1 1 1", "((("}
	var pids []int
	for i, id := range ids {
		w := lab.Work{Kind: "box", ID: id, Owner: "o\x1b[1m\n" + ids[2], Comm: comms[i], Args: []string{id, "--id", ids[0]}}
		pids = append(pids, b.run("w1", w)...)
	}
	other := b.run("w1", lab.Work{Kind: "vm", ID: ids[0] + " ", Class: "durable", Comm: "a b) S 1 (", Args: ids})[0]
	for _, id := range ids {
		b.seen("w1", fleet.Key{Kind: "box", ID: id})
	}
	b.ebb(0, says("esc"), "plan", "w1", "--deadline", "10m")
	b.ebb(0, says("5 agreed"), "diff", "w1", "--all")
	run := b.begin("drain", "w1", "--deadline", "20m")
	b.board(limit, "w1", "all owners are told", func(st drain.State) bool {
		told := 0
		for _, it := range st.Items {
			if !it.NoticeAt.IsZero() {
				told++
			}
		}
		return told == len(ids)
	})
	b.ebb(0, says("esc", "bidi", "two"), "board", "w1")
	b.ebb(3, says("locked", "esc"), "verify", "w1")
	b.ebb(0, nil, "log", "w1")
	b.board(limit, "w1", "all of them have left", func(st drain.State) bool {
		gone := 0
		for k, it := range st.Items {
			if k.Kind == "box" && it.End == drain.LeftHost {
				gone++
			}
		}
		return gone == len(ids)
	})
	for i, pid := range pids {
		b.until(fmt.Sprintf("%.20q has ended", ids[i]), func() error {
			if b.Hosts["w1"].Runs(pid) {
				return errors.New("it runs")
			}
			return nil
		})
	}
	if !b.Hosts["w1"].Runs(other) {
		t.Error("the durable one with almost the same name was ended")
	}
	b.ebb(0, says("asked"), "ask", "w1", "stop")
	b.want(run.Wait(b.ctx), 5, "stopped with ")
	b.ebb(0, nil, "log", "w1")
}

package agent

import (
	"bytes"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ebb/fleet"
	"ebb/probes/wire"
)

// Whatever lies in a slot, reading it gives a record or says that there is none.
func FuzzSlot(f *testing.F) {
	dir := f.TempDir()
	s, _, _ := openSlots(dir)
	if err := s.save(held("ann")); err != nil {
		f.Fatal(err)
	}
	s.close()
	good, err := os.ReadFile(filepath.Join(dir, slotNames[0]))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good[:300])
	f.Add([]byte(slotMagic))
	huge := bytes.Clone(good[:slotHeader])
	binary.BigEndian.PutUint64(huge[16:], 1<<63)
	f.Add(huge)
	f.Fuzz(func(t *testing.T, raw []byte) {
		rec, seq, err := readSlot(bytes.NewReader(raw))
		if err != nil && (seq != 0 || rec.Holds.Any()) {
			t.Fatalf("an error, and a record: %+v", rec)
		}
	})
}

// A log of acts is read by whoever comes up after a crash.
func FuzzActLog(f *testing.F) {
	f.Add(`{"begun":{"request":{"id":"a"},"at":"2026-11-29T12:00:00Z"}}` + "\n" + `{"finished":{"id":"a","state":"finished","ok":true}}` + "\n")
	f.Add(`{"finished":{"id":"b"}}{"begun"` + "\n\n" + `{"sent":{"run":"a:b:c"}}`)
	f.Add(`{"begun":{"request":{"id":"a"}}}` + "\n" + `{"begun":{"request":{"id":"a"}}}`)
	f.Fuzz(func(t *testing.T, log string) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "acts.log"), []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		a := openActs(dir, testBoot, nobody, slog.New(slog.DiscardHandler))
		defer a.close()
		for id, act := range a.byID {
			if act.reply.State == wire.ActBegun {
				t.Fatalf("act %q is still under way after a restart", id)
			}
			select {
			case <-act.done:
			default:
				t.Fatalf("act %q would be waited for for ever", id)
			}
		}
	})
}

func FuzzPreface(f *testing.F) {
	f.Add([]byte("EBBC/1 {\"ssh\":\"a\"}\nGET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte("EBBC/1 "))
	f.Add(bytes.Repeat([]byte("E"), 10000))
	f.Fuzz(func(t *testing.T, said []byte) {
		ours, theirs := net.Pipe()
		go func() {
			_, _ = theirs.Write(said)
			theirs.Close()
		}()
		c := &roleConn{Conn: ours}
		got, _ := io.ReadAll(c)
		ours.Close()
		if !bytes.HasPrefix(said, []byte(wire.PrefaceMagic)) && !bytes.Equal(got, said) {
			t.Fatalf("%q became %q", said, got)
		}
		if strings.ContainsAny(c.caller.Claimed.SSH+c.caller.Claimed.Key, "\n\x1b\x00") {
			t.Fatalf("not cleaned: %+v", c.caller.Claimed)
		}
	})
}

// No request, however odd, is more than refused, and none changes anything
// that was not asked for.
func FuzzRequests(f *testing.F) {
	f.Add(`{"who":"ann","why":"x"}`)
	f.Add(`{"id":"a","machine":"` + testMachine + `","kind":"signal","key":"vm/1","runs":["` + testBoot + `:2:3"],"signal":"KILL","recorded":"e","named":"plan"}`)
	f.Add(`{"op":"claim","key":"vm/1"}`)
	f.Add(`{"op":"claim","key":"/"}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, v := range []any{&wire.CordonRequest{}, &wire.DrainRequest{}, &wire.ActRequest{}, &wire.AdmissionRequest{}, &wire.SealRequest{}} {
			if readBody(strings.NewReader(body), v) != nil {
				continue
			}
			switch q := v.(type) {
			case *wire.ActRequest:
				a := &Agent{cfg: Config{Machine: testMachine}}
				if a.checkAct(*q) == nil && q.Kind == wire.ActSignal {
					for _, run := range q.Runs {
						if run.PID <= 1 || run.PID == os.Getpid() {
							t.Fatalf("would signal %v", run)
						}
					}
				}
			case *wire.AdmissionRequest:
				if checkAdmission(*q) == nil && q.Key == (fleet.Key{}) && takesTicket(q.Op) && q.Op != fleet.OpRefill {
					t.Fatalf("a ticket for nothing: %+v", q)
				}
			}
		}
	})
}

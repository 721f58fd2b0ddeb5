package station

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ebb/cmd/version"
	"ebb/drain/journal"
	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/fleet/postgres/pgtest"
)

// Each line of doctor that is not ok says what to do.
func (c Checkup) is(t *testing.T, result, says, do string) {
	t.Helper()
	if c.Result != result || !strings.Contains(c.Detail, says) || !strings.Contains(c.Do, do) || (c.Do == "") != (result == "ok") {
		t.Errorf("%+v, want %s, %q, %q", c, result, says, do)
	}
}

func TestDoctorOnAHost(t *testing.T) {
	now := time.Now()
	all := []string{"observe", "cordon", "operate"}
	for name, c := range map[string]struct {
		change           func(*fleet.Facts)
		roles            []string
		result, says, do string
	}{
		"well":       {result: "ok", says: "roles: observe, cordon, operate"},
		"roles":      {roles: []string{"observe", "cordon"}, result: "warn", says: "you can't drain it", do: "role operate"},
		"clock":      {change: func(f *fleet.Facts) { f.At = now.Add(-time.Hour) }, result: "warn", says: "differ by 1h0m0s", do: "set its clock"},
		"version":    {change: func(f *fleet.Facts) { f.Agent.Version = "0.0.1" }, result: "warn", says: "this console is", do: "ebb agent install h1"},
		"no holds":   {change: func(f *fleet.Facts) { f.Unheld = true }, result: "warn", says: "no record of its holds", do: "ebb uncordon h1"},
		"no machine": {change: func(f *fleet.Facts) { f.Machine = "" }, result: "fail", says: "no machine id", do: "systemd-machine-id-setup"},
		"probe": {change: func(f *fleet.Facts) {
			f.Dirs = fleet.ReadFailed[[]fleet.Resource]("x", now, 0, errors.New("no such mount"))
		},
			result: "warn", says: "no such mount", do: "the gate stays shut"},
		"several": {change: func(f *fleet.Facts) { f.Machine, f.At = "", now.Add(time.Minute) }, result: "fail", says: "differ by 1m0s", do: "systemd-machine-id-setup"},
	} {
		f := fleet.Facts{Machine: "m1", At: now}
		f.Agent.Version = version.Version
		f.Processes = fleet.Read([]fleet.Process{}, "x", now, 0)
		f.Workloads = fleet.Read([]fleet.Workload{}, "x", now, 0)
		for _, r := range []*fleet.Reading[[]fleet.Resource]{&f.Netns, &f.Loops, &f.Dirs} {
			*r = fleet.Read([]fleet.Resource{}, "x", now, 0)
		}
		f.GPUs = fleet.ReadNotApplicable[[]fleet.GPU]("x", now, "none")
		if c.change != nil {
			c.change(&f)
		}
		if c.roles == nil {
			c.roles = all
		}
		t.Run(name, func(t *testing.T) {
			var got Checkup
			hostLooks(&got, "h1", f, c.roles, now)
			got.is(t, c.result, c.says, c.do)
		})
	}
}

func TestDoctorOnTwoHostsOfOneMachine(t *testing.T) {
	ok := Checkup{Result: "ok", Detail: "agent"}
	hosts := []seenHost{{"a", "m1", ok}, {"b", "m2", ok}, {"c", "m1", ok}, {"d", "", Checkup{Result: "fail", Detail: "away", Do: "x"}}}
	sameMachine(hosts)
	hosts[0].check.is(t, "fail", "machine id of c", "give each its own")
	hosts[1].check.is(t, "ok", "agent", "")
	hosts[2].check.is(t, "fail", "machine id of a", "give each its own")
	hosts[3].check.is(t, "fail", "away", "x")
}

func TestDoctorOnPrograms(t *testing.T) {
	dir := t.TempDir()
	program := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	lever := func(name, text string) config.Lever {
		return config.Lever{Name: name, Run: []string{program(name, text)}, Timeout: time.Minute}
	}
	checkLever(t.Context(), lever("good", `cat >/dev/null; echo '{"result":"refused","reason":"who is that?"}'`)).is(t, "ok", "it answers", "")
	checkLever(t.Context(), lever("bad", "echo hello")).is(t, "fail", "not a JSON object", "ebb lever test ")
	checkLever(t.Context(), config.Lever{Name: "none", Run: []string{dir + "/none"}}).is(t, "fail", "none", "[[lever]]")

	checkNotice(t.Context(), config.Notice{Type: "command", Run: []string{program("tell", "")}}).is(t, "ok", "there", "")
	checkNotice(t.Context(), config.Notice{Type: "command", Run: []string{dir + "/nobody"}}).is(t, "fail", "nobody", "[[notice]]")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hook := config.Notice{Type: "webhook", URL: "http://" + l.Addr().String() + "/secret"}
	checkNotice(t.Context(), hook).is(t, "ok", "takes connections", "")
	l.Close()
	c := checkNotice(t.Context(), hook)
	c.is(t, "fail", "connect", "[[notice]]")
	if strings.Contains(c.What+c.Detail, "secret") {
		t.Error("the URL may hold a secret")
	}
	(&Station{}).checkNotices(t.Context())[0].is(t, "warn", "no receiver", "[[notice]]")
}

// The journal's database can be away, or take no writes: that is said, and what
// one can still do.
func TestDoctorOnTheJournal(t *testing.T) {
	s := &Station{JournalError: errors.New("no route to it")}
	s.checkJournal(t.Context()).is(t, "fail", "no route", "a cordon does not")

	s = &Station{}
	open := func(url string) {
		t.Helper()
		var err error
		if s.Journal, err = journal.Open(t.Context(), url, journal.WithTrouble(func(err error) { s.trouble.Store(&err) })); err != nil {
			t.Fatal(err)
		}
		s.Config.Journal.URL = url
	}
	open("sqlite:" + filepath.Join(t.TempDir(), "j.db"))
	s.checkJournal(t.Context()).is(t, "ok", "sqlite:", "")
	s.Journal.Close()
	s.checkJournal(t.Context()).is(t, "fail", "closed", "[journal] url")

	url := pgtest.Start(t)
	open(url)
	s.checkJournal(t.Context()).is(t, "ok", "postgres", "")
	noListen := error(journal.ErrNoListen)
	s.trouble.Store(&noListen)
	s.checkJournal(t.Context()).is(t, "warn", "polled only", "pooler")
	s.Journal.Close()
	s.trouble.Store(nil)
	open(url + "&default_transaction_read_only=on")
	s.checkJournal(t.Context()).is(t, "fail", "read-only", "at the primary")
	s.Journal.Close()
}

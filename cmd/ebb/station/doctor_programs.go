package station

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"ebb/drain"
	"ebb/drain/levers"
	"ebb/fleet"
	"ebb/fleet/config"
)

// checkNotices looks for whoever takes notices: a command must be there, and
// a webhook's host must take a connection. No notice is sent.
func (s *Station) checkNotices(ctx context.Context) []Checkup {
	if len(s.Config.Notices) == 0 {
		return []Checkup{{What: "notices", Result: "warn", Detail: "no receiver is configured: owners are not told before TERM",
			Do: "add [[notice]] with a webhook or a command"}}
	}
	out := make([]Checkup, len(s.Config.Notices))
	var g errgroup.Group
	for i, n := range s.Config.Notices {
		g.Go(func() error {
			out[i] = checkNotice(ctx, n)
			return nil
		})
	}
	_ = g.Wait()
	return out
}

func checkNotice(ctx context.Context, n config.Notice) Checkup {
	if n.Type == "command" {
		c := Checkup{What: "notice " + n.Run[0], Result: "ok", Detail: "it is there"}
		if _, err := exec.LookPath(n.Run[0]); err != nil {
			c.Result, c.Detail, c.Do = "fail", err.Error(), "install it on this console, or correct run in [[notice]]"
		}
		return c
	}
	u, err := url.Parse(n.URL)
	if err != nil { // its text would name the URL, which may hold a secret
		return Checkup{What: "notice webhook", Result: "fail", Detail: "its URL can't be read", Do: "correct url in [[notice]]"}
	}
	c := Checkup{What: "notice " + u.Host, Result: "ok", Detail: "it takes connections"}
	port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)))
	if err != nil {
		c.Result, c.Detail = "fail", err.Error()
		c.Do = "start it, or correct url in [[notice]]: while nobody takes a notice, a KILL waits for a person"
		return c
	}
	_ = conn.Close()
	return c
}

// checkLevers looks for the programs that move pausable and durable workloads,
// and asks each what it could do for a workload that is not there: that changes
// nothing, and any answer will do that is one.
func (s *Station) checkLevers(ctx context.Context) []Checkup {
	out := make([]Checkup, len(s.Config.Levers))
	var g errgroup.Group
	g.SetLimit(8)
	for i, l := range s.Config.Levers {
		g.Go(func() error {
			out[i] = checkLever(ctx, l)
			return nil
		})
	}
	_ = g.Wait()
	return out
}

func checkLever(ctx context.Context, l config.Lever) Checkup {
	c := Checkup{What: "lever " + l.Name, Result: "ok", Detail: l.Run[0]}
	if _, err := exec.LookPath(l.Run[0]); err != nil {
		c.Result, c.Detail = "fail", err.Error()
		c.Do = "install it on this console and wherever ebb run runs, or correct run in [[lever]]"
		return c
	}
	p := levers.Program{Name: l.Name, Run: l.Run, Timeout: l.Timeout}
	_, err := p.Call(ctx, levers.Request{Op: string(drain.OpPlan), Act: "doctor", Deadline: time.Now().Add(time.Hour),
		Workload: levers.Workload{Kind: "doctor", ID: "nobody", Class: fleet.Pausable},
		Source:   levers.Place{ID: "doctor/here"}, Target: levers.Place{ID: "doctor/there"}})
	if err != nil {
		c.Result, c.Detail = "fail", err.Error()
		c.Do = "try it: ebb lever test " + strings.Join(l.Run, " ")
	} else {
		c.Detail += fmt.Sprintf("; it answers (one call may take %s)", l.Timeout)
	}
	return c
}

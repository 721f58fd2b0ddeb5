package station

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"ebb/cmd/version"
	"ebb/fleet"
	"ebb/fleet/sshlink"
	"ebb/probes/wire"
)

// Checkup is one thing that doctor looked at.
type Checkup struct {
	What   string `json:"what"`
	Result string `json:"result"` // ok, warn or fail
	Detail string `json:"detail"`
	Do     string `json:"do,omitempty"` // what to do about it
}

// Doctor looks at everything that a drain will need.
func (s *Station) Doctor(ctx context.Context) []Checkup {
	out := []Checkup{{What: "config", Result: "ok", Detail: s.Config.Path}}
	out = append(out, s.checkSSH()...)
	out = append(out, s.checkJournal(ctx))
	for _, name := range slices.Sorted(maps.Keys(s.planes)) {
		out = append(out, s.checkPlane(ctx, name, s.planes[name]))
	}
	out = append(out, s.checkTerminator(), s.checkNotices(), s.checkOperators())
	out = append(out, s.checkLevers()...)
	if n := s.spool.waiting(); n > 0 {
		out = append(out, Checkup{What: "spool", Result: "warn", Detail: fmt.Sprintf("%d records in %s are not journaled yet", n, s.spool.path),
			Do: "they are appended as soon as the journal takes them; records of another journal wait for it"})
	}
	hosts, _ := s.Hosts(ctx)
	checks := make([]Checkup, len(hosts))
	var g errgroup.Group
	g.SetLimit(16)
	for i, h := range hosts {
		g.Go(func() error {
			checks[i] = s.checkHost(ctx, h)
			return nil
		})
	}
	_ = g.Wait()
	return append(out, checks...)
}

// checkSSH names the lines of ssh_config that were passed over: a host that the
// system's ssh reaches in another way would be looked for in the wrong place.
func (s *Station) checkSSH() []Checkup {
	var out []Checkup
	for _, w := range s.pool.Config().Warnings() {
		out = append(out, Checkup{What: "ssh_config", Result: "warn", Detail: w, Do: "say it in another way, or name another file with [ssh] config"})
	}
	return out
}

func (s *Station) checkJournal(ctx context.Context) Checkup {
	c := Checkup{What: "journal", Result: "fail", Do: "check [journal] url; a drain needs it, a cordon does not"}
	if s.Journal == nil {
		c.Detail = s.JournalError.Error()
		return c
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	now, err := s.Journal.Now(ctx)
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	c.Result, c.Detail, c.Do = "ok", s.Journal.Name(), ""
	if skew := time.Since(now).Abs(); skew > 2*time.Second {
		c.Result, c.Do = "warn", "set this machine's clock, or the database's"
		c.Detail += fmt.Sprintf("; its clock and ours differ by %s", skew.Round(time.Second))
	}
	return c
}

func (s *Station) checkPlane(ctx context.Context, name string, p plane) Checkup {
	c := Checkup{What: "plane " + name}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	hosts, err := p.Hosts(ctx)
	if err == nil {
		_, err = p.Claims(ctx, nil)
	}
	if err != nil {
		c.Result, c.Detail, c.Do = "fail", err.Error(), "check its url, its permissions, and [plane.statements]"
		return c
	}
	c.Result, c.Detail = "ok", fmt.Sprintf("%d hosts", len(hosts))
	if p.SelfClaims() {
		c.Detail += "; no claims of its own, so ghosts and orphans can't be told"
	} else if len(hosts) > 0 {
		if el, err := p.Eligible(ctx, hosts[0].ID); err == nil && el.Eligible.Status != fleet.OK {
			c.Result, c.Do = "warn", "a cordon waits the scheduler's cache window out instead of reading its view back"
			c.Detail += "; its scheduler's view can't be read"
		}
	}
	return c
}

func (s *Station) checkTerminator() Checkup {
	t := s.Config.Terminate
	c := Checkup{What: "terminator", Result: "ok", Detail: t.Type}
	switch {
	case t.Type == "":
		c.Result, c.Detail, c.Do = "warn", "none is configured", "set [terminate] in fleet.toml, or terminate by hand"
	case t.Type == "command" && len(t.Run) > 0:
		c.Detail = t.Run[0]
		if _, err := exec.LookPath(t.Run[0]); err != nil {
			c.Result, c.Detail, c.Do = "fail", err.Error(), "install it on this console, or correct run in [terminate]"
		}
	}
	return c
}

func (s *Station) checkNotices() Checkup {
	if len(s.Config.Notices) == 0 {
		return Checkup{What: "notices", Result: "warn", Detail: "no receiver is configured: owners are not told before TERM",
			Do: "add [[notice]] with a webhook or a command"}
	}
	for _, n := range s.Config.Notices {
		if n.Type == "command" {
			if _, err := exec.LookPath(n.Run[0]); err != nil {
				return Checkup{What: "notices", Result: "fail", Detail: err.Error(), Do: "install it on this console, or correct run in [[notice]]"}
			}
		}
	}
	return Checkup{What: "notices", Result: "ok", Detail: fmt.Sprintf("%d receivers", len(s.Config.Notices))}
}

// checkHost reaches a host and says which roles this operator has there.
func (s *Station) checkHost(ctx context.Context, h fleet.Host) Checkup {
	c := Checkup{What: "host " + h.ID.Name(), Result: "fail"}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	cl, _, err := s.agents.open(ctx, h, wire.Observe)
	if err != nil {
		c.Detail, c.Do = err.Error(), hintOf(err)
		return c
	}
	f, err := cl.Facts(ctx, true)
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	c.Result = "ok"
	roles := "observe"
	for _, r := range []wire.Role{wire.Cordon, wire.Operate, wire.Terminate} {
		if _, _, err := s.agents.open(ctx, h, r); err == nil {
			roles += ", " + string(r)
		}
	}
	c.Detail = fmt.Sprintf("agent %s, roles: %s", f.Agent.Version, roles)
	warn := func(detail, do string) { c.Result, c.Detail, c.Do = "warn", c.Detail+"; "+detail, do }
	if skew := time.Since(f.At).Abs(); skew > 5*time.Second {
		warn(fmt.Sprintf("its clock and ours differ by %s", skew.Round(time.Second)), "set its clock: expiries and countdowns are read by it")
	}
	if f.Agent.Version != version.Version {
		warn("this console is "+version.Version, "ebb agent install "+h.ID.Name())
	}
	if f.Unheld {
		warn("the agent has no record of its holds and admits nothing", "ebb uncordon "+h.ID.Name()+", or cordon it")
	}
	for _, p := range f.Probes() {
		if p.Status != fleet.OK && p.Status != fleet.NotApplicable {
			warn("probe "+p.Name+": "+p.Error, "look at the host: the gate stays shut while a probe fails")
		}
	}
	return c
}

// AllowedSigners is the line of an allowed_signers file for a host's key, as the
// SSH handshake showed it.
func (s *Station) AllowedSigners(ctx context.Context, id fleet.HostID) (string, error) {
	h, err := s.host(ctx, id)
	if err != nil {
		return "", err
	}
	_, key, err := s.agents.open(ctx, h, wire.Observe)
	if err != nil {
		return "", err
	}
	return sshlink.AllowedSigners(string(id), key), nil
}

// Sample is a configuration to start from.
const Sample = `# fleet.toml: one's own hosts, over the system's sshd. See README.md for more.

[[plane]]
name = "mine"
type = "ssh"          # hosts are the ssh_config aliases that match; no control plane is asked
match = ["*"]

[[class]]
match = { kind = "unit" }
class = "stuck"       # notice, TERM, grace, TERM, KILL
grace = "2m"

[terminate]
type = "release"      # or: type = "command", run = ["cloudctl", "instances", "terminate", "{instance}"]
`

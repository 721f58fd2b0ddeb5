package station

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"time"

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
	out = append(out, s.checkTerminator(), s.checkOperators())
	out = append(out, s.checkNotices(ctx)...)
	out = append(out, s.checkLevers(ctx)...)
	if n := s.spool.waiting(); n > 0 {
		out = append(out, Checkup{What: "spool", Result: "warn", Detail: fmt.Sprintf("%d records in %s are not journaled yet", n, s.spool.path),
			Do: "they are appended as soon as the journal takes them; records of another journal wait for it"})
	}
	return append(out, s.checkHosts(ctx)...)
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
	if len(hosts) == 0 {
		c.Result, c.Detail, c.Do = "warn", "it lists no host", "check its url, [plane.statements], or the hosts in the file"
	}
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

package station

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"ebb/cmd/version"
	"ebb/fleet"
	"ebb/probes/wire"
)

// seenHost is what doctor saw of one host.
type seenHost struct {
	name    string
	machine string
	check   Checkup
}

// checkHosts reaches every host, and compares them with each other.
func (s *Station) checkHosts(ctx context.Context) []Checkup {
	hosts, _ := s.Hosts(ctx)
	seen := make([]seenHost, len(hosts))
	var g errgroup.Group
	g.SetLimit(16)
	for i, h := range hosts {
		g.Go(func() error {
			seen[i] = s.checkHost(ctx, h)
			return nil
		})
	}
	_ = g.Wait()
	sameMachine(seen)
	out := make([]Checkup, len(seen))
	for i, h := range seen {
		out[i] = h.check
	}
	return out
}

// checkHost reaches a host and says which roles this operator has there.
func (s *Station) checkHost(ctx context.Context, h fleet.Host) seenHost {
	seen := seenHost{name: h.ID.Name(), check: Checkup{What: "host " + h.ID.Name(), Result: "fail"}}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	cl, _, err := s.agents.open(ctx, h, wire.Observe)
	if err != nil {
		seen.check.Detail, seen.check.Do = err.Error(), hintOf(err)
		return seen
	}
	f, err := cl.Facts(ctx, true)
	if err != nil {
		seen.check.Detail, seen.check.Do = err.Error(), "look at its agent's log: journalctl -u ebbd"
		return seen
	}
	read := time.Now()
	roles := []string{string(wire.Observe)}
	for _, r := range []wire.Role{wire.Cordon, wire.Operate, wire.Terminate} {
		if _, _, err := s.agents.open(ctx, h, r); err == nil {
			roles = append(roles, string(r))
		}
	}
	seen.machine = f.Machine
	hostLooks(&seen.check, seen.name, f, roles, read)
	if s.Journal != nil {
		if st, err := s.Engine.State(ctx, h.ID); err == nil && st.Machine != "" && !st.Over() && st.Machine != f.Machine {
			seen.check.fail(fmt.Sprintf("machine %s answers, and drain %s holds %s", f.Machine, st.Drain, st.Machine),
				"find out which machine has its address; every act on it is refused until then")
		}
	}
	return seen
}

// hostLooks says what stands out in what a host tells of itself.
func hostLooks(c *Checkup, name string, f fleet.Facts, roles []string, now time.Time) {
	c.Result, c.Detail = "ok", fmt.Sprintf("agent %s, roles: %s", f.Agent.Version, strings.Join(roles, ", "))
	if !slices.Contains(roles, string(wire.Operate)) {
		c.warn("you can't drain it", "have your key allowed the role operate there (terminate is apart, and opened when it is needed)")
	}
	if skew := now.Sub(f.At).Abs(); skew > 5*time.Second {
		c.warn(fmt.Sprintf("its clock and ours differ by %s", skew.Round(time.Second)), "set its clock: expiries and countdowns are read by it")
	}
	if f.Agent.Version != version.Version {
		c.warn("this console is "+version.Version, "ebb agent install "+name)
	}
	if f.Unheld {
		c.warn("the agent has no record of its holds and admits nothing", "ebb uncordon "+name+", or cordon it")
	}
	if f.Machine == "" {
		c.fail("it has no machine id, and so nothing can be bound to it", "systemd-machine-id-setup on the host")
	}
	for _, p := range f.Probes() {
		if p.Status != fleet.OK && p.Status != fleet.NotApplicable {
			c.warn("probe "+p.Name+": "+p.Error, "look at the host: the gate stays shut while a probe fails")
		}
	}
}

// sameMachine fails hosts that answer with one machine id: a cloned image, or two
// names of one machine. A drain bound to it could not tell them apart.
func sameMachine(hosts []seenHost) {
	by := map[string][]string{}
	for _, h := range hosts {
		if h.machine != "" {
			by[h.machine] = append(by[h.machine], h.name)
		}
	}
	for i, h := range hosts {
		others := slices.DeleteFunc(slices.Clone(by[h.machine]), func(n string) bool { return n == h.name })
		if len(others) > 0 {
			hosts[i].check.fail("it has the machine id of "+strings.Join(others, ", "),
				"give each its own (rm /etc/machine-id, systemd-machine-id-setup, restart ebbd), or list one machine once")
		}
	}
}

// fail adds something that stops a drain.
func (c *Checkup) fail(detail, do string) {
	c.warn(detail, do)
	c.Result = "fail"
}

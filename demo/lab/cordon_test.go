//go:build linux

package lab_test

import (
	"encoding/json"
	"strings"
	"testing"

	"ebb/fleet"
)

// Doctor and hosts see three hosts as they are.
func TestLook(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "l1", "l2", "l3")
	out := b.ebb(0, says("3 hosts", "postgres://"), "doctor")
	for _, name := range []string{"l1", "l2", "l3"} {
		if !strings.Contains(out, "host "+name) || strings.Contains(out, "fail") {
			t.Fatalf("doctor:\n%s", out)
		}
	}
	if strings.Count(out, "roles: observe, cordon, operate, terminate") != 3 {
		t.Fatalf("doctor:\n%s", out)
	}
	var hosts []struct {
		Host         fleet.HostID
		State        string
		Pool         string
		Agent        string
		Unattributed int
	}
	b.must(b.JSON(b.ctx, &hosts, "hosts"))
	if len(hosts) != 3 {
		t.Fatalf("%d hosts", len(hosts))
	}
	for _, h := range hosts {
		if h.State != "serving" || h.Pool != "gpu" || h.Agent == "" || h.Unattributed != 0 {
			t.Errorf("%+v", h)
		}
	}
}

// A cordon is told to plane and host, refuses at the host with and without its
// agent, and goes away with uncordon, at both.
func TestCordon(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "c1", "c2")
	if code, out := b.admit("c1"); code != 0 {
		t.Fatalf("a serving host refuses: %s", out)
	} else {
		var ticket fleet.Ticket
		b.must(json.Unmarshal([]byte(out), &ticket))
		b.settle("c1", ticket.ID)
	}
	b.ebb(0, says("prod/c1: cordoned", "prod/c2: cordoned", "the plane's flag is set", "nothing has started since"),
		"cordon", "c1", "c2", "--confirm", "2", "--reason", "fan noise")
	for _, host := range []string{"c1", "c2"} {
		if got := b.flag(host); got != "true ebb:ann fan noise" {
			t.Errorf("%s in the database: %q", host, got)
		}
		b.refuses(host, "fan noise")
	}
	h := b.Hosts["c1"]
	b.must(h.KillAgent(b.ctx))
	b.refuses("c1", "fan noise")
	b.must(h.StartAgent(b.ctx))
	b.refuses("c1", "fan noise")
	b.ebb(0, says("prod/c1: serving"), "uncordon", "c1")
	if got := b.flag("c1"); got != "false" {
		t.Errorf("in the database: %q", got)
	}
	if code, out := b.admit("c1"); code != 0 {
		t.Errorf("an uncordoned host refuses: %s", out)
	}
	b.refuses("c2", "fan noise")
	// Somebody else's cordon is theirs.
	other, err := b.BeginAs("bob", "", "uncordon", "c2")
	b.must(err)
	b.want(other.Wait(b.ctx), 3, "ann cordoned it", "--theirs")
	b.refuses("c2", "fan noise")
	other, err = b.BeginAs("bob", "", "uncordon", "c2", "--theirs")
	b.must(err)
	b.want(other.Wait(b.ctx), 0, "serving")
	if got := b.flag("c2"); got != "false" {
		t.Errorf("in the database: %q", got)
	}
}

package agent

import (
	"strings"
	"testing"

	"ebb/probes/wire"
)

func TestARebindStandsInTheAuditLog(t *testing.T) {
	r := newRig(t)
	req := wire.RebindRequest{Who: "ann", Why: "new board", Host: "prod/h1", Was: "m-old", Machine: testMachine}
	_, err := r.dial(wire.Cordon).Rebind(t.Context(), req)
	code(t, err, wire.CodeForbidden)
	_, err = r.dial(wire.Operate).Rebind(t.Context(), req)
	ok(t, err)
	log := r.readAudit()
	for _, want := range []string{`"verb":"rebind"`, "prod/h1 by ann, instead of machine m-old", "new board", `"outcome":"done"`} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in:\n%s", want, log)
		}
	}
}

package main

import (
	"bytes"
	"testing"

	"ebb/drain/engine"
	"ebb/fleet"
)

// What could not be read is neither passed nor failed; what the journal knows is
// said all the same.
func TestGateOfAHostThatIsNotRead(t *testing.T) {
	key := fleet.Key{Kind: "job", ID: "a"}
	ver := engine.Verification{Host: "demo/gpu-041", Unread: true, Issues: []fleet.Issue{
		{Check: fleet.CheckReach, Detail: "the host can't be read: it does not answer"},
		{Check: fleet.CheckLost, Key: key, Detail: "job/a was lost: the host was rebooted"},
	}}
	passed, unread := []byte("  ✓ "), []byte("   not read: unreachable\n")
	var out bytes.Buffer
	if err := gateText(&out, ver, ""); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(out.Bytes(), unread); n != len(fleet.Checks)-2 || bytes.Contains(out.Bytes(), passed) {
		t.Errorf("%d not read:\n%s", n, out.String())
	}
	if want := "locked: 2 of 8 checks, and 6 not read\n"; !bytes.HasSuffix(out.Bytes(), []byte(want)) {
		t.Errorf("it does not end with %q:\n%s", want, out.String())
	}
	ver.Issues = ver.Issues[:1]
	out.Reset()
	if err := gateText(&out, ver, ""); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(out.Bytes(), passed); n != 1 {
		t.Errorf("%d passed, though the journal alone says what was lost:\n%s", n, out.String())
	}
}

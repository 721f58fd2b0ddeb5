package sshlink

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMatchHosts(t *testing.T) {
	for _, tc := range []struct {
		hosts, name string
		want        bool
	}{
		{"gpu-1", "gpu-1", true},
		{"GPU-1", "gpu-1", true},
		{"gpu-1", "gpu-10", false},
		{"gpu-1,192.0.2.1", "192.0.2.1", true},
		{"gpu-*,!gpu-9", "gpu-8", true},
		{"gpu-*,!gpu-9", "gpu-9", false},
		{"!gpu-9,gpu-*", "gpu-9", false},
		{"!gpu-9", "gpu-8", false},
		{"gpu-?", "gpu-12", false},
		{"[gpu-1]:2222", "[gpu-1]:2222", true},
		{"[gpu-1]:2222", "gpu-1", false},
		{"*", "[gpu-1]:2222", true},
		{",", "", false},
		{"|1|bad|", "gpu-1", false},
	} {
		if got := matchHosts(tc.hosts, tc.name); got != tc.want {
			t.Errorf("matchHosts(%q, %q) = %v", tc.hosts, tc.name, got)
		}
	}
}

func TestMatchPatternIsAGlob(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pattern := rapid.StringMatching(`[ab.*?]{0,8}`).Draw(rt, "pattern")
		name := rapid.StringMatching(`[ab.]{0,8}`).Draw(rt, "name")
		expr := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
		if want := regexp.MustCompile("^" + expr + "$").MatchString(name); matchPattern(pattern, name) != want {
			rt.Fatalf("matchPattern(%q, %q) = %v", pattern, name, !want)
		}
	})
}

func TestReadKnownHosts(t *testing.T) {
	a, b, c := newSigner(t).PublicKey(), newSigner(t).PublicKey(), newSigner(t).PublicKey()
	line := func(prefix string, key interface{ Marshal() []byte }) string {
		return prefix + " " + keyLine("ssh-ed25519", key.Marshal()) + " comment\n"
	}
	file := writeFile(t, filepath.Join(t.TempDir(), "known"), "# comment\n\n"+
		line("host", a)+line("[host]:2222", b)+"host ssh-ed25519 !!!\n"+"@odd host ssh-rsa AAAA\n"+
		"host ssh-rsa "+strings.Fields(keyLine("", a.Marshal()))[0]+"\n"+
		line("@cert-authority *", c)+line("@revoked host", b))
	got, err := readKnownHosts([]string{"/does/not/exist", file}, []string{"[host]:2222", "host"})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.keys) != 1 || !got.keys[0].is(b) || got.keys[0].Line != 4 {
		t.Errorf("the port's own line comes first: %+v", got.keys)
	}
	if len(got.authorities) == 0 || !got.authorities[0].is(c) {
		t.Errorf("authorities %+v", got.authorities)
	}
	if len(got.revoked) != 1 || !got.revoked[0].is(b) {
		t.Errorf("revoked for the name without port: %+v", got.revoked)
	}
	if len(got.malformed) != 3 || !strings.Contains(got.malformed[0], ":5: key is not base64") {
		t.Errorf("malformed %q", got.malformed)
	}
	got, err = readKnownHosts([]string{file}, []string{"[host]:23", "host"})
	if err != nil || len(got.keys) != 1 || !got.keys[0].is(a) {
		t.Errorf("without a line for the port that without one counts: %+v, %v", got.keys, err)
	}
	if got.keys[0].Fingerprint() != Fingerprint(a) {
		t.Errorf("fingerprint %s, want %s", got.keys[0].Fingerprint(), Fingerprint(a))
	}
}

// Not knowing what is revoked, nothing is trusted.
func TestUnreadableRevocation(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "known"), "\n@revoked * ssh-ed25519 ???\n")
	if _, err := readKnownHosts([]string{file}, []string{"host"}); err == nil || !strings.Contains(err.Error(), file+":2") {
		t.Errorf("error %v", err)
	}
}

func FuzzParseKnownHost(f *testing.F) {
	f.Add("host ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE2o7ZBMjBbVqLvG0Z0v3Q0m6p7m0mQKk1nJ2F0tH0aB")
	f.Add("@revoked |1|x|y ssh-rsa A")
	f.Add("@cert-authority")
	f.Fuzz(func(t *testing.T, line string) {
		k, err := parseKnownHost(line)
		if (err != nil) && k.blob != nil {
			t.Fatalf("%q: a key and an error", line)
		}
		if k.blob != nil && blobType(k.blob) != k.Type {
			t.Fatalf("%q: type %q", line, k.Type)
		}
		matchHosts(k.hosts, "host")
	})
}

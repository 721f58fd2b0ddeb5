package sshlink

import (
	"errors"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

const sampleConfig = `
# comment
Host gpu-*
    HostName %h.internal
    User ops            # trailing comment
    ProxyJump bastion
Host gpu-1
	Port = 2222
	IdentityFile "~/.ssh/key of %r"
	IdentityFile /keys/%h-%p
	HostKeyAlias=rack-1
	ConnectTimeout 7
Host bastion
    HostName 192.0.2.1
    User jump
    IdentitiesOnly yes
Host direct !direct-not
    ProxyJump none
Host deep
    ProxyJump one,me@two:2022
Match host one,uno
    Port 2201
Host *
    ProxyJump bastion
    UserKnownHostsFile ~/known "/other known"
    GlobalKnownHostsFile none
    CertificateFile ~/.ssh/c-cert.pub
`

func loadText(t *testing.T, text string) (*Config, string, error) {
	t.Helper()
	home := t.TempDir()
	file := writeFile(t, filepath.Join(home, ".ssh", "config"), text)
	c, err := LoadConfig(Sources{Files: []string{file}, Home: home, User: "me", Agent: "none"})
	return c, home, err
}

func resolve(t *testing.T, c *Config, dest string) Target {
	t.Helper()
	target, err := c.Resolve(dest)
	if err != nil {
		t.Fatalf("resolve %s: %v", dest, err)
	}
	return target
}

func TestResolve(t *testing.T) {
	c, home, err := loadText(t, sampleConfig)
	if err != nil {
		t.Fatal(err)
	}
	got := resolve(t, c, "gpu-1")
	bastion := Target{
		Name: "bastion", User: "jump", Host: "192.0.2.1", Port: 22, IdentitiesOnly: true,
		KnownHosts: []string{home + "/known", "/other known"}, Certificates: []string{home + "/.ssh/c-cert.pub"},
	}
	for _, name := range defaultIdentities {
		bastion.Identities = append(bastion.Identities, Identity{Path: home + "/.ssh/" + name, Default: true})
	}
	want := Target{
		Name: "gpu-1", User: "ops", Host: "gpu-1.internal", Port: 2222, HostKeyAlias: "rack-1",
		KnownHosts:   bastion.KnownHosts,
		Identities:   []Identity{{Path: home + "/.ssh/key of ops"}, {Path: "/keys/gpu-1.internal-2222"}},
		Certificates: bastion.Certificates, ConnectTimeout: 7 * time.Second, Via: &bastion,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("gpu-1:\n got %+v\n     via %+v\nwant %+v\n     via %+v", got, got.Via, want, want.Via)
	}
	if d := resolve(t, c, "root@gpu-1:99"); d.User != "root" || d.Port != 99 || d.Host != "gpu-1.internal" {
		t.Errorf("the destination's own user and port: %+v", d)
	}
	if d := resolve(t, c, "direct"); d.Via != nil {
		t.Errorf("ProxyJump none: goes via %+v", d.Via)
	}
	if d := resolve(t, c, "direct-not"); d.Via == nil || d.Via.Name != "bastion" {
		t.Errorf("a negated pattern: goes via %+v", d.Via)
	}
	if d := resolve(t, c, "bastion"); d.Via != nil {
		t.Errorf("a host that is its own jump host: goes via %+v", d.Via)
	}
}

func TestResolveChain(t *testing.T) {
	c, _, err := loadText(t, sampleConfig)
	if err != nil {
		t.Fatal(err)
	}
	var way []string
	deep := resolve(t, c, "deep")
	for at := &deep; at != nil; at = at.Via {
		way = append(way, at.User+"@"+at.Address())
	}
	want := "me@deep:22 me@two:2022 me@one:2201 jump@192.0.2.1:22"
	if got := strings.Join(way, " "); got != want {
		t.Errorf("way to deep: %s; want %s", got, want)
	}
}

func TestResolveRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ text, dest, why string }{
		"loop":        {"Host a\nProxyJump b\nHost b\nProxyJump a\n", "a", ":2: ProxyJump loops: a through b through a"},
		"proxy":       {"Host a\n\nProxyCommand nc %h %p\n", "a", ":3: ProxyCommand is not supported"},
		"token":       {"IdentityFile ~/%Z\n", "a", `:1: unknown token "%Z"`},
		"percent":     {"IdentityFile ~/x%\n", "a", ":1: lone %"},
		"home":        {"\n\nIdentityFile ~bob/x\n", "a", ":3: home of another user"},
		"environment": {"IdentityFile ${EBB_SURELY_UNSET}/x\n", "a", ":1: environment variable EBB_SURELY_UNSET"},
		"hostname":    {"HostName -oops\n", "a", ":1: HostName: host starts with -"},
		"user":        {"User a;b\n", "a", ":1: User: user contains"},
		"alias":       {"HostKeyAlias a*\n", "a", ":1: HostKeyAlias: host contains"},
	} {
		c, _, err := loadText(t, tc.text)
		if err != nil {
			t.Errorf("%s: load: %v", name, err)
			continue
		}
		_, err = c.Resolve(tc.dest)
		var typed *ConfigError
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), tc.why) || typed.Hint() == "" {
			t.Errorf("%s: %v; want %q", name, err, tc.why)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"Host a\nPort x\n":                  `:2: port is not a number: "x"`,
		"Port 70000\n":                      ":1: port outside",
		"# c\n\nConnectTimeout soon\n":      ":3: expected a time in seconds",
		"IdentitiesOnly maybe\n":            ":1: expected yes or no",
		"Port\n":                            ":1: Port has no value",
		"Port =\n":                          ":1: Port has no value",
		"= x\n":                             ":1: expected a keyword",
		"Po-rt 1\n":                         `:1: bad keyword "Po-rt"`,
		"IdentityFile \"x\n":                ":1: unterminated quote",
		"ProxyJump a,,b\n":                  ":1: parse destination",
		"ProxyJump a b\n":                   ":1: expected destinations separated by commas",
		"Host !\n":                          ":1: bad host pattern",
		"Host a\r\nPort 1\r\nPort none\r\n": ":3: port is not a number",
		"Include ~/.ssh/inner\n":            "inner:2: port is not a number",
		"Include ~/.ssh/config\n":           "does it include itself?",
		"Include [\n":                       ":1: bad pattern",
		"\xff\xfe 1\n":                      ":1: expected a keyword",
		"Host a\n" + strings.Repeat("#\n", 50) + "Port z": ":52: port",
	} {
		home := t.TempDir()
		writeFile(t, filepath.Join(home, ".ssh", "inner"), "Host b\nPort inner\n")
		file := writeFile(t, filepath.Join(home, ".ssh", "config"), text)
		_, err := LoadConfig(Sources{Files: []string{file}, Home: home, User: "me"})
		var typed *ConfigError
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), why) || typed.Hint() == "" {
			t.Errorf("%q: %v; want %q", text, err, why)
		}
	}
}

func TestLoadFiles(t *testing.T) {
	home := t.TempDir()
	missing := filepath.Join(home, "missing")
	if _, err := LoadConfig(Sources{Files: []string{missing}, Home: home}); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("a named file that is missing: %v", err)
	}
	first := writeFile(t, filepath.Join(home, "first"), "Host a\nInclude inc/*.conf nothing-*\nPort 3\nHost b\nPort 5\n")
	second := writeFile(t, filepath.Join(home, "second"), "User second\nPort 9\n")
	writeFile(t, filepath.Join(home, ".ssh", "inc", "1.conf"), "User inner\nHost other\nPort 4\n")
	c, err := LoadConfig(Sources{Files: []string{first, second}, Home: home, User: "me", Agent: "none"})
	if err != nil {
		t.Fatal(err)
	}
	for dest, want := range map[string]string{"a": "inner@a:3", "b": "second@b:5", "c": "second@c:9"} {
		d := resolve(t, c, dest)
		if got := d.User + "@" + d.Address(); got != want {
			t.Errorf("%s is %s, want %s", dest, got, want)
		}
	}
}

func TestMatchBlocks(t *testing.T) {
	c, _, err := loadText(t, "Match exec \"touch /never\"\nPort 1\nMatch originalhost a,b\nPort 2\nMatch all\nPort 3\n")
	if err != nil {
		t.Fatal(err)
	}
	if a, z := resolve(t, c, "a"), resolve(t, c, "z"); a.Port != 2 || z.Port != 3 {
		t.Errorf("ports %d and %d, want 2 and 3", a.Port, z.Port)
	}
	if w := c.Warnings(); len(w) != 1 || !strings.Contains(w[0], ":1: passed over: Match exec") {
		t.Errorf("warnings %q", w)
	}
}

func TestOverrides(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "c"), "Host *\nProxyJump jump\nIdentityFile /user\nUserKnownHostsFile /user\n")
	c, err := LoadConfig(Sources{
		Files: []string{file}, Home: t.TempDir(), User: "me", Agent: "none",
		KnownHosts: []string{"/k"}, Identity: []string{"/i"},
	})
	if err != nil {
		t.Fatal(err)
	}
	d := resolve(t, c, "h")
	for _, got := range []Target{d, *d.Via} {
		if !reflect.DeepEqual(got.KnownHosts, []string{"/k"}) || !reflect.DeepEqual(got.Identities, []Identity{{Path: "/i"}}) || !got.IdentitiesOnly {
			t.Errorf("%s: %+v", got.Name, got)
		}
	}
}

// The real ssh is the judge of what a file means.
func TestResolveLikeSSH(t *testing.T) {
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		t.Skip("ssh is not installed")
	}
	c, home, err := loadText(t, sampleConfig)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, ".ssh", "config")
	for _, dest := range []string{"gpu-1", "gpu-2", "gpu-", "root@gpu-1", "bastion", "direct", "direct-not", "deep", "one", "uno", "UPPER"} {
		out, err := exec.Command(ssh, "-G", "-F", file, "-l", "me", dest).Output()
		if strings.Contains(dest, "@") || err != nil {
			out, err = exec.Command(ssh, "-G", "-F", file, dest).Output()
		}
		if err != nil {
			t.Fatalf("ssh -G %s: %v", dest, err)
		}
		says := make(map[string]string)
		for _, line := range strings.Split(string(out), "\n") {
			k, v, _ := strings.Cut(line, " ")
			if _, dup := says[k]; !dup {
				says[k] = v
			}
		}
		d := resolve(t, c, dest)
		if d.Host != says["hostname"] || strconv.Itoa(d.Port) != says["port"] {
			t.Errorf("%s: %s port %d; ssh says %s port %s", dest, d.Host, d.Port, says["hostname"], says["port"])
		}
		if d.HostKeyAlias != says["hostkeyalias"] {
			t.Errorf("%s: HostKeyAlias %q; ssh says %q", dest, d.HostKeyAlias, says["hostkeyalias"])
		}
		if jumps := says["proxyjump"]; jumps != "" && dest != "bastion" && d.Via == nil {
			t.Errorf("%s: no jump host; ssh says %s", dest, jumps)
		}
	}
}

func FuzzConfig(f *testing.F) {
	for _, line := range append(strings.Split(sampleConfig, "\n"), "=", "\r", "A\\", "Host \"a b\"", "Match", "IdentityFile 'x\\' y'") {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(strings.ToLower(text), "include") {
			return // files of the machine are not part of the input
		}
		c := &Config{src: Sources{Home: "/h", User: "u"}}
		file := &configFile{name: "f", lines: make(map[int]*directive)}
		for i, raw := range strings.Split(text, "\n") {
			shape, err := c.readLine(file, i+1, raw, 0)
			if err != nil {
				var typed *ConfigError
				if !errors.As(err, &typed) || typed.Line != i+1 {
					t.Fatalf("%q: %v does not name line %d", raw, err, i+1)
				}
				return
			}
			if strings.ContainsAny(shape, "\n\r#") {
				t.Fatalf("%q reaches the parser as %q", raw, shape)
			}
		}
	})
}

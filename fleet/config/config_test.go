package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ebb/fleet"
)

func noEnv(string) string { return "" }

func home(name string) string { return map[string]string{"HOME": "/home/kim"}[name] }

func parseFleet(text string) (Fleet, error) {
	var raw rawFleet
	s, err := decode("fleet.toml", []byte(text), &raw)
	if err != nil {
		return Fleet{}, err
	}
	return s.fleet(raw, home, func(p string) bool { return p == "/home/kim/there" })
}

func parseAgent(text string) (Agent, error) {
	var raw rawAgent
	s, err := decode("ebbd.toml", []byte(text), &raw)
	if err != nil {
		return Agent{}, err
	}
	return s.agent(raw)
}

func TestSampleFleetLoads(t *testing.T) {
	f, err := LoadFleet("testdata/fleet.toml")
	if err != nil {
		t.Fatal(err)
	}
	prod, ok := f.Plane("prod")
	if !ok || prod.Type != Postgres || prod.SchedulerCache != 45*time.Second || prod.Statements.Hosts == "" {
		t.Errorf("prod: %+v", prod)
	}
	lab, _ := f.Plane("lab")
	want := []fleet.Host{
		{ID: "lab/bench-1", Address: "bench-1.lab", Labels: map[string]string{"pool": "bench"}, Instance: "i-0a1"},
		{ID: "lab/bench/2", Address: "bench/2"},
	}
	if !reflect.DeepEqual(lab.Hosts, want) || lab.SchedulerCache != 0 {
		t.Errorf("lab: %+v", lab)
	}
	c := f.Classes[0]
	if c.Class != fleet.Stateless || c.Move != 25*time.Minute || c.Grace != 3*time.Minute || c.Match.Label != "app=vllm" || len(c.InFlight.Gauge) != 2 {
		t.Errorf("class: %+v", c)
	}
	if rules := f.Rules(); len(rules) != 2 || !rules[1].Keep || rules[1].Match.Pool != "gpu" || rules[1].Name != "agents stay" {
		t.Errorf("rules: %+v", rules)
	}
	for class, b := range map[fleet.Class]fleet.Budget{
		fleet.Ephemeral: {Grace: time.Minute}, fleet.Stateless: {Move: 20 * time.Minute, Grace: 3 * time.Minute},
		fleet.Pausable: {Move: 15 * time.Minute}, fleet.Durable: {Move: 30 * time.Minute},
		fleet.Stuck: {Grace: 10 * time.Minute}, fleet.Unclassified: {},
	} {
		if f.Budget(class) != b {
			t.Errorf("budget of %s: %+v", class, f.Budget(class))
		}
	}
	if f.Terminate.Type != "command" || f.Limits != (Limits{MovesPerHost: 4, MovesPerTarget: 3, Handshakes: 32}) {
		t.Errorf("%+v %+v", f.Terminate, f.Limits)
	}
	if f.Notices[0].Timeout != 10*time.Second || f.Notices[1].Timeout != 3*time.Second {
		t.Errorf("notices: %+v", f.Notices)
	}
	if f.SSH.KnownHosts != "testdata/known_hosts" || f.SSH.AgentPath != "ebbd" || !f.SSH.Sudo || f.Operators[0].Name != "kim" {
		t.Errorf("%+v %+v", f.SSH, f.Operators)
	}
}

func TestSampleAgentLoads(t *testing.T) {
	a, err := LoadAgent("testdata/ebbd.toml")
	if err != nil {
		t.Fatal(err)
	}
	w := fleet.WorkloadRule{
		Kind: "sandbox", Exe: "firecracker", ID: fleet.IDRule{After: "--id"}, Class: fleet.Pausable, Grace: 90 * time.Second,
		Owns:  map[string]string{"netns": "ns-{id}", "tap": "tap-{id}", "dir": "/var/lib/vms/{id}"},
		Start: "vm-start", Labels: map[string]string{"tier": "free"},
	}
	if !reflect.DeepEqual(a.Workloads, []fleet.WorkloadRule{w}) {
		t.Errorf("%+v", a.Workloads)
	}
	if c := a.Commands["vm-start"]; c.Run[0] != "/usr/lib/vms/start" || c.Timeout != 2*time.Minute || c.User != "vms" {
		t.Errorf("%+v", a.Commands)
	}
	if u := a.System.Units; u[len(u)-1] != "telegraf.service" || len(u) != len(fleet.DefaultSystem().Units)+1 {
		t.Errorf("%v", u)
	}
	if a.Dirs[0] != (fleet.DirRule{Path: "/var/lib/vms/*", Kind: "sandbox", Prefix: "vm-"}) || a.Keep[0].Exe != "dcgm*" {
		t.Errorf("%+v %+v", a.Dirs, a.Keep)
	}
	if a.Caps.Claim != 4 || a.Caps.MoveIn != 2 || a.Caps.Kind["sandbox"] != 20 || a.Roles["cordon"] != (Access{"oncall", 0o660}) {
		t.Errorf("%+v %+v", a.Caps, a.Roles)
	}
	if a.StateDir != "/var/lib/ebb" || a.RunDir != "/run/ebb" || a.CleanGap != 8*time.Second || a.LoopPrefix != "/var/lib/vms" || len(a.HostKeys) != 1 {
		t.Errorf("%+v", a)
	}
	own, err := parseAgent("[system]\nreplace = true\nexes = [\"sshd\"]\n")
	if err != nil || own.System.Units == nil || len(own.System.Units) != 0 || own.System.Exes[0] != "sshd" {
		t.Errorf("replaced: %+v %v", own.System, err)
	}
}

func TestEmptyFilesMeanTheDefaults(t *testing.T) {
	a, err := parseAgent("")
	want := DefaultAgent()
	want.Path = "ebbd.toml"
	if err != nil || !reflect.DeepEqual(a, want) {
		t.Errorf("%+v %v", a, err)
	}
	f, err := parseFleet("[[plane]]\nname = 'p'\ntype = 'postgres'\nurl = 'postgres://h/d'\n")
	if err != nil || f.Planes[0].SchedulerCache != 30*time.Second || f.Journal.URL != "sqlite:/home/kim/.local/state/ebb/journal.db" || f.Terminate.Type != "" {
		t.Errorf("%+v %v", f, err)
	}
}

const plane = "[[plane]]\nname = 'p'\ntype = 'none'\n" // three lines

func TestBadFleet(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"unknown key", plane + "shedule = 1\n", "fleet.toml:4: plane.shedule: unknown key"},
		{"unknown table", plane + "\n[plain]\nx = 1\n", "fleet.toml:5: plain: unknown key"},
		{"wrong type", plane + "scheduler_cache = 30\n", "fleet.toml:4: plane.scheduler_cache: integer, want string"},
		{"table for text", plane + "[journal.url]\n", "fleet.toml:4: journal.url: table, want string"},
		{"text for array", plane + "[terminate]\nrun = 'x'\n", "fleet.toml:5: terminate.run: string, want array"},
		{"text for number", plane + "[limits]\nhandshakes = '8'\n", "fleet.toml:5: limits.handshakes: string, want integer"},
		{"not TOML", plane + "x = = 1\n", "fleet.toml:4: unexpected character U+003D '=' at start of value"},
		{"no plane", "[ssh]\nuser = 'x'\n", "fleet.toml:1: plane: there is none: a fleet needs a [[plane]] that lists its hosts"},
		{"same plane", plane + plane, `fleet.toml:5: plane[1].name: plane "p" stands twice`},
		{"plane with slash", "[[plane]]\nname='a/b'\ntype='none'", `fleet.toml:2: plane[0].name: "a/b": a plane's name without spaces, slashes and unprintable characters, please`},
		{"no name", "\n[[plane]]\ntype='none'", "fleet.toml:2: plane[0].name: a plane's name is missing"},
		{"no type", "[[plane]]\nname='a'", "fleet.toml:1: plane[0].type: is missing: postgres, embedded, none or ssh"},
		{"bad type", "[[plane]]\nname='a'\ntype='mysql'", `fleet.toml:3: plane[0].type: "mysql" is not one of postgres, embedded, none, ssh`},
		{"bad url tells no secret", "[[plane]]\nname='a'\ntype='postgres'\nurl='mysql://u:hunter2@h'", "fleet.toml:4: plane[0].url: want postgres://USER@HOST/DATABASE"},
		{"broken url tells no secret", "[journal]\nurl='postgres://u:hun ter2@h:x'\n" + plane, "fleet.toml:2: journal.url: want postgres://USER@HOST/DATABASE or sqlite:PATH"},
		{"embedded", "[[plane]]\nname='a'\ntype='embedded'\nurl='/x'", "fleet.toml:4: plane[0].url: want sqlite:PATH"},
		{"bad duration", plane + "scheduler_cache = 'soon'\n", `fleet.toml:4: plane[0].scheduler_cache: "soon" is not a duration (as in 90s, 25m, 1h30m)`},
		{"aliases", "[[plane]]\nname='a'\ntype='ssh'", "fleet.toml:1: plane[0].match: is missing: which aliases of ssh_config are hosts of this fleet"},
		{"bad alias", "[[plane]]\nname='a'\ntype='ssh'\nmatch=['ok',\n'[x']", `fleet.toml:5: plane[0].match[1]: "[x" is not a glob`},
		{"same host", plane + "[[plane.host]]\nid='h'\n[[plane.host]]\nid='h'", `fleet.toml:7: plane[0].host[1].id: host "h" stands twice`},
		{"option as address", plane + "[[plane.host]]\nid='h'\naddress='-oProxyCommand=x'", `fleet.toml:6: plane[0].host[0].address: "-oProxyCommand=x" begins with a dash`},
		{"class", plane + "[[class]]\nclass='sturdy'", `fleet.toml:5: class[0].class: "sturdy" is not one of ephemeral, stateless, pausable, durable, stuck`},
		{"no class", plane + "[[class]]\nmove='1m'", "fleet.toml:4: class[0].class: is missing: one of ephemeral, stateless, pausable, durable, stuck, or keep = true"},
		{"class budget", plane + "[[class]]\nclass='stuck'\ngrace='-1m'", `fleet.toml:6: class[0].grace: "-1m": want more than zero`},
		{"glob inline", plane + "[[class]]\nclass='stuck'\nmatch={kind='vm',id='[a'}", `fleet.toml:6: class[0].match.id: "[a" is not a glob`},
		{"key inline", plane + "[[class]]\nclass='stuck'\nmatch={kid='vm'}", "fleet.toml:6: class.kid: unknown key"},
		{"label", plane + "[[class]]\nclass='stuck'\nmatch={label='=x'}", `fleet.toml:6: class[0].match.label: "=x": want KEY or KEY=VALUE`},
		{"plane of a class", plane + "[[class]]\nclass='stuck'\nmatch={plane='q'}", `fleet.toml:6: class[0].match.plane: there is no plane "q" in this file`},
		{"keep everything", plane + "[[class]]\nkeep=true", "fleet.toml:5: class[0].keep: a rule that matches everything would keep everything"},
		{"in flight elsewhere", plane + "[[class]]\nclass='stateless'\nin_flight={url='http://169.254.169.254/',gauge=['g']}", "fleet.toml:6: class[0].in_flight.url: want http://127.0.0.1:PORT/…: the agent reads it on its own host"},
		{"budget", plane + "[budget.sturdy]\nmove='1m'", `fleet.toml:4: budget.sturdy: "sturdy" is not one of ephemeral, stateless, pausable, durable, stuck`},
		{"placeholder", plane + "[terminate]\nrun=['c',\n'{instance}', '{name}']", "fleet.toml:6: terminate.run[2]: placeholder {name} is not known; there are {instance} {host} {id} {pool}"},
		{"no placeholder", plane + "[terminate]\nrun=['c']", "fleet.toml:5: terminate.run: names no host: use {instance}, or {id} where the provider has no other"},
		{"placeholder as command", plane + "[terminate]\nrun=['{id}']", "fleet.toml:5: terminate.run[0]: the command itself can't be a placeholder"},
		{"terminator", plane + "[terminate]\ntype='shred'", `fleet.toml:5: terminate.type: "shred" is not one of command, poweroff, release`},
		{"limit", plane + "[limits]\nhandshakes=0", "fleet.toml:5: limits.handshakes: 0: want at least 1"},
		{"notice", plane + "[[notice]]\ntype='mail'", `fleet.toml:5: notice[0].type: "mail" is not one of webhook, command`},
		{"webhook", plane + "[[notice]]\ntype='webhook'\nurl='hooks'", "fleet.toml:6: notice[0].url: want http://… or https://…"},
		{"missing file", plane + "[ssh]\nconfig='~/there'\nidentity='~/gone'", "fleet.toml:6: ssh.identity: /home/kim/gone: no such file"},
		{"operator", plane + "[[operator]]\nname='kim'\nkey='ssh-rsa AAAA'", "fleet.toml:6: operator[0].key: want one public key, as in an authorized_keys file"},
		{"all at once, by line", plane + "scheduler_cache='x'\n[terminate]\ntype='y'\n", `fleet.toml:4: plane[0].scheduler_cache: "x" is not a duration (as in 90s, 25m, 1h30m)` + "\n" + `fleet.toml:6: terminate.type: "y" is not one of command, poweroff, release`},
	} {
		_, err := parseFleet(tc.text)
		if err == nil || err.Error() != tc.want {
			t.Errorf("%s:\n got %v\nwant %s", tc.name, err, tc.want)
		}
	}
}

func TestBadAgent(t *testing.T) {
	const w = "[[workload]]\nkind='vm'\nexe='fc'\nid={after='--id'}\n" // four lines
	for _, tc := range []struct{ name, text, want string }{
		{"unknown key", "\npresets=['systemd']", "ebbd.toml:2: presets: unknown key"},
		{"wrong type", "preset='systemd'", "ebbd.toml:1: preset: string, want array"},
		{"preset", "preset=['systemd',\n'runit']", `ebbd.toml:2: preset[1]: "runit" is not one of manifest, systemd, firecracker, docker`},
		{"no manifests", "preset=['manifest']", `ebbd.toml:1: preset: "manifest" needs manifests = [DIRECTORY…]`},
		{"relative manifests", "manifests=['etc']", `ebbd.toml:1: manifests[0]: "etc": want an absolute path`},
		{"kind", "[[workload]]\nkind='loop'\nexe='x'\nid={env='A'}", `ebbd.toml:2: workload[0].kind: "loop" is not a kind of workload`},
		{"two ids", "[[workload]]\nkind='vm'\nexe='x'\nid={env='A',after='b'}", "ebbd.toml:4: workload[0].id: want exactly one of after, prefix, cgroup, env"},
		{"every process", "[[workload]]\nkind='vm'\nid={env='A'}", "ebbd.toml:1: workload[0]: matches every process: name an exe, a token or a cgroup"},
		{"exe", "[[workload]]\nkind='vm'\nexe='/bin/x'\nid={env='A'}", `ebbd.toml:3: workload[0].exe: "/bin/x": want the base name of the executable`},
		{"class", w + "class='sturdy'", `ebbd.toml:5: workload[0].class: "sturdy" is not one of ephemeral, stateless, pausable, durable, stuck`},
		{"grace", w + "grace='1 m'", `ebbd.toml:5: workload[0].grace: "1 m" is not a duration (as in 90s, 25m, 1h30m)`},
		{"owns what", w + "owns={file='/x/{id}'}", `ebbd.toml:5: workload[0].owns.file: "file" is not one of netns, tap, dir, loop`},
		{"owns all", w + "owns={netns='ns'}", `ebbd.toml:5: workload[0].owns.netns: "ns" has no {id}: every workload would own the same`},
		{"owns by", w + "owns={netns='ns-{id}-{kind}'}", "ebbd.toml:5: workload[0].owns.netns: placeholder {kind} is not known; there are {id}"},
		{"owns relative", w + "owns={dir='{id}'}", `ebbd.toml:5: workload[0].owns.dir: "{id}": want an absolute path`},
		{"no command", w + "start='go'", `ebbd.toml:5: workload[0].start: there is no [[command]] "go"`},
		{"relative command", "[[command]]\nname='a'\nrun=['sh','-c']", `ebbd.toml:3: command[0].run[0]: "sh": want an absolute path`},
		{"command fills in", "[[command]]\nname='a'\nrun=['/bin/x',\n'{id}']", "ebbd.toml:4: command[0].run[1]: nothing is filled in here; the command finds EBB_KIND and EBB_ID in its environment"},
		{"no run", "[[command]]\nname='a'", "ebbd.toml:1: command[0].run: is missing: an absolute path and its arguments"},
		{"same command", "[[command]]\nname='a'\nrun=['/x']\n[[command]]\nname='a'\nrun=['/x']", `ebbd.toml:5: command[1].name: command "a" stands twice`},
		{"keep all", "[[keep]]", "ebbd.toml:1: keep[0]: would keep everything: name a kind, id, exe or unit"},
		{"keep glob", "[[keep]]\nunit='[x'", `ebbd.toml:2: keep[0].unit: "[x" is not a glob`},
		{"system all", "[system]\nexes=['*']", `ebbd.toml:2: system.exes[0]: "*" would hide everything`},
		{"dir", "[[dir]]\npath='/v/../x'\nkind='vm'", `ebbd.toml:2: dir[0].path: "/v/../x": want a path without ..`},
		{"caps", "[caps]\nclaim=-1", "ebbd.toml:2: caps.claim: -1: want 0 (no bound) or more"},
		{"role", "[roles]\n\nroot={group='wheel'}", `ebbd.toml:3: roles.root: "root" is not one of observe, cordon, operate, terminate, admission`},
		{"mode", "[roles.observe]\nmode='rw'", `ebbd.toml:2: roles.observe.mode: "rw" is not a file mode (as in "0660")`},
		{"open mode", "[roles.terminate]\nmode='0666'", `ebbd.toml:2: roles.terminate.mode: "0666" would let anyone terminate`},
		{"state", "state_dir='ebb'", `ebbd.toml:1: state_dir: "ebb": want an absolute path`},
		{"gap", "clean_gap='0s'", `ebbd.toml:1: clean_gap: "0s": want more than zero`},
	} {
		_, err := parseAgent(tc.text)
		if err == nil || err.Error() != tc.want {
			t.Errorf("%s:\n got %v\nwant %s", tc.name, err, tc.want)
		}
	}
}

func TestMissingFileIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.toml")
	for _, load := range []func(string) error{
		func(p string) error { _, err := LoadFleet(p); return err },
		func(p string) error { _, err := LoadAgent(p); return err },
	} {
		if err := load(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v", err)
		}
	}
}

func TestDefaultPaths(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	for _, tc := range []struct {
		env  func(string) string
		want string
	}{
		{env("EBB_CONFIG", "x.toml", "HOME", "/h"), "x.toml"},
		{env("XDG_CONFIG_HOME", "/c", "HOME", "/h"), "/etc/ebb/fleet.toml /c/ebb/fleet.toml"},
		{env("XDG_CONFIG_HOME", "rel", "HOME", "/h"), "/etc/ebb/fleet.toml /h/.config/ebb/fleet.toml"},
		{noEnv, "/etc/ebb/fleet.toml"},
	} {
		if got := strings.Join(DefaultFleetPaths(tc.env), " "); got != tc.want {
			t.Errorf("%s, want %s", got, tc.want)
		}
	}
	if _, err := DefaultJournal(noEnv); err == nil {
		t.Error("a journal without a home")
	}
	if got, _ := DefaultJournal(env("XDG_STATE_HOME", "/s")); got != "sqlite:/s/ebb/journal.db" {
		t.Error(got)
	}
}

func TestTerminateArgv(t *testing.T) {
	run := Terminate{Type: "command", Run: []string{"cloudctl", "--id={instance}", "{host}", "{id}/{pool}"}}
	h := fleet.Host{ID: "prod/gpu-041", Instance: "i-1", Labels: map[string]string{"pool": "{id}"}}
	got, err := run.Argv(h)
	if want := []string{"cloudctl", "--id=i-1", "prod/gpu-041", "gpu-041/{id}"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q %v", got, err)
	}
	for name, spoil := range map[string]func(*fleet.Host){
		"no instance": func(h *fleet.Host) { h.Instance = "" },
		"no pool":     func(h *fleet.Host) { h.Labels = nil },
		"option":      func(h *fleet.Host) { h.ID = "-rf/x" },
		"newline":     func(h *fleet.Host) { h.Instance = "i\n" },
	} {
		bad := h
		spoil(&bad)
		if argv, err := run.Argv(bad); err == nil {
			t.Errorf("%s: %q", name, argv)
		}
	}
}

func FuzzFleet(f *testing.F) {
	sample, err := os.ReadFile("testdata/fleet.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(sample))
	f.Add(plane + "[terminate]\nrun=['a','{id}']")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseFleet(text)
		located(t, "fleet.toml:", err)
		if err == nil && len(got.Planes) == 0 {
			t.Fatal("a fleet without planes")
		}
	})
}

func FuzzAgent(f *testing.F) {
	sample, err := os.ReadFile("testdata/ebbd.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(sample))
	f.Add("[[workload]]\nkind='vm'\nexe='fc'\nid={after='--id'}")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseAgent(text)
		located(t, "ebbd.toml:", err)
		for name, c := range got.Commands {
			if len(c.Run) == 0 || !filepath.IsAbs(c.Run[0]) {
				t.Fatalf("command %q runs %q", name, c.Run)
			}
		}
	})
}

// located wants every mistake to name the file and a line.
func located(t *testing.T, prefix string, err error) {
	var bad *Error
	if err != nil && (!errors.As(err, &bad) || bad.Line < 1 || !strings.HasPrefix(err.Error(), prefix)) {
		t.Fatalf("%v", err)
	}
}

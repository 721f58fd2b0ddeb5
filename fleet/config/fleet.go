package config

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"ebb/fleet"
)

// Fleet is fleet.toml.
type Fleet struct {
	Path      string // of the file
	Journal   Journal
	Planes    []Plane
	Classes   []Class
	Budgets   map[fleet.Class]fleet.Budget // of every class: Defaults with the file's [budget.CLASS] over it
	Terminate Terminate
	Limits    Limits
	Notices   []Notice
	SSH       SSH
	Operators []Operator
	Levers    []Lever // programs that carry strategies out
	// Speed divides every duration of a drain. It is for fleets of scoped agents
	// only (demos and tests): a host whose agent is not scoped is not drained by a
	// console with a speed above 1.
	Speed float64
}

// Journal is where drains are recorded: "sqlite:PATH" or a postgres URL.
type Journal struct{ URL string }

// PlaneType is a kind of control plane.
type PlaneType string

// The types of plane. None has its hosts in the file; SSH takes the aliases of
// ssh_config that match. Neither has a scheduler, nor claims of its own.
const (
	Postgres PlaneType = "postgres"
	Embedded PlaneType = "embedded"
	None     PlaneType = "none"
	SSHHosts PlaneType = "ssh"
)

// Plane is one control plane.
type Plane struct {
	Name string // unique, without slash: hosts are called NAME/ID
	Type PlaneType
	URL  string // postgres: URL; embedded: "sqlite:PATH"
	// SchedulerCache is how long the plane's scheduler may act on an old view of
	// a host; a cordon is proved only after it.
	SchedulerCache time.Duration
	Statements     Statements
	Hosts          []fleet.Host // of none and ssh; ids are complete (plane/id)
	Match          []string     // of ssh: globs of ssh_config aliases
}

// Statements are SQL texts in place of the plane's own ones; empty keeps those.
type Statements struct {
	Hosts    string `toml:"hosts"`
	Claims   string `toml:"claims"`
	Flag     string `toml:"flag"`
	Unflag   string `toml:"unflag"`
	Eligible string `toml:"eligible"`
	Settle   string `toml:"settle"`
	Move     string `toml:"move"`
	Rest     string `toml:"rest"`
}

// Limits bound what runs at once.
type Limits struct {
	MovesPerHost   int `toml:"moves_per_host"`
	MovesPerTarget int `toml:"moves_per_target"`
	Handshakes     int `toml:"handshakes"` // SSH handshakes
}

// Notice is a receiver of notices: a webhook that takes JSON by POST, or a
// command that takes it on standard input.
type Notice struct {
	Type    string // "webhook" or "command"
	URL     string
	Run     []string
	Timeout time.Duration
}

// SSH says how hosts are reached. Empty fields leave it to the usual places
// under ~/.ssh and /etc/ssh.
type SSH struct {
	Config     string
	KnownHosts string
	Identity   string
	User       string
	AgentPath  string // of ebbd on the hosts, default "ebbd"
	Sudo       bool   // run it through sudo
}

// Operator is a person whose signed asks are obeyed.
type Operator struct {
	Name string `toml:"name"`
	Key  string `toml:"key"` // public key in authorized_keys form
}

// Budget is what a workload of the class is given where no rule says otherwise.
func (f Fleet) Budget(c fleet.Class) fleet.Budget { return f.Budgets[c] }

// Rules are the class rules, in order.
func (f Fleet) Rules() []fleet.ClassRule {
	rules := make([]fleet.ClassRule, len(f.Classes))
	for i, c := range f.Classes {
		rules[i] = c.ClassRule
	}
	return rules
}

// Plane finds a plane by name.
func (f Fleet) Plane(name string) (Plane, bool) {
	for _, p := range f.Planes {
		if p.Name == name {
			return p, true
		}
	}
	return Plane{}, false
}

// DefaultFleetPaths lists where fleet.toml may stand, in the order in which
// they count: the last that exists is used, whole, so that a person's own file
// goes before the machine's. $EBB_CONFIG alone counts where it is set.
func DefaultFleetPaths(env func(string) string) []string {
	if p := env("EBB_CONFIG"); p != "" {
		return []string{p}
	}
	paths := []string{"/etc/ebb/fleet.toml"}
	if dir := env("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return append(paths, filepath.Join(dir, "ebb", "fleet.toml"))
	}
	if home := env("HOME"); home != "" {
		paths = append(paths, filepath.Join(home, ".config", "ebb", "fleet.toml"))
	}
	return paths
}

// DefaultJournal is the journal of a console that shares none.
func DefaultJournal(env func(string) string) (string, error) {
	dir := env("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		home := env("HOME")
		if home == "" {
			return "", errors.New("no [journal] url, and neither XDG_STATE_HOME nor HOME is set")
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return "sqlite:" + filepath.Join(dir, "ebb", "journal.db"), nil
}

// LoadFleet reads fleet.toml.
func LoadFleet(path string) (Fleet, error) {
	var raw rawFleet
	s, err := read(path, &raw)
	if err != nil {
		return Fleet{}, err
	}
	return s.fleet(raw, os.Getenv, func(p string) bool { _, err := os.Stat(p); return err == nil })
}

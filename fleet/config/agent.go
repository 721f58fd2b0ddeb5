package config

import (
	"io/fs"
	"time"

	"ebb/fleet"
)

// Agent is ebbd.toml.
type Agent struct {
	Path      string // of the file; empty for the defaults
	Presets   []string
	Workloads []fleet.WorkloadRule
	Commands  map[string]Command
	Keep      []fleet.KeepRule
	System    fleet.SystemRules // the defaults with the file's own added, or in their place
	Dirs      []fleet.DirRule
	Manifests []string // directories of the preset "manifest"
	Caps      Caps
	Offer     fleet.Offer       // what the host can take, for whoever places moves
	Roles     map[string]Access // by role; what is not there has the defaults
	StateDir  string
	RunDir    string
	HostKeys  []string // globs of private SSH host keys
	NVML      string   // path of ebbd-nvml; empty looks beside ebbd
	// LoopPrefix is the directory below which backing files of loop devices
	// belong to workloads.
	LoopPrefix string
	// CleanGap is how far apart the two reads before a cleaning lie at least.
	CleanGap time.Duration
}

// Command is something that the agent runs when an act names it. Its arguments
// stand here and nowhere else: nothing that comes over the wire is put into
// them. A command that must know for which workload it runs finds its kind and
// id in the environment, as EBB_KIND and EBB_ID.
type Command struct {
	Run     []string // Run[0] is an absolute path
	Timeout time.Duration
	User    string // who runs it; empty: whoever the agent is
}

// Caps bound what a host that takes work takes; zero is no bound. Claim and
// MoveIn count what is admitted at once by these operations (claims include
// forks and restores), Total the workloads on the host, Kind those of one kind.
type Caps struct {
	Claim  int            `toml:"claim"`
	MoveIn int            `toml:"move_in"`
	Total  int            `toml:"total"`
	Kind   map[string]int `toml:"kind"`
}

// Access is who may use the socket of a role.
type Access struct {
	Group string      // name or number; empty: the agent's own
	Mode  fs.FileMode // zero: 0660
}

// presets are the workload recognisers that can be named in "preset".
var presets = []string{"manifest", "systemd", "firecracker", "docker"}

// roles are those of the wire protocol.
var roles = []string{"observe", "cordon", "operate", "terminate", "admission"}

// DefaultAgent is an agent without a configuration file: it recognises nothing,
// so that everything but the host's own is unattributed.
func DefaultAgent() Agent {
	return Agent{
		Commands: map[string]Command{}, Roles: map[string]Access{}, System: fleet.DefaultSystem(),
		StateDir: "/var/lib/ebb", RunDir: "/run/ebb",
		HostKeys: []string{"/etc/ssh/ssh_host_*_key"},
		CleanGap: 5 * time.Second,
	}
}

// LoadAgent reads ebbd.toml.
func LoadAgent(path string) (Agent, error) {
	var raw rawAgent
	s, err := read(path, &raw)
	if err != nil {
		return Agent{}, err
	}
	return s.agent(raw)
}

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ebb/fleet/config"
	"ebb/probes"
	"ebb/probes/agent"
	"ebb/probes/wire"
)

// hostFlags say which host this is: normally the machine itself, else one that
// lives below a directory.
type hostFlags struct {
	root   string
	config string
	scope  string
	speed  float64
}

func (h *hostFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&h.root, "root", "", "directory in which everything of the host lies")
	cmd.Flags().StringVar(&h.config, "config", "", "configuration file (default /etc/ebb/ebbd.toml below the root)")
}

func (h *hostFlags) registerScope(cmd *cobra.Command) {
	cmd.Flags().StringVar(&h.scope, "scope", "", "argv token that limits which processes are this host's")
}

// host is a host as its files say.
type host struct {
	flags    hostFlags
	files    probes.Root
	conf     config.Agent
	stateDir string
	runDir   string
}

const defaultConfig = "/etc/ebb/ebbd.toml"

// load reads the configuration. Only one that was not asked for by name may be
// missing.
func (h hostFlags) load() (host, error) {
	out, err := h.find()
	if err != nil {
		return host{}, err
	}
	return out, nil
}

// find is load for whoever only needs the agent's sockets: with an error it
// still returns the host as it is without its configuration. A mistake in a
// file must not keep anybody from a running agent.
func (h hostFlags) find() (host, error) {
	if h.root != "" {
		abs, err := filepath.Abs(h.root)
		if err != nil {
			return host{}, err
		}
		h.root = abs
	}
	out := host{flags: h, files: probes.Root{Dir: h.root, Scope: h.scope}}
	if h.root != "" && (h.scope != "" || !hasProcesses(filepath.Join(h.root, "proc"))) {
		out.files.Proc = "/proc"
	}
	path := h.config
	if path == "" {
		path = out.files.Path(defaultConfig)
	}
	conf, err := config.LoadAgent(path)
	if errors.Is(err, fs.ErrNotExist) && h.config == "" {
		conf, err = config.DefaultAgent(), nil
	}
	if err != nil {
		conf = config.DefaultAgent()
	}
	out.conf = conf
	out.stateDir, out.runDir = out.files.Path(conf.StateDir), out.files.Path(conf.RunDir)
	return out, err
}

func hasProcesses(proc string) bool {
	_, err := os.Stat(filepath.Join(proc, "self"))
	return err == nil
}

func (h host) prober() *probes.Prober {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	nvml := h.conf.NVML
	if nvml == "" {
		if beside := filepath.Join(filepath.Dir(self), "ebbd-nvml"); exists(beside) {
			nvml = beside
		}
	}
	var prefix []string
	if h.conf.LoopPrefix != "" {
		prefix = []string{h.files.Path(h.conf.LoopPrefix)}
	}
	return probes.New(probes.Config{
		Root: h.files, System: h.conf.System, Keep: h.conf.Keep, Workloads: h.conf.Workloads, Presets: h.conf.Presets,
		ManifestDirs: h.conf.Manifests, Dirs: h.conf.Dirs, LoopPrefix: prefix, NVML: nvml, Self: []string{self},
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// identity is which machine and boot this is.
func (h host) identity() (machine, boot string, booted time.Time, err error) {
	machine, boot, booted, err = probes.New(probes.Config{Root: h.files}).Identity()
	if err != nil {
		err = fmt.Errorf("identify this host: %w", err)
	}
	return machine, boot, booted, err
}

func (h host) sockets() (map[wire.Role]agent.Socket, error) {
	out := map[wire.Role]agent.Socket{}
	for name, access := range h.conf.Roles {
		s := agent.Socket{Mode: access.Mode, GID: -1}
		if s.Mode == 0 {
			s.Mode = 0o660
		}
		if access.Group != "" {
			gid, err := groupID(access.Group)
			if err != nil {
				return nil, fmt.Errorf("role %s: %w", name, err)
			}
			s.GID = gid
		}
		out[wire.Role(name)] = s
	}
	return out, nil
}

func groupID(name string) (int, error) {
	if n, err := strconv.Atoi(name); err == nil {
		return n, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(g.Gid)
}

func (h host) socket(role wire.Role) string { return filepath.Join(h.runDir, role.Socket()) }

// caller is this process, as far as it can say itself.
func (c command) caller(role wire.Role) agent.Caller {
	return agent.Caller{
		UID: os.Getuid(), PID: os.Getpid(), SudoUID: c.env("SUDO_UID"), Role: role,
		Claimed: wire.Claimed{Operator: c.operator(), SSH: c.env("SSH_CONNECTION")},
	}
}

func (c command) operator() string {
	if o := c.env("EBB_OPERATOR"); o != "" {
		return o
	}
	name, _ := os.Hostname()
	who := c.env("USER")
	if who == "" {
		who = strconv.Itoa(os.Getuid())
	}
	return strings.TrimSuffix(who+"@"+name, "@")
}

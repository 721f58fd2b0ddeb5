package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"ebb/probes"
	"ebb/probes/agent"
	"ebb/probes/wire"
)

func (c command) serve() *cobra.Command {
	var h hostFlags
	cmd := &cobra.Command{
		Use: "serve", Short: "run the agent", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if h.speed != 0 && h.scope == "" {
				return &exit{status: 2, err: errors.New("--speed is for scoped agents only")}
			}
			return c.runAgent(cmd.Context(), h)
		},
	}
	h.register(cmd)
	h.registerScope(cmd)
	cmd.Flags().Float64Var(&h.speed, "speed", 0, "divides configured durations (with --scope only)")
	return cmd
}

// prober adapts the probes to the agent.
type prober struct{ *probes.Prober }

func (p prober) Scan(ctx context.Context, now time.Time) agent.Readings {
	return agent.Readings(p.Prober.Scan(ctx, now))
}

func (p prober) Look(ctx context.Context, now time.Time) agent.Readings {
	return agent.Readings(p.Prober.Look(ctx, now))
}

// gcPercent trades a little time for memory: what one scan leaves behind is many
// times what stays.
const gcPercent = 40

func (c command) runAgent(ctx context.Context, flags hostFlags) error {
	if c.env("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cfg, err := c.agentConfig(flags, cancel)
	if err != nil {
		return err
	}
	a, err := agent.New(cfg)
	if err != nil {
		return err
	}
	listeners, err := agent.Listen(cfg)
	if err != nil {
		a.Close()
		return err
	}
	f := a.Facts()
	cfg.Log.Info("serving", "machine", f.Machine, "cordoned", f.Holds.Cordon != nil, "draining", f.Holds.Drain != nil, "unheld", f.Unheld)
	if err := c.notifyReady(); err != nil {
		cfg.Log.Warn("systemd could not be told", "error", err)
	}
	return a.Run(ctx, listeners)
}

func (c command) agentConfig(flags hostFlags, cancel func()) (agent.Config, error) {
	h, err := flags.load()
	if err != nil {
		return agent.Config{}, err
	}
	machine, boot, booted, err := h.identity()
	if err != nil {
		return agent.Config{}, err
	}
	sockets, err := h.sockets()
	if err != nil {
		return agent.Config{}, err
	}
	name, _ := os.Hostname()
	proc := h.files.Proc
	if proc == "" {
		proc = h.files.Path("/proc")
	}
	cfg := agent.Config{
		Version: versionText(), Machine: machine, Boot: boot, BootedAt: booted, Hostname: name,
		Scope: h.flags.scope, Speed: h.flags.speed, StateDir: h.stateDir, LockWait: 3 * time.Second, RunDir: h.runDir,
		Proc: proc, Netns: h.files.Path("/run/netns"), Path: h.files.Path,
		Sockets: sockets, Commands: h.conf.Commands, Caps: h.conf.Caps, Offer: h.conf.Offer, HostKeys: h.conf.HostKeys, CleanGap: h.conf.CleanGap,
		Prober: prober{h.prober()}, Poweroff: poweroff,
		Log: slog.New(slog.NewTextHandler(c.err, nil)),
	}
	if cfg.Scope != "" {
		// The answer goes out first; then this agent, and nothing else, ends.
		cfg.Poweroff = func() error {
			time.AfterFunc(200*time.Millisecond, cancel)
			return nil
		}
	}
	return cfg, nil
}

// poweroff begins to end the machine.
func poweroff() error {
	if exists("/run/systemd/system") {
		if out, err := exec.Command("systemctl", "--no-block", "poweroff").CombinedOutput(); err != nil {
			return fmt.Errorf("systemctl poweroff: %w: %s", err, out)
		}
		return nil
	}
	if os.Getpid() != 1 && os.Getuid() != 0 {
		return errors.New("power off: not root")
	}
	time.AfterFunc(500*time.Millisecond, func() {
		unix.Sync()
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	})
	return nil
}

// notifyReady tells systemd that the sockets are there and the holds are held.
func (c command) notifyReady() error {
	path := c.env("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte("READY=1"))
	return err
}

var _ agent.Prober = prober{}

// roles as a sentence, for help texts.
func roleNames() string {
	text := ""
	for i, r := range wire.Roles {
		if i > 0 {
			text += ", "
		}
		text += string(r)
	}
	return text
}

package station

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/cmd/version"
	"ebb/drain/engine"
	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/fleet/observe"
	"ebb/fleet/sshlink"
	"ebb/probes/client"
	"ebb/probes/wire"
)

// agents keeps one channel for each host and role, opened when it is first
// needed and again after it has ended.
type agents struct {
	cfg      config.Fleet
	pool     *sshlink.Pool
	host     func(context.Context, fleet.HostID) (fleet.Host, error)
	operator string
	dialer   dialer // over SSH, but for benchmarks
	short    dialer // a way that costs the host less, for looking at it; nil: none

	mu       sync.Mutex
	channels map[channelKey]*channel
}

// dialer opens a stream to an agent, and says by which host key its host is known.
type dialer func(ctx context.Context, address string, role wire.Role) (net.Conn, ssh.PublicKey, error)

type channelKey struct {
	address string
	role    wire.Role
}

// channel is one channel and the lock under which it is opened.
type channel struct {
	mu     sync.Mutex
	client *client.Client
	key    ssh.PublicKey
	used   time.Time                   // when it was last asked for
	idle   *time.Timer                 // nil for those that stay open
	seen   atomic.Pointer[fleet.Facts] // by the last watch: the next one asks for what has changed since
}

func openPool(cfg config.Fleet) (*sshlink.Pool, error) {
	opt := sshlink.Options{Handshakes: cfg.Limits.Handshakes}
	if cfg.SSH.Config != "" {
		opt.Files = []string{cfg.SSH.Config}
	}
	if cfg.SSH.KnownHosts != "" {
		opt.KnownHosts = []string{cfg.SSH.KnownHosts}
	}
	if cfg.SSH.Identity != "" {
		opt.Identity = []string{cfg.SSH.Identity}
	}
	opt.User = cfg.SSH.User
	return sshlink.New(opt)
}

func newAgents(cfg config.Fleet, pool *sshlink.Pool, host func(context.Context, fleet.HostID) (fleet.Host, error), operator string) *agents {
	a := &agents{cfg: cfg, pool: pool, host: host, operator: operator, channels: map[channelKey]*channel{}}
	a.dialer = a.byCommand
	if a.plain() {
		a.short = a.throughSSHD
	}
	return a
}

func addressOf(h fleet.Host) string { return cmp.Or(h.Address, h.ID.Name()) }

func (a *agents) channel(h fleet.Host, role wire.Role) *channel {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := channelKey{addressOf(h), role}
	if a.channels[k] == nil {
		a.channels[k] = &channel{}
	}
	return a.channels[k]
}

// open returns the channel to an address for a role.
func (a *agents) open(ctx context.Context, h fleet.Host, role wire.Role) (*client.Client, ssh.PublicKey, error) {
	c := a.channel(h, role)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = time.Now()
	if c.client != nil {
		select {
		case <-c.client.Done():
			_ = c.client.Close()
			c.client = nil
		default:
			return c.client, c.key, nil
		}
	}
	cl, key, err := a.dial(ctx, addressOf(h), role)
	if err != nil {
		return nil, nil, a.explain(h, err)
	}
	c.client, c.key = cl, key
	if role == wire.Cordon || role == wire.Operate {
		c.idle = time.AfterFunc(idleAfter, c.closeIdle)
	}
	return cl, key, nil
}

// idleAfter is how long a channel for acts stays open with nothing to do. A host
// that drains is looked at all the time and told something a few times: with a
// thousand of them, what is open for the next word is most of an engine's memory,
// and as many processes on the hosts. Whoever has a channel uses it at once.
const idleAfter = 20 * time.Second

func (c *channel) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		return
	}
	if left := idleAfter - time.Since(c.used); left > 0 || c.client.Busy() {
		c.idle.Reset(max(left, idleAfter/4))
		return
	}
	_ = c.client.Close()
	c.client = nil
}

// reachWithin bounds how long a host is tried before it counts as unreachable.
// Without it whoever has all the time in the world would wait for ever, and a
// drain would not see its own deadline.
const reachWithin = 20 * time.Second

// shortWithin bounds how long the short way is tried: an agent from before there
// was one says nothing to who comes by it.
const shortWithin = 5 * time.Second

// dial opens a channel to the agent, with the host key that the handshake showed.
// Where sshd lets us through to the socket for reading, nothing is started on the
// host: that is most of what looking at a fleet would cost it. Else, and for all
// that is recorded with what sshd says about the caller, the agent's end of the
// channel is run there. That also finds out what is wrong.
func (a *agents) dial(ctx context.Context, address string, role wire.Role) (*client.Client, ssh.PublicKey, error) {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	if role == wire.Observe && a.short != nil {
		brief, cancel := context.WithTimeout(ctx, shortWithin)
		defer cancel()
		if cl, key, err := a.greet(brief, a.short, address, role); err == nil {
			return cl, key, nil
		}
	}
	return a.greet(ctx, a.dialer, address, role)
}

func (a *agents) greet(ctx context.Context, dial dialer, address string, role wire.Role) (*client.Client, ssh.PublicKey, error) {
	var key ssh.PublicKey
	cl, err := client.Dial(ctx, func(ctx context.Context) (stream net.Conn, err error) {
		stream, key, err = dial(ctx, address, role)
		return stream, err
	}, client.Options{Role: role, Version: version.Version, Operator: a.operator})
	return cl, key, err
}

// byCommand runs the agent's end of a channel on the host.
func (a *agents) byCommand(ctx context.Context, address string, role wire.Role) (net.Conn, ssh.PublicKey, error) {
	conn, err := a.pool.Conn(ctx, address)
	if err != nil {
		return nil, nil, err
	}
	stream, err := conn.Exec(ctx, a.command(role))
	if err != nil {
		return nil, nil, err
	}
	return stream.NetConn(), conn.HostKey(), nil
}

// defaultAgent is found by the PATH of whoever logs in.
const defaultAgent = "ebbd"

// plain reports whether the agent is where it is by default, and reached as whoever
// logs in.
func (a *agents) plain() bool {
	return !a.cfg.SSH.Sudo && cmp.Or(a.cfg.SSH.AgentPath, defaultAgent) == defaultAgent
}

// throughSSHD connects to the agent's socket and asks the agent who it is.
func (a *agents) throughSSHD(ctx context.Context, address string, role wire.Role) (net.Conn, ssh.PublicKey, error) {
	conn, err := a.pool.Conn(ctx, address)
	if err != nil {
		return nil, nil, err
	}
	stream, err := conn.DialUnix(ctx, path.Join(wire.RunDir, role.Socket()))
	if err != nil {
		return nil, nil, err
	}
	if err := wire.WritePreface(stream, wire.Preface{Hello: true}); err != nil {
		stream.Close()
		return nil, nil, err
	}
	return stream, conn.HostKey(), nil
}

// command is what runs on the host, in its user's shell.
func (a *agents) command(role wire.Role) string {
	words := []string{quote(cmp.Or(a.cfg.SSH.AgentPath, defaultAgent)), "dial-stdio", "--role", string(role)}
	if a.cfg.SSH.Sudo {
		words = append([]string{"sudo", "-n"}, words...)
	}
	return strings.Join(words, " ")
}

// quote protects a word from the remote shell.
func quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// explain adds what to type next to an error of connecting.
func (a *agents) explain(h fleet.Host, err error) error {
	text := fmt.Errorf("reach %s: %w", h.ID.Name(), err)
	if errors.Is(err, client.ErrNotInstalled) {
		return &HintError{Err: text, Next: "ebb agent install " + h.ID.Name()}
	}
	if hint := hintOf(err); hint != "" {
		return &HintError{Err: text, Next: hint}
	}
	return text
}

// hintOf finds what to type next in an error's chain.
func hintOf(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// observe opens the channel that a fleet is watched through.
func (a *agents) observe(ctx context.Context, h fleet.Host) (observe.Agent, error) {
	cl, _, err := a.open(ctx, h, wire.Observe)
	if err != nil {
		return nil, err
	}
	return watched{cl, a.channel(h, wire.Observe)}, nil
}

// watched is a client as the observer wants it.
type watched struct {
	*client.Client
	channel *channel
}

func (w watched) Watch(ctx context.Context, fn func(fleet.Facts) error) error {
	var have fleet.Facts
	if seen := w.channel.seen.Load(); seen != nil {
		have = *seen
	}
	return w.Client.Watch(ctx, have, func(f fleet.Facts) error {
		w.channel.seen.Store(&f)
		return fn(f)
	})
}

// Agent implements engine.Agents.
func (a *agents) Agent(ctx context.Context, id fleet.HostID, role engine.Role) (engine.Agent, error) {
	h, err := a.host(ctx, id)
	if err != nil {
		return nil, err
	}
	cl, key, err := a.open(ctx, h, wire.Role(role))
	if err != nil {
		return nil, err
	}
	return &agent{client: cl, key: key, speed: a.cfg.Speed}, nil
}

func (a *agents) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.channels {
		c.mu.Lock()
		if c.idle != nil {
			c.idle.Stop()
		}
		if c.client != nil {
			_ = c.client.Close()
			c.client = nil
		}
		c.mu.Unlock()
	}
}

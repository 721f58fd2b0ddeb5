package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Options say what a lab has.
type Options struct {
	Name    string
	Plane   string   // URL of the database with the control plane's tables
	Journal string   // URL of the journal's database
	Hosts   []string // names
	Systemd []string // names of hosts that boot systemd, without an agent
	Config  string   // more of fleet.toml
}

// Lab is a fleet with its control plane, its journal and one operator.
type Lab struct {
	Dir     string
	Plane   string
	Journal string
	Hosts   map[string]*Host

	extra  string
	public ssh.PublicKey
	via    map[string]string // jump hosts
	at     map[string]string // where a name leads instead of to its own host
	routes map[string]string // host:port by which a host is reached, where that is not its own
	follow sync.WaitGroup
	stop   context.CancelFunc
	ctx    context.Context // ends with Close: the platform's watching ends with it
}

var numbers atomic.Int32

// New starts a lab. The caller closes it.
func New(ctx context.Context, o Options) (*Lab, error) {
	l := &Lab{Dir: filepath.Join(fsDir(), o.Name), Plane: o.Plane, Journal: o.Journal, extra: o.Config,
		Hosts: map[string]*Host{}, via: map[string]string{}, at: map[string]string{}, routes: map[string]string{}}
	l.ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := os.MkdirAll(filepath.Join(l.Dir, "home"), 0o755); err != nil {
		return nil, err
	}
	private, public, err := newKey()
	if err != nil {
		return nil, err
	}
	l.public = public
	if err := os.WriteFile(l.File("key"), []byte(private), 0o600); err != nil {
		return nil, err
	}
	for i, name := range slices.Concat(o.Hosts, o.Systemd) {
		h, err := l.newHost(name, int(numbers.Add(1)), i >= len(o.Hosts))
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", name, err)
		}
		l.Hosts[name] = h
	}
	if err := l.configure(); err != nil {
		return nil, err
	}
	if err := l.boot(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// boot starts all hosts at once and lists them in the control plane.
func (l *Lab) boot(ctx context.Context) error {
	errs := make(chan error, len(l.Hosts))
	for _, h := range l.Hosts {
		go func() { errs <- h.Boot(ctx) }()
	}
	var all []error
	for range l.Hosts {
		all = append(all, <-errs)
	}
	if err := errors.Join(all...); err != nil {
		return err
	}
	for name := range l.Hosts {
		labels := fmt.Sprintf(`{"pool": "gpu", "instance": "i-%s"}`, name)
		if err := l.SQL(ctx, `insert into agents (id, address, labels) values ($1, $1, $2)`, name, labels); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the lab's hosts.
func (l *Lab) Close() {
	l.stop()
	for _, h := range l.Hosts {
		h.Halt()
	}
	l.follow.Wait()
}

// File is a file of the operator's.
func (l *Lab) File(name string) string { return filepath.Join(l.Dir, name) }

func (l *Lab) agentBinary() string { return filepath.Join(Bin(Dir()), "ebbd") }

// configure writes the operator's fleet.toml, ssh_config and known_hosts, and
// the receiver and the terminator that they name.
func (l *Lab) configure() error {
	fleet := fmt.Sprintf(`[journal]
url = %q

[[plane]]
name = "prod"
type = "postgres"
url = %q
scheduler_cache = "2s"

[[class]]
match = { kind = "box" }
class = "stuck"
grace = "5s"

[budget.stateless]
move = "60s"
grace = "10s"

[[notice]]
type = "command"
run = [%q]

[terminate]
run = [%q, "terminate", "{instance}"]

[ssh]
config = %q
known_hosts = %q
identity = %q
user = "root"
`, l.Journal, l.Plane, l.File("receiver"), l.File("terminator"), l.File("ssh_config"), l.File("known_hosts"), l.File("key")) + l.extra
	files := map[string]string{"fleet.toml": fleet, "ssh_config": l.sshConfig(), "known_hosts": l.knownHosts()}
	for name, text := range files {
		if err := os.WriteFile(l.File(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	receiver := fmt.Sprintf("#!/bin/sh\ncat >> %s\n", l.File("notices"))
	terminator := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$*\" >> %s\n", l.File("terminated"))
	if err := os.WriteFile(l.File("receiver"), []byte(receiver), 0o755); err != nil {
		return err
	}
	return os.WriteFile(l.File("terminator"), []byte(terminator), 0o755)
}

func (l *Lab) sshConfig() string {
	var b strings.Builder
	for name, h := range l.Hosts {
		addr := h.Addr
		if other, ok := l.at[name]; ok {
			addr = l.Hosts[other].Addr
		}
		port := "22"
		if route, ok := l.routes[name]; ok {
			addr, port, _ = strings.Cut(route, ":")
		}
		fmt.Fprintf(&b, "Host %s\n  HostName %s\n  Port %s\n  User root\n  IdentityFile %s\n", name, addr, port, l.File("key"))
		if via, ok := l.via[name]; ok {
			fmt.Fprintf(&b, "  ProxyJump %s\n", via)
		}
	}
	return b.String()
}

func (l *Lab) knownHosts() string {
	var b strings.Builder
	for name, h := range l.Hosts {
		at := []string{h.Addr}
		if route, ok := l.routes[name]; ok {
			at = append(at, route)
		}
		b.WriteString(knownhosts.Line(at, h.Key) + "\n")
	}
	return b.String()
}

// Lead makes a name lead to another host's address, as when an address has
// changed hands; to itself again where the names are the same.
func (l *Lab) Lead(name, to string) error {
	l.at[name] = to
	return os.WriteFile(l.File("ssh_config"), []byte(l.sshConfig()), 0o600)
}

// Route makes a host be reached by another address than its own: that of a proxy,
// as host:port.
func (l *Lab) Route(name, addr string) error {
	l.routes[name] = addr
	if err := os.WriteFile(l.File("known_hosts"), []byte(l.knownHosts()), 0o600); err != nil {
		return err
	}
	return os.WriteFile(l.File("ssh_config"), []byte(l.sshConfig()), 0o600)
}

// Via makes a host reachable through another one only.
func (l *Lab) Via(ctx context.Context, name, jump string) error {
	l.via[name] = jump
	if err := os.WriteFile(l.File("ssh_config"), []byte(l.sshConfig()), 0o600); err != nil {
		return err
	}
	h := l.Hosts[name]
	// Only the neighbour can be spoken to: everyone else's packets find no way.
	for _, args := range [][]string{
		{"address", "flush", "dev", "eth0"},
		{"address", "add", h.Addr + "/32", "dev", "eth0"},
		{"route", "add", l.Hosts[jump].Addr + "/32", "dev", "eth0"},
	} {
		if out, err := h.Exec(ctx, append([]string{"ip"}, args...)...); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// KnownHosts replaces the operator's known_hosts; "" restores what is right.
func (l *Lab) KnownHosts(text string) error {
	if text == "" {
		text = l.knownHosts()
	}
	return os.WriteFile(l.File("known_hosts"), []byte(text), 0o600)
}

// SQL runs a statement in the control plane's database.
func (l *Lab) SQL(ctx context.Context, text string, args ...any) error {
	return l.plane(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, text, args...)
		return err
	})
}

// Ask runs a query that yields one value, as text.
func (l *Lab) Ask(ctx context.Context, text string, args ...any) (string, error) {
	var value string
	err := l.plane(ctx, func(c *pgx.Conn) error { return c.QueryRow(ctx, text, args...).Scan(&value) })
	return value, err
}

func (l *Lab) plane(ctx context.Context, do func(*pgx.Conn) error) error {
	cfg, err := pgx.ParseConfig(l.Plane)
	if err != nil {
		return err
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // it may lead through a pooler
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	return do(c)
}

// Claim has the control plane claim a workload on a host.
func (l *Lab) Claim(ctx context.Context, host string, w Work) error {
	var expires any
	if w.Life > 0 {
		expires = time.Now().Add(w.Life)
	}
	return l.SQL(ctx, `insert into sandboxes (id, agent_id, kind, status, class, owner, expires_at)
		values ($1, $2, $3, 'running', nullif($4, ''), nullif($5, ''), $6)`, w.ID, host, w.Kind, w.Class, w.Owner, expires)
}

// Start has the platform start a workload: claimed, running, and claimed no more
// once it has ended. It returns the pid on the host.
func (l *Lab) Start(ctx context.Context, host string, w Work) (int, error) {
	if err := l.Claim(ctx, host, w); err != nil {
		return 0, fmt.Errorf("claim %s/%s: %w", w.Kind, w.ID, err)
	}
	h := l.Hosts[host]
	pid, err := h.Launch(w)
	if err != nil {
		return 0, fmt.Errorf("launch %s/%s: %w", w.Kind, w.ID, err)
	}
	stat := h.Path(fmt.Sprintf("/proc/%d/stat", pid))
	l.follow.Go(func() {
		err := Until(l.ctx, "end of "+w.ID, func() error {
			if b, err := os.ReadFile(stat); err == nil && !strings.Contains(string(b), ") Z ") {
				return errors.New("it runs")
			}
			return l.SQL(l.ctx, `update sandboxes set status = 'gone' where id = $1 and kind = $2 and agent_id = $3`, w.ID, w.Kind, host)
		})
		_ = err // the lab has ended
	})
	return pid, nil
}

// pace is how often conditions are looked at.
const pace = 100 * time.Millisecond

// Until waits until a condition holds, however long the context allows.
func Until(ctx context.Context, what string, holds func() error) error {
	for {
		err := holds()
		if err == nil {
			return nil
		}
		if f := (*final)(nil); errors.As(err, &f) {
			return fmt.Errorf("%s: %w", what, f.err)
		}
		t := time.NewTimer(pace)
		select {
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("%s: %w: %w", what, context.Cause(ctx), err)
		case <-t.C:
		}
	}
}

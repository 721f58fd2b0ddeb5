package sshlink

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// defaultIdentities are ssh's own, in its order.
var defaultIdentities = [...]string{"id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"}

// Resolve says how to reach dest: an alias, user@host, host:port, [v6]:port or
// ssh://user@host:port. What dest says itself wins over ssh_config.
func (c *Config) Resolve(dest string) (Target, error) {
	d, err := parseDestination(dest)
	if err != nil {
		return Target{}, err
	}
	return c.resolve(d, nil)
}

// resolve follows d's own ProxyJump; path holds the hosts whose way leads
// through it.
func (c *Config) resolve(d destination, path []string) (Target, error) {
	s := c.settings(d.host)
	t, err := c.target(d, s)
	if err != nil {
		return Target{}, err
	}
	if s.proxy == nil || strings.EqualFold(s.proxy.args[0], "none") {
		return t, nil
	}
	if s.proxy.keyword == "proxycommand" {
		return Target{}, s.proxy.errorf("ProxyCommand is not supported; use ProxyJump")
	}
	hops, err := parseJumps(s.proxy.args)
	if err != nil {
		return Target{}, s.proxy.errorf("%w", err)
	}
	loops := slices.Contains(path, d.host)
	if path = append(path, d.host); loops {
		return Target{}, s.proxy.errorf("ProxyJump loops: %s", strings.Join(path, " through "))
	}
	t.Via, err = c.chain(hops, t, path)
	return t, err
}

// chain resolves the hops to t. The first goes its own way, each further one
// through that before it. A host that is its own jump host, as under `Host *`,
// is reached directly.
func (c *Config) chain(hops []destination, t Target, path []string) (*Target, error) {
	var via *Target
	for i, hop := range hops {
		next, err := c.target(hop, c.settings(hop.host))
		if err != nil {
			return nil, err
		}
		if next.Host == t.Host && next.Port == t.Port && next.User == t.User {
			return via, nil
		}
		if i == 0 {
			if next, err = c.resolve(hop, path); err != nil {
				return nil, err
			}
		} else {
			next.Via = via
		}
		via = &next
	}
	return via, nil
}

// settings are the lines that apply to one name: of single values the first, of
// IdentityFile and CertificateFile all.
type settings struct {
	one          map[string]*directive
	identities   []*directive
	certificates []*directive
	proxy        *directive // the first of ProxyJump and ProxyCommand
}

func (c *Config) settings(alias string) settings {
	s := settings{one: make(map[string]*directive)}
	c.walk(alias, func(d *directive) {
		switch d.keyword {
		case "identityfile":
			s.identities = append(s.identities, d)
		case "certificatefile":
			s.certificates = append(s.certificates, d)
		case "proxyjump", "proxycommand":
			if s.proxy == nil {
				s.proxy = d
			}
		default:
			if s.one[d.keyword] == nil {
				s.one[d.keyword] = d
			}
		}
	})
	return s
}

// target is d without its jump hosts.
func (c *Config) target(d destination, s settings) (Target, error) {
	t := Target{Name: d.host, User: d.user, Host: d.host, Port: d.port}
	if err := c.endpoint(&t, s); err != nil {
		return t, err
	}
	e := c.expander(t)
	for _, step := range []func(*Target, settings, expander) error{c.hostKeys, c.identities, c.agent} {
		if err := step(&t, s, e); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (c *Config) endpoint(t *Target, s settings) error {
	if l := s.one["hostname"]; l != nil {
		e := expander{home: c.src.Home, tokens: map[byte]string{'h': t.Name, 'n': t.Name}}
		host, err := e.tokensOnly(l.args[0])
		if err == nil {
			err = validHost(host)
		}
		if err != nil {
			return l.errorf("HostName: %w", err)
		}
		t.Host = host
	}
	t.Host = strings.ToLower(t.Host)
	if l := s.one["port"]; l != nil && t.Port == 0 {
		t.Port, _ = parsePort(l.args[0]) // checked when the line was read
	}
	if t.Port == 0 {
		t.Port = 22
	}
	if l := s.one["user"]; l != nil && t.User == "" {
		if err := (destination{host: t.Host, user: l.args[0]}).validate(); err != nil {
			return l.errorf("User: %w", err)
		}
		t.User = l.args[0]
	}
	if t.User == "" {
		t.User = c.src.User
	}
	if l := s.one["connecttimeout"]; l != nil {
		t.ConnectTimeout, _ = parseTimeout(l.args[0])
	}
	return nil
}

func (c *Config) hostKeys(t *Target, s settings, e expander) error {
	if l := s.one["hostkeyalias"]; l != nil {
		if err := validHost(l.args[0]); err != nil {
			return l.errorf("HostKeyAlias: %w", err)
		}
		t.HostKeyAlias = l.args[0]
		e.tokens['k'] = l.args[0]
	}
	if len(c.src.KnownHosts) > 0 {
		t.KnownHosts = c.src.KnownHosts
		return nil
	}
	dot := filepath.Join(c.src.Home, ".ssh")
	for _, from := range []struct {
		keyword  string
		defaults []string
	}{
		{"userknownhostsfile", []string{filepath.Join(dot, "known_hosts"), filepath.Join(dot, "known_hosts2")}},
		{"globalknownhostsfile", []string{systemDir + "/ssh_known_hosts", systemDir + "/ssh_known_hosts2"}},
	} {
		l := s.one[from.keyword]
		if l == nil {
			t.KnownHosts = append(t.KnownHosts, from.defaults...)
			continue
		}
		for _, arg := range l.args {
			if strings.EqualFold(arg, "none") {
				continue
			}
			path, err := e.path(arg)
			if err != nil {
				return l.errorf("%w", err)
			}
			t.KnownHosts = append(t.KnownHosts, path)
		}
	}
	return nil
}

func (c *Config) identities(t *Target, s settings, e expander) error {
	if l := s.one["identitiesonly"]; l != nil {
		t.IdentitiesOnly, _ = parseYesNo(l.args[0])
	}
	for _, l := range s.certificates {
		path, err := e.path(l.args[0])
		if err != nil {
			return l.errorf("%w", err)
		}
		t.Certificates = append(t.Certificates, path)
	}
	if len(c.src.Identity) > 0 {
		t.IdentitiesOnly = true
		for _, path := range c.src.Identity {
			t.Identities = append(t.Identities, Identity{Path: path})
		}
		return nil
	}
	for _, l := range s.identities {
		if strings.EqualFold(l.args[0], "none") {
			continue
		}
		path, err := e.path(l.args[0])
		if err != nil {
			return l.errorf("%w", err)
		}
		t.Identities = append(t.Identities, Identity{Path: path})
	}
	if len(s.identities) == 0 {
		for _, name := range defaultIdentities {
			t.Identities = append(t.Identities, Identity{Path: filepath.Join(c.src.Home, ".ssh", name), Default: true})
		}
	}
	return nil
}

func (c *Config) agent(t *Target, s settings, e expander) error {
	t.Agent = c.src.Agent
	l := s.one["identityagent"]
	if l == nil {
		return nil
	}
	switch arg := l.args[0]; {
	case arg == "none":
		t.Agent = ""
	case arg == "SSH_AUTH_SOCK":
		t.Agent = c.src.Agent
	case strings.HasPrefix(arg, "$") && !strings.HasPrefix(arg, "${"):
		arg = "${" + arg[1:] + "}"
		fallthrough
	default:
		path, err := e.path(arg)
		if err != nil {
			return l.errorf("%w", err)
		}
		t.Agent = path
	}
	return nil
}

func (c *Config) expander(t Target) expander {
	return expander{home: c.src.Home, tokens: map[byte]string{
		'd': c.src.Home, 'h': t.Host, 'i': strconv.Itoa(localUID()), 'k': t.Host, 'L': shortHostname(), 'l': hostname(),
		'n': t.Name, 'p': strconv.Itoa(t.Port), 'r': t.User, 'u': c.src.User,
	}}
}

// expander fills in what ssh_config leaves open in a value.
type expander struct {
	home   string
	tokens map[byte]string
}

// path expands ~, ${VARIABLE} and %-tokens of a file name.
func (e expander) path(s string) (string, error) {
	if rest, ok := strings.CutPrefix(s, "~"); ok {
		if rest != "" && rest[0] != '/' {
			return "", fmt.Errorf("home of another user in %q is not supported", s)
		}
		s = strings.ReplaceAll(e.home, "%", "%%") + rest
	}
	s, err := expandEnv(s)
	if err != nil {
		return "", err
	}
	return e.tokensOnly(s)
}

func (e expander) tokensOnly(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return "", errors.New("lone % at the end; write %% for a percent sign")
		}
		if s[i] == '%' {
			b.WriteByte('%')
			continue
		}
		v, ok := e.tokens[s[i]]
		if !ok {
			return "", fmt.Errorf("unknown token %q", s[i-1:i+1])
		}
		b.WriteString(v)
	}
	return b.String(), nil
}

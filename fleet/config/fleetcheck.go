package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/fleet"
)

// The file as it is written, before it is known to mean something.
type rawFleet struct {
	Journal struct {
		URL string `toml:"url"`
	} `toml:"journal"`
	Plane     []rawPlane                `toml:"plane"`
	Class     []rawClass                `toml:"class"`
	Budget    map[string]rawClassBudget `toml:"budget"`
	Terminate struct {
		Type string   `toml:"type"`
		Run  []string `toml:"run"`
	} `toml:"terminate"`
	Limits   *Limits     `toml:"limits"`
	Notice   []rawNotice `toml:"notice"`
	SSH      rawSSH      `toml:"ssh"`
	Operator []Operator  `toml:"operator"`
	Lever    []rawLever  `toml:"lever"`
	Demo     struct {
		Speed *float64 `toml:"speed"`
	} `toml:"demo"`
}

type rawPlane struct {
	Name           string     `toml:"name"`
	Type           string     `toml:"type"`
	URL            string     `toml:"url"`
	SchedulerCache string     `toml:"scheduler_cache"`
	Statements     Statements `toml:"statements"`
	Match          []string   `toml:"match"`
	Host           []struct {
		ID       string            `toml:"id"`
		Address  string            `toml:"address"`
		Labels   map[string]string `toml:"labels"`
		Instance string            `toml:"instance"`
	} `toml:"host"`
}

type rawNotice struct {
	Type    string   `toml:"type"`
	URL     string   `toml:"url"`
	Run     []string `toml:"run"`
	Timeout string   `toml:"timeout"`
}

type rawSSH struct {
	Config     string `toml:"config"`
	KnownHosts string `toml:"known_hosts"`
	Identity   string `toml:"identity"`
	User       string `toml:"user"`
	AgentPath  string `toml:"agent_path"`
	Sudo       bool   `toml:"sudo"`
}

func (s *source) fleet(raw rawFleet, env func(string) string, exists func(string) bool) (Fleet, error) {
	f := Fleet{Path: s.file, Limits: Limits{MovesPerHost: 4, MovesPerTarget: 2, Handshakes: 32}}
	f.Journal.URL = s.journal(raw.Journal.URL, env)
	f.Planes = s.planes(raw.Plane, env)
	f.Levers = s.levers(raw.Lever)
	f.Classes = s.classes(raw.Class, f.Planes, f.Levers)
	f.Budgets = s.budgets(raw.Budget)
	f.Terminate = s.terminate(raw.Terminate.Type, raw.Terminate.Run)
	if raw.Limits != nil {
		f.Limits = s.limits(*raw.Limits, f.Limits)
	}
	for i, n := range raw.Notice {
		f.Notices = append(f.Notices, s.notice(fmt.Sprintf("notice[%d]", i), n))
	}
	f.SSH = s.ssh(raw.SSH, env, exists)
	f.Operators = s.operators(raw.Operator)
	f.Speed = 1
	if sp := raw.Demo.Speed; sp != nil {
		if f.Speed = *sp; f.Speed < 1 || f.Speed > 1000 {
			s.add("demo.speed", "want a number from 1 to 1000")
		}
	}
	if err := s.failed(); err != nil {
		return Fleet{}, err
	}
	return f, nil
}

func (s *source) journal(text string, env func(string) string) string {
	if text == "" {
		u, err := DefaultJournal(env)
		if err != nil {
			s.add("journal.url", "%v", err)
		}
		return u
	}
	if strings.HasPrefix(text, "sqlite:") {
		return s.sqlite("journal.url", text, env)
	}
	if !isPostgres(text) {
		s.add("journal.url", "want postgres://USER@HOST/DATABASE or sqlite:PATH")
	}
	return text
}

func (s *source) sqlite(path, text string, env func(string) string) string {
	p, ok := strings.CutPrefix(text, "sqlite:")
	if !ok || p == "" {
		s.add(path, "want sqlite:PATH")
		return ""
	}
	return "sqlite:" + s.resolve(p, env)
}

func isPostgres(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql")
}

func (s *source) planes(raw []rawPlane, env func(string) string) []Plane {
	if len(raw) == 0 {
		s.add("plane", "there is none: a fleet needs a [[plane]] that lists its hosts")
	}
	names := map[string]bool{}
	planes := make([]Plane, 0, len(raw))
	for i, r := range raw {
		at := fmt.Sprintf("plane[%d]", i)
		if s.word(at+".name", r.Name, "a plane's name") {
			s.unique(names, at+".name", r.Name, "plane")
		}
		planes = append(planes, s.plane(at, r, env))
	}
	return planes
}

func (s *source) plane(at string, r rawPlane, env func(string) string) Plane {
	p := Plane{Name: r.Name, Type: PlaneType(r.Type), URL: r.URL, Statements: r.Statements, Match: r.Match}
	lists := p.Type == None || p.Type == SSHHosts
	switch p.Type {
	case Postgres:
		if !isPostgres(r.URL) {
			s.add(at+".url", "want postgres://USER@HOST/DATABASE")
		}
	case Embedded:
		p.URL = s.sqlite(at+".url", r.URL, env)
	case None, SSHHosts:
		if r.URL != "" {
			s.add(at+".url", "a plane of type %s has none", p.Type)
		}
	case "":
		s.add(at+".type", "is missing: postgres, embedded, none or ssh")
	default:
		s.oneOf(at+".type", r.Type, []string{"postgres", "embedded", "none", "ssh"})
	}
	if r.Statements != (Statements{}) && p.Type != Postgres {
		s.add(at+".statements", "only a plane of type postgres has statements")
	}
	p.SchedulerCache = s.cache(at+".scheduler_cache", r.SchedulerCache, lists)
	if p.Type == SSHHosts && len(r.Match) == 0 && len(r.Host) == 0 {
		s.add(at+".match", "is missing: which aliases of ssh_config are hosts of this fleet")
	} else if len(r.Match) > 0 && p.Type != SSHHosts {
		s.add(at+".match", "only a plane of type ssh matches aliases")
	}
	s.globs(at+".match", r.Match)
	if len(r.Host) > 0 && !lists {
		s.add(at+".host", "a plane of type %s lists its hosts itself", p.Type)
	}
	ids := map[string]bool{}
	for i, h := range r.Host {
		hat := fmt.Sprintf("%s.host[%d]", at, i)
		if s.hostID(hat+".id", h.ID) {
			s.unique(ids, hat+".id", h.ID, "host")
		}
		addr := h.Address
		if addr == "" {
			addr = h.ID
		}
		if strings.HasPrefix(addr, "-") {
			s.add(hat+".address", "%q begins with a dash", addr)
		}
		p.Hosts = append(p.Hosts, fleet.Host{ID: fleet.NewHostID(r.Name, h.ID), Address: addr, Labels: h.Labels, Instance: h.Instance})
	}
	return p
}

// hostID is like word, but allows slashes: the plane's name ends at the first.
func (s *source) hostID(path, id string) bool {
	if strings.Trim(id, "/") != id {
		s.add(path, "%q begins or ends with a slash", id)
		return false
	}
	return s.word(path, strings.ReplaceAll(id, "/", ""), "a host's id")
}

// cache reads a scheduler's cache window. Zero has a meaning here: a scheduler
// that always looks.
func (s *source) cache(path, text string, none bool) time.Duration {
	switch d, err := time.ParseDuration(text); {
	case text == "" && none, err == nil && d == 0:
		return 0
	default:
		return s.duration(path, text, 30*time.Second)
	}
}

func (s *source) limits(raw, defaults Limits) Limits {
	for _, l := range []struct {
		name     string
		set, def *int
	}{
		{"moves_per_host", &raw.MovesPerHost, &defaults.MovesPerHost},
		{"moves_per_target", &raw.MovesPerTarget, &defaults.MovesPerTarget},
		{"handshakes", &raw.Handshakes, &defaults.Handshakes},
	} {
		path := "limits." + l.name
		if _, given := s.lines[path]; !given {
			*l.set = *l.def
		} else if *l.set < 1 {
			s.add(path, "%d: want at least 1", *l.set)
		}
	}
	return raw
}

func (s *source) notice(at string, r rawNotice) Notice {
	n := Notice{Type: r.Type, URL: r.URL, Run: r.Run, Timeout: s.duration(at+".timeout", r.Timeout, 10*time.Second)}
	switch r.Type {
	case "webhook":
		if u, err := url.Parse(r.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			s.add(at+".url", "want http://… or https://…")
		}
		if len(r.Run) > 0 {
			s.add(at+".run", "a webhook runs nothing")
		}
	case "command":
		if len(r.Run) == 0 || r.Run[0] == "" {
			s.add(at+".run", "is missing: the command and its arguments")
		}
		if r.URL != "" {
			s.add(at+".url", "a command has none")
		}
	default:
		s.oneOf(at+".type", r.Type, []string{"webhook", "command"})
	}
	return n
}

func (s *source) ssh(raw rawSSH, env func(string) string, exists func(string) bool) SSH {
	out := SSH{User: raw.User, AgentPath: raw.AgentPath, Sudo: raw.Sudo}
	if out.AgentPath == "" {
		out.AgentPath = "ebbd"
	}
	for _, f := range []struct {
		key, value string
		to         *string
	}{
		{"ssh.config", raw.Config, &out.Config},
		{"ssh.known_hosts", raw.KnownHosts, &out.KnownHosts},
		{"ssh.identity", raw.Identity, &out.Identity},
	} {
		if f.value == "" {
			continue
		}
		*f.to = s.resolve(f.value, env)
		if !exists(*f.to) {
			s.add(f.key, "%s: no such file", *f.to)
		}
	}
	for key, v := range map[string]string{"ssh.user": out.User, "ssh.agent_path": out.AgentPath} {
		if strings.HasPrefix(v, "-") || strings.ContainsAny(v, "\x00\n") {
			s.add(key, "%q can't stand in a command line", v)
		}
	}
	return out
}

// resolve makes a path absolute: "~/" is the home directory, and what is relative
// is so to the file that names it.
func (s *source) resolve(p string, env func(string) string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return filepath.Join(env("HOME"), rest)
	}
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(filepath.Dir(s.file), p)
}

func (s *source) operators(raw []Operator) []Operator {
	names := map[string]bool{}
	for i, o := range raw {
		at := fmt.Sprintf("operator[%d]", i)
		if s.word(at+".name", o.Name, "an operator's name") {
			s.unique(names, at+".name", o.Name, "operator")
		}
		if _, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(o.Key)); err != nil || len(rest) > 0 {
			s.add(at+".key", "want one public key, as in an authorized_keys file")
		}
	}
	return raw
}

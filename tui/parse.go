package tui

import (
	"fmt"
	"slices"
	"strings"

	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/fleetview"
	"ebb/tui/keys"
	"ebb/tui/words"
)

// here stands for the host under the cursor, where words of one's own follow.
const here = "."

// parse reads a command. A name that is no host's is an error that names those
// it is near to: it never falls back to the host under the cursor.
func (m *Model) parse(text string) (typed, error) {
	name, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	c, ok := commandNamed(name)
	if !ok {
		return typed{}, fmt.Errorf("no command is called %s%s", words.Name(name), words.Suggest(name, commandNames()))
	}
	t := typed{command: c, host: m.underCursor()}
	args := strings.Fields(rest)
	switch c.takes {
	case nothing:
		if len(args) > 0 {
			return typed{}, fmt.Errorf("%s takes nothing", c.name)
		}
		return t, nil
	case value:
		t.text = strings.TrimSpace(rest)
		return t, nil
	}
	args, err := m.readHosts(&t, args)
	if err != nil {
		return typed{}, err
	}
	if t.takes == anItem {
		if args, err = m.readItem(&t, args); err != nil {
			return typed{}, err
		}
	}
	t.text = strings.Join(args, " ")
	return t, m.checkTyped(t, args)
}

// underCursor is the host that a command is about where none is named.
func (m *Model) underCursor() fleet.HostID {
	if h := m.panes.all[m.cur].Host(); h != "" {
		return h
	}
	return m.host
}

// readHosts takes the hosts that are named off the arguments.
func (m *Model) readHosts(t *typed, args []string) ([]string, error) {
	for len(args) > 0 && (len(t.hosts) == 0 || t.takes == someHosts) {
		h, err := m.hostNamed(args[0])
		if err != nil {
			return nil, err
		}
		if args[0] == here && len(t.hosts) == 0 {
			h = t.host
		}
		if h == "" {
			break
		}
		if !slices.Contains(t.hosts, h) {
			t.hosts = append(t.hosts, h)
		}
		args = args[1:]
	}
	if len(t.hosts) > 0 {
		t.host, t.named = t.hosts[0], true
		return args, nil
	}
	t.hosts = []fleet.HostID{t.host}
	if len(args) == 0 || m.fitsWithoutHost(t, args[0]) {
		return args, nil
	}
	hint := words.Suggest(args[0], m.hostNames())
	if hint == "" && t.host != "" && t.takes != aHost {
		hint = fmt.Sprintf("; for %s, on which the cursor is, write :%s %s %s", words.Host(t.host), t.name, here, words.Text(args[0]))
	}
	return nil, fmt.Errorf("no host is called %s%s", words.Name(args[0]), hint)
}

// hostNamed finds a host by its whole id or its name; "" where there is none.
func (m *Model) hostNamed(name string) (fleet.HostID, error) {
	var found []fleet.HostID
	for _, v := range m.frame.Snapshot.Hosts {
		if id := v.Host.ID; string(id) == name || id.Name() == name {
			found = append(found, id)
		}
	}
	switch {
	case len(found) > 1:
		return "", fmt.Errorf("%s is a host of several planes: write PLANE/HOST", words.Name(name))
	case len(found) == 1:
		return found[0], nil
	}
	return "", nil
}

// fitsWithoutHost says whether a word can't be meant for a host: a duration, or
// a thing on the host under the cursor.
func (m *Model) fitsWithoutHost(t *typed, word string) bool {
	if feed.Verb(t.name) == feed.Extend {
		_, err := words.ReadDuration(word)
		return err == nil || strings.Trim(word, "0123456789") == "" // a number without its unit is told so
	}
	if t.takes != anItem || t.host == "" {
		return false
	}
	_, ok := m.itemNamed(*t, word)
	return ok
}

// readItem takes the workload, or the thing, that is named off the arguments.
func (m *Model) readItem(t *typed, args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	k, ok := m.itemNamed(*t, args[0])
	if !ok {
		var names []string
		for _, k := range m.items(*t) {
			names = append(names, k.String(), k.ID)
		}
		return nil, fmt.Errorf("nothing on %s is called %s%s", words.Host(t.host), words.Name(args[0]), words.Suggest(args[0], names))
	}
	t.key = k
	return args[1:], nil
}

// items are what a verb can be about on a host.
func (m *Model) items(t typed) []fleet.Key {
	var out []fleet.Key
	switch feed.Verb(t.name) {
	case feed.Clean:
		for _, f := range m.view(t.host).Findings {
			if f.Verdict == fleet.Leak {
				out = append(out, f.Key)
			}
		}
	case feed.Accept:
		if g, _, ok := m.panes.gate.now().Gate(); ok && m.panes.gate.Host() == t.host {
			for _, is := range g.Issues {
				if is.Acceptable && !is.Key.IsZero() {
					out = append(out, is.Key)
				}
			}
		}
	default:
		s, _ := m.drainOf(t.host)
		if feed.Verb(t.name) == feed.Resume {
			s = m.frame.Drains[t.host] // its hold may have been lifted
		}
		for k, it := range s.Items {
			if it.Open() {
				out = append(out, k)
			}
		}
	}
	slices.SortFunc(out, fleet.Key.Compare)
	return out
}

// itemNamed finds one by KIND/ID, or by its id where that is only one's.
func (m *Model) itemNamed(t typed, name string) (fleet.Key, bool) {
	var found []fleet.Key
	for _, k := range m.items(t) {
		if k.String() == name {
			return k, true
		}
		if k.ID == name {
			found = append(found, k)
		}
	}
	if len(found) == 1 {
		return found[0], true
	}
	return fleet.Key{}, false
}

// checkTyped refuses what could be another thing than it seems.
func (m *Model) checkTyped(t typed, rest []string) error {
	v := feed.Verb(t.name)
	switch {
	case t.host == "" && t.takes != nothing && (t.do != nil && needsHost(t)):
		return fmt.Errorf("%s what? no host is chosen", t.name)
	case t.takes == aHost && len(rest) > 0, v == feed.Plan && len(rest) > 0:
		return fmt.Errorf("%s takes nothing behind the host: %s", t.name, words.Text(rest[0])+words.Suggest(rest[0], m.hostNames()))
	case t.takes == anItem && t.key.IsZero() && len(rest) > 0:
		return fmt.Errorf("nothing on %s is called %s", words.Host(t.host), words.Name(rest[0]))
	case v == feed.Reclass && t.text != "" && !fleet.Class(t.text).Valid():
		return fmt.Errorf("no class is called %s%s", words.Name(t.text), words.Suggest(t.text, classNames()))
	case v == feed.Extend && t.text != "", v == feed.MoreTime && t.text != "":
		_, err := words.ReadDuration(t.text)
		return err
	case v == feed.Cordon && len(rest) > 0 && rest[0] != "--":
		for _, w := range rest { // a host that was mistyped behind others
			if near := words.Near(w, m.hostNames()); len(near) > 0 && strings.ContainsAny(w, "0123456789") {
				return fmt.Errorf("no host is called %s%s; a reason with that word stands behind --", words.Name(w), words.Suggest(w, m.hostNames()))
			}
		}
	}
	return nil
}

// needsHost says whether a command is about a host at all.
func needsHost(t typed) bool {
	switch t.name {
	case string(keys.Fleet), string(keys.Log), string(keys.Handover):
		return false
	}
	return t.takes == aHost && !ofOneHost(keys.Scope(t.name)) || t.takes == someHosts || t.takes == hostText || t.takes == anItem
}

func (m *Model) hostNames() []string {
	out := make([]string, len(m.frame.Snapshot.Hosts))
	for i, v := range m.frame.Snapshot.Hosts {
		out[i] = v.Host.ID.Name()
	}
	return out
}

func commandNames() []string {
	var out []string
	for _, c := range commands() {
		out = append(out, c.name)
	}
	return out
}

func classNames() []string {
	var out []string
	for _, c := range fleet.Classes {
		if c.Valid() {
			out = append(out, string(c))
		}
	}
	return out
}

func orders() []string { return fleetview.Orders() }

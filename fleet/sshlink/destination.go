package sshlink

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
)

// destination is what a person typed, taken apart. Zero port and empty user mean
// "as ssh_config says".
type destination struct {
	user string
	host string // an alias, a name or an address; never empty
	port int
}

// parseDestination reads [ssh://][user@]host[:port][/]. A bare IPv6 address has
// no port; with one it needs brackets. Text that ssh itself would refuse, or that
// could turn into an option or a shell word, is refused.
func parseDestination(s string) (destination, error) {
	d, err := splitDestination(s)
	if err == nil {
		err = d.validate()
	}
	if err != nil {
		return destination{}, &DestinationError{Dest: s, Err: err}
	}
	return d, nil
}

func splitDestination(s string) (destination, error) {
	var d destination
	rest, uri := strings.CutPrefix(s, "ssh://")
	if !uri && strings.Contains(s, "://") {
		return d, errors.New("only ssh:// is understood")
	}
	if uri {
		rest = strings.TrimSuffix(rest, "/")
	}
	// The last @ counts, as it does for ssh: a user name may contain one.
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		d.user, rest = rest[:i], rest[i+1:]
		if d.user == "" {
			return d, errors.New("empty user before @")
		}
		if uri && strings.Contains(d.user, ":") {
			return d, errors.New("a password in the address is not supported")
		}
	}
	host, port, err := splitHostPort(rest)
	if err != nil {
		return d, err
	}
	d.host = host
	if port != "" {
		if d.port, err = parsePort(port); err != nil {
			return d, err
		}
	}
	return d, nil
}

// splitHostPort is net.SplitHostPort with an optional port, and with a bare IPv6
// address taken as a host.
func splitHostPort(s string) (host, port string, err error) {
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", "", errors.New("missing ] after address")
		}
		host, rest := s[1:end], s[end+1:]
		if rest == "" {
			return host, "", nil
		}
		port, ok := strings.CutPrefix(rest, ":")
		if !ok || port == "" {
			return "", "", errors.New("expected :port after ]")
		}
		return host, port, nil
	}
	switch strings.Count(s, ":") {
	case 0:
		return s, "", nil
	case 1:
		host, port, _ = strings.Cut(s, ":")
		if port == "" {
			return "", "", errors.New("empty port after the colon")
		}
		return host, port, nil
	}
	if _, err := netip.ParseAddr(s); err != nil {
		return "", "", errors.New("more than one colon, and not an IPv6 address")
	}
	return s, "", nil
}

func parsePort(s string) (int, error) {
	for _, r := range s {
		if r < '0' || r > '9' {
			return 0, errors.New("port is not a number: " + strconv.Quote(s))
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 65535 {
		return 0, errors.New("port outside 1 to 65535: " + strconv.Quote(s))
	}
	return n, nil
}

func (d destination) validate() error {
	if err := validHost(d.host); err != nil {
		return err
	}
	if strings.HasPrefix(d.user, "-") {
		return errors.New("user starts with -")
	}
	for _, r := range d.user {
		if unsafeRune(r) || strings.ContainsRune("'`\";&<>|(){}", r) {
			return errors.New("user contains " + strconv.QuoteRune(r))
		}
	}
	return nil
}

// validHost refuses what no host name holds and a shell, ssh_config or
// known_hosts would read as something else.
func validHost(host string) error {
	if host == "" {
		return errors.New("empty host")
	}
	if strings.HasPrefix(host, "-") {
		return errors.New("host starts with -")
	}
	for _, r := range host {
		if unsafeRune(r) || strings.ContainsRune("'`\"$\\;&<>|(){}[]/*?!,#@=", r) {
			return errors.New("host contains " + strconv.QuoteRune(r))
		}
	}
	return nil
}

func unsafeRune(r rune) bool {
	return r == unicode.ReplacementChar || unicode.IsSpace(r) || !unicode.IsPrint(r)
}

// joinHostPort is the address that is dialled.
func joinHostPort(host string, port int) string {
	return net.JoinHostPort(host, strconv.Itoa(port))
}

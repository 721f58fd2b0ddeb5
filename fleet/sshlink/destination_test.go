package sshlink

import (
	"errors"
	"strings"
	"testing"
)

func TestParseDestination(t *testing.T) {
	for in, want := range map[string]destination{
		"gpu-041":                    {host: "gpu-041"},
		"root@gpu-041":               {user: "root", host: "gpu-041"},
		"gpu-041:2222":               {host: "gpu-041", port: 2222},
		"root@gpu-041:2222":          {user: "root", host: "gpu-041", port: 2222},
		"a@b@host":                   {user: "a@b", host: "host"},
		"ssh://gpu-041":              {host: "gpu-041"},
		"ssh://root@gpu-041:22/":     {user: "root", host: "gpu-041", port: 22},
		"ssh://[2001:db8::1]:2222":   {host: "2001:db8::1", port: 2222},
		"2001:db8::1":                {host: "2001:db8::1"},
		"fe80::1%eth0":               {host: "fe80::1%eth0"},
		"[2001:db8::1]":              {host: "2001:db8::1"},
		"root@[2001:db8::1]:22":      {user: "root", host: "2001:db8::1", port: 22},
		"under_score.example.com":    {host: "under_score.example.com"},
		"DOMAIN\\user@host.internal": {user: "DOMAIN\\user", host: "host.internal"},
	} {
		got, err := parseDestination(in)
		if err != nil || got != want {
			t.Errorf("parseDestination(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
}

func TestParseDestinationRefuses(t *testing.T) {
	for in, why := range map[string]string{
		"":                      "empty host",
		"root@":                 "empty host",
		"@host":                 "empty user",
		"-oProxyCommand=x":      "starts with -",
		"-l@host":               "user starts with -",
		"host:":                 "empty port",
		"host:0":                "outside 1 to 65535",
		"host:65536":            "outside 1 to 65535",
		"host:+22":              "not a number",
		"host:ssh":              "not a number",
		"a:b:c":                 "not an IPv6 address",
		"[::1":                  "missing ]",
		"[::1]22":               "expected :port",
		"[::1]:":                "expected :port",
		"host name":             "contains ' '",
		"host\n":                "contains '\\n'",
		"host\x1b[2J":           "contains",
		"host\u202e":            "contains",
		"h\xff":                 "contains",
		"$(reboot)":             "contains '$'",
		"host;reboot":           "contains ';'",
		"`x`@host":              "user contains",
		"http://host":           "only ssh://",
		"ssh://u:secret@host":   "password",
		"ssh://host/path":       "contains '/'",
		"gpu-*":                 "contains '*'",
		"host,otherhost":        "contains ','",
		"ssh://host:22:22":      "not an IPv6",
		"user@host:99999999999": "outside",
	} {
		_, err := parseDestination(in)
		var typed *DestinationError
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), why) {
			t.Errorf("parseDestination(%q): %v; want %q", in, err, why)
			continue
		}
		if typed.Hint() == "" {
			t.Errorf("parseDestination(%q): no hint", in)
		}
	}
}

// What is accepted means one thing, and can be handed to ssh and to known_hosts.
func FuzzParseDestination(f *testing.F) {
	for _, s := range []string{"host", "u@h:22", "ssh://u@[::1]:22/", "[fe80::1%eth0]:2", "a@b@c", "::", "-x", "a\x00b", "ssh://"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := parseDestination(s)
		if err != nil {
			if d != (destination{}) {
				t.Fatalf("%q: refused with %+v", s, d)
			}
			return
		}
		if d.host == "" || strings.HasPrefix(d.host, "-") || strings.ContainsAny(d.host, " \t\r\n'\"$;|*?!,") {
			t.Fatalf("%q: accepted host %q", s, d.host)
		}
		if d.port < 0 || d.port > 65535 {
			t.Fatalf("%q: accepted port %d", s, d.port)
		}
		again := d.host
		if d.port != 0 {
			again = joinHostPort(d.host, d.port)
		} else if strings.Contains(d.host, ":") {
			again = "[" + d.host + "]"
		}
		if d.user != "" {
			again = d.user + "@" + again
		}
		// A user that looks like a scheme can't be written back.
		if back, err := parseDestination(again); !strings.Contains(again, "://") && (err != nil || back != d) {
			t.Fatalf("%q is %+v, written %q is %+v, %v", s, d, again, back, err)
		}
	})
}

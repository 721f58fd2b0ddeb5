package sshlink

import (
	"fmt"
	"os"
	"strings"
)

// expandEnv replaces ${NAME}; a variable that is not set is an error, as in ssh.
func expandEnv(s string) (string, error) {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "${")
		b.WriteString(before)
		if !ok {
			return b.String(), nil
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			return "", fmt.Errorf("missing } in %q", s)
		}
		v, set := os.LookupEnv(name)
		if !set {
			return "", fmt.Errorf("environment variable %s is not set", name)
		}
		b.WriteString(strings.ReplaceAll(v, "%", "%%"))
		s = after
	}
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}

func shortHostname() string {
	name, _, _ := strings.Cut(hostname(), ".")
	return name
}

func localUID() int { return os.Getuid() }

package probes

import (
	"bytes"
	"strings"
)

// parseCgroup reads /proc/PID/cgroup and returns the one path that says where
// the process belongs:
//
//	12:pids:/system.slice/ssh.service
//	1:name=systemd:/system.slice/ssh.service
//	0::/system.slice/ssh.service
//
// With only version 2 there is the last line alone. Where both are mounted,
// systemd keeps its tree in the named hierarchy. Container runtimes without
// systemd leave both at "/" and use the controllers.
func parseCgroup(b []byte) string {
	var named, unified, other string
	for line := range bytes.Lines(b) {
		_, rest, ok := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(":"))
		if !ok {
			continue
		}
		controllers, path, ok := bytes.Cut(rest, []byte(":"))
		if !ok || len(path) == 0 || path[0] != '/' {
			continue
		}
		switch p := text(path); {
		case string(controllers) == "name=systemd":
			named = p
		case len(controllers) == 0:
			unified = p
		case len(p) > len(other) && !bytes.HasPrefix(controllers, []byte("name=")):
			other = p
		}
	}
	for _, p := range []string{named, unified, other} {
		if p != "" && p != "/" {
			return p
		}
	}
	if named+unified+other == "" {
		return ""
	}
	return "/"
}

// unitOf finds the systemd unit in a cgroup path, and the path down to it. base
// is what the paths of this host begin with, where they are seen from outside.
//
// The first unit counts, not the last: /machine.slice/box.service/system.slice/
// ssh.service is a container's sshd, not the host's. Only the units of a user's
// own manager are told apart, as user@1000.service/app.service.
func unitOf(path, base string) (unit, unitPath string) {
	rest := path
	if base != "" && base != "/" {
		if inner, ok := strings.CutPrefix(path, base+"/"); ok {
			rest = "/" + inner
		}
	}
	offset := len(path) - len(rest)
	for i, end := 0, 0; i < len(rest); i = end {
		end = i + 1 + strings.IndexByte(rest[i+1:]+"/", '/')
		elem := rest[i+1 : end]
		if !strings.HasSuffix(elem, ".service") && !strings.HasSuffix(elem, ".scope") {
			continue
		}
		if unit != "" {
			return unit + "/" + elem, path[:offset+end]
		}
		unit, unitPath = elem, path[:offset+end]
		if !strings.HasPrefix(elem, "user@") {
			break
		}
	}
	return unit, unitPath
}

// within reports whether a cgroup path is the given one or lies below it.
func within(path, top string) bool {
	return path == top || strings.HasPrefix(path, top+"/")
}

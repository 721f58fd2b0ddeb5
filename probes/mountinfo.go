package probes

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// mount is one line of mountinfo.
type mount struct {
	dev   string // major:minor
	point string
}

// parseMountinfo reads /proc/PID/mountinfo:
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
//
// Blanks in names are written as three octal digits after a backslash.
func parseMountinfo(b []byte) ([]mount, error) {
	var list []mount
	for line := range bytes.Lines(b) {
		fields := bytes.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 7 {
			return nil, fmt.Errorf("mountinfo line with %d fields", len(fields))
		}
		list = append(list, mount{dev: text(fields[2]), point: text(unescapeOctal(fields[4]))})
	}
	return list, nil
}

// unescapeOctal undoes the kernel's \040.
func unescapeOctal(b []byte) []byte {
	if !bytes.Contains(b, []byte(`\`)) {
		return b
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+3 < len(b) {
			if n, err := strconv.ParseUint(string(b[i+1:i+4]), 8, 8); err == nil {
				out = append(out, byte(n))
				i += 3
				continue
			}
		}
		out = append(out, b[i])
	}
	return out
}

// mountsOf lists where a device or its partitions are mounted.
func mountsOf(mounts []mount, devs []string) []string {
	var points []string
	for _, m := range mounts {
		for _, dev := range devs {
			if m.dev == strings.TrimSpace(dev) {
				points = append(points, m.point)
			}
		}
	}
	return points
}

package sshlink

import (
	"slices"
	"strings"
)

// Aliases lists the names that ssh_config's Host lines give without a pattern,
// sorted: the hosts that somebody has written down.
func (c *Config) Aliases() []string {
	names := map[string]bool{}
	for _, f := range c.files {
		f.aliases(names)
	}
	out := make([]string, 0, len(names))
	for n := range names {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

func (f *configFile) aliases(names map[string]bool) {
	for _, block := range f.blocks.Hosts {
		for _, p := range block.Patterns {
			if n := p.String(); n != "" && !strings.ContainsAny(n, "*?!") {
				names[n] = true
			}
		}
		for _, node := range block.Nodes {
			if d := f.lines[node.Pos().Line]; d != nil {
				for _, inner := range d.include {
					inner.aliases(names)
				}
			}
		}
	}
}

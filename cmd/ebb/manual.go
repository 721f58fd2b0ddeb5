package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// manual is what help and man page of a command say beyond its own text.
type manual struct {
	example string
	exits   []int // statuses besides 0, 1 and 2, which any command may end with
}

// statuses are the exit statuses in words.
var statuses = map[int]string{
	exitDone:     "done",
	exitError:    "error",
	exitUsage:    "the command line makes no sense",
	exitRefused:  "refused: the gate is closed, it is not permitted, or it is somebody else's",
	exitDeadline: "the deadline is reached, and workloads are left",
	exitStopped:  "stopped",
}

// manuals has every command that people call, by its path.
var manuals = map[string]manual{
	"ebb": {example: `  ebb                          the console
  ebb --read-only --theme light`},
	"ebb hosts":         {example: "  ebb hosts\n  ebb hosts -o json"},
	"ebb cordon":        {example: "  ebb cordon gpu-041 --reason \"slow, looking\"\n  ebb cordon gpu-041 gpu-042 --no-wait", exits: []int{exitRefused, exitStopped}},
	"ebb uncordon":      {example: "  ebb uncordon gpu-041\n  ebb uncordon gpu-041 --theirs --reason \"agreed with ops\"", exits: []int{exitRefused, exitStopped}},
	"ebb plan":          {example: "  ebb plan gpu-041\n  ebb plan gpu-041 --deadline 2h --for kernel -o json"},
	"ebb drain":         {example: "  ebb drain gpu-041 --deadline 45m --for kernel\n  ebb drain gpu-041            take an unfinished one up again", exits: []int{exitRefused, exitDeadline, exitStopped}},
	"ebb undrain":       {example: "  ebb undrain gpu-041", exits: []int{exitRefused, exitStopped}},
	"ebb resume":        {example: "  ebb resume gpu-041\n  ebb resume gpu-041/notebook/nb-7", exits: []int{exitRefused, exitStopped}},
	"ebb ask":           {example: "  ebb ask gpu-041 extend 30m\n  ebb ask gpu-041/db/pg-orders hold --reason \"standby is behind\"", exits: []int{exitRefused}},
	"ebb accept":        {example: "  ebb accept gpu-041 netns/ns-7f3a --reason \"goes with the machine\"", exits: []int{exitRefused}},
	"ebb board":         {example: "  ebb board gpu-041\n  ebb board gpu-041 --watch", exits: []int{exitStopped}},
	"ebb diff":          {example: "  ebb diff gpu-041 --all", exits: []int{exitStopped}},
	"ebb clean":         {example: "  ebb clean gpu-041                  dry run\n  ebb clean gpu-041 --kind netns --yes", exits: []int{exitRefused}},
	"ebb verify":        {example: "  ebb verify gpu-041 --out proof.json", exits: []int{exitRefused}},
	"ebb proof":         {example: "  ebb proof check proof.json"},
	"ebb proof check":   {example: "  ebb proof check proof.json", exits: []int{exitRefused}},
	"ebb proof signers": {example: "  ebb proof signers gpu-041 > allowed_signers"},
	"ebb terminate":     {example: "  ebb terminate gpu-041 --proof proof.json --confirm gpu-041", exits: []int{exitRefused}},
	"ebb log":           {example: "  ebb log gpu-041\n  ebb log --follow", exits: []int{exitStopped}},
	"ebb replay":        {example: "  ebb replay night.jsonl\n  ebb replay night.jsonl --plain"},
	"ebb handover":      {example: "  ebb handover -o md\n  ebb handover --write \"pg-orders catches up at 14:40\"\n  ebb handover --accept"},
	"ebb doctor":        {example: "  ebb doctor\n  ebb doctor --sample > fleet.toml"},
	"ebb agent":         {example: "  ebb agent install gpu-041"},
	"ebb agent install": {example: "  ebb agent install gpu-041"},
	"ebb agent rebind":  {example: "  ebb agent rebind gpu-041 --confirm gpu-041", exits: []int{exitRefused}},
	"ebb demo":          {example: "  ebb demo\n  ebb demo --script maintenance"},
	"ebb lever":         {example: "  ebb lever test ./vm-lever"},
	"ebb lever test":    {example: "  ebb lever test --workload try.json ./vm-lever"},
	"ebb run":           {example: "  ebb run\n  ebb run --unit > /etc/systemd/system/ebb.service", exits: []int{exitStopped}},
}

// exitStatus says what a command may end with.
func (m manual) exitStatus() string {
	var b strings.Builder
	b.WriteString("Exit status:\n")
	for _, n := range append([]int{exitDone, exitError, exitUsage}, m.exits...) {
		fmt.Fprintf(&b, "  %d  %s\n", n, statuses[n])
	}
	return strings.TrimRight(b.String(), "\n")
}

// document gives every command its examples and exit statuses.
func document(c *cobra.Command) {
	if m, ok := manuals[c.CommandPath()]; ok {
		c.Example = m.example
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		c.Long = text + "\n\n" + m.exitStatus()
	}
	for _, sub := range c.Commands() {
		document(sub)
	}
}

package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"ebb/cmd/version"
)

// manCommand writes the man pages: ebb.1, and one for each verb. It is hidden:
// packages call it, and "make man".
func manCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("man: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			root.InitDefaultHelpCmd()
			date := a.pageDate()
			head := &doc.GenManHeader{Title: "EBB", Section: "1", Source: "ebb " + version.Version, Manual: "ebb", Date: &date}
			if err := doc.GenManTree(root, head, args[0]); err != nil {
				return fmt.Errorf("man: %w", err)
			}
			return nil
		},
	}
}

// pageDate is the day on the pages: that of the source, not that on which they
// were made, so that the same source makes the same pages.
func (a *app) pageDate() time.Time {
	if s, err := strconv.ParseInt(a.getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		return time.Unix(s, 0).UTC()
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
					return t
				}
			}
		}
	}
	return time.Unix(0, 0).UTC()
}

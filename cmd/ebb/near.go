package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ebb/tui/words"
)

// badFlag is a usage error about a flag, with the ones that it is near to.
func badFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var all []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				all = append(all, f.Name)
			}
		})
		if near := words.Near(unknown.GetSpecifiedName(), all); len(near) > 0 {
			err = fmt.Errorf("%w: did you mean --%s?", err, strings.Join(near, " or --"))
		}
	}
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) && bad.GetFlag().Value.Type() == "duration" {
		err = fmt.Errorf("--%s: %w", bad.GetFlag().Name, bad.Unwrap())
	}
	return &usageError{err: err, command: c.CommandPath()}
}

// badCommand is a usage error about a word where a command is wanted.
func badCommand(c *cobra.Command, word string) error {
	var all []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, sub.Name())
		}
	}
	return fmt.Errorf("%s: no command is called %q%s", c.CommandPath(), word, words.Suggest(word, all))
}

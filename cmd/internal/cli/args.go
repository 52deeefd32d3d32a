package cli

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"
)

// Any is for [Takes]: as many as one likes.
const Any = math.MaxInt

// Takes bounds the number of words of a command. What names them for who forgot
// them, as "a run directory".
func Takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch n := len(args); {
		case n < least:
			return fmt.Errorf("it needs %s: %s", what, cmd.UseLine())
		case n > most:
			return fmt.Errorf("it takes %s, and %q is more than that: %s", what, args[most], cmd.UseLine())
		}
		return nil
	}
}

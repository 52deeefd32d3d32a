package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// maxSuggestions is how many flags are suggested: a word that is like more of them
// than that is like none.
const maxSuggestions = 3

// badFlag adds to a flag that a command does not know those that are like it.
func badFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	word := unknown.GetSpecifiedName()
	// Two letters of three are no likeness.
	known := &cobra.Command{SuggestionsMinimumDistance: min(suggestWithin, max(1, len(word)-2))}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			like := &cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}}
			if len(f.Name) > 2 && strings.HasPrefix(word, f.Name) { // --output for --out
				like.SuggestFor = []string{word}
			}
			known.AddCommand(like)
		}
	})
	if like := known.SuggestionsFor(word); unknown.GetSpecifiedShortnames() == "" && 0 < len(like) && len(like) <= maxSuggestions {
		return fmt.Errorf("%w: did you mean --%s?", err, strings.Join(like, " or --"))
	}
	return fmt.Errorf("%w: %s --help lists its flags", err, cmd.CommandPath())
}

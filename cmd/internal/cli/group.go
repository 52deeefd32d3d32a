package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// refuseUnknownWords makes every group of commands below root refuse a word that
// it does not know. Left alone, cobra prints the group's help and reports success
// there: a typo in a script would turn a gate green.
func refuseUnknownWords(root *cobra.Command) {
	root.SuggestionsMinimumDistance = suggestWithin
	// A group runs only to refuse: its usage has no line of its own for that.
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1))
	root.InitDefaultCompletionCmd()
	root.SetHelpCommand(newHelp())
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		group(c)
	}
}

// suggestWithin is how many letters a suggestion may differ by.
const suggestWithin = 2

func group(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		group(c)
	}
	if !cmd.HasSubCommands() {
		return
	}
	cmd.SuggestionsMinimumDistance = suggestWithin
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownWord(cmd, args[0])
		}
		cmd.SetOut(cmd.ErrOrStderr()) // what was asked for is not there: its output stays empty
		return errors.Join(cmd.Help(), errors.New("name one of the commands above"))
	}
}

// unknownWord refuses a word that is none of a command's.
func unknownWord(cmd *cobra.Command, word string) error {
	advice := fmt.Sprintf("%s --help lists its commands", cmd.CommandPath())
	if like := cmd.SuggestionsFor(word); len(like) > 0 {
		advice = fmt.Sprintf("did you mean %s?", strings.Join(like, " or "))
	} else if !cmd.HasAvailableSubCommands() {
		advice = "it has none"
	}
	return fmt.Errorf("unknown command %q for %q: %s", word, cmd.CommandPath(), advice)
}

// newHelp replaces cobra's own, which reports success for a word that it does not
// know.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return unknownWord(about, rest[0])
			}
			about.InitDefaultHelpFlag() // so that the help has it
			return about.Help()
		},
	}
}

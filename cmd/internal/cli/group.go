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
	root.SetFlagErrorFunc(badFlag)
	root.Args = cobra.ArbitraryArgs // so that it refuses as the others do
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownWord(cmd, args[0])
		}
		return cmd.Help()
	}
	// Cobra asks for help before it looks at the words.
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if misnamed(cmd) == nil {
			help(cmd, args)
		}
	})
	root.InitDefaultHelpFlag()
	for _, c := range root.Commands() {
		group(c)
	}
}

// suggestWithin is how many letters a suggestion may differ by.
const suggestWithin = 2

func group(cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag() // a flag that is not known yet would take the next word for its value
	for _, c := range cmd.Commands() {
		group(c)
	}
	if !cmd.HasSubCommands() {
		return
	}
	cmd.SuggestionsMinimumDistance = suggestWithin
	cmd.Args = cobra.ArbitraryArgs
	own := cmd.RunE // of a group that does something by itself, as server
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownWord(cmd, args[0])
		}
		if own != nil {
			return own(cmd, args)
		}
		cmd.SetOut(cmd.ErrOrStderr()) // what was asked for is not there: its output stays empty
		return errors.Join(cmd.Help(), errors.New("name one of the commands above"))
	}
}

// misnamed refuses the words that a command line named a command by, as far as
// they are none. It is for a command whose flags were read, which stands for its
// help: what a command does with its words when it runs is its own affair.
func misnamed(cmd *cobra.Command) error {
	words := cmd.Flags().Args()
	if cmd.HasSubCommands() && len(words) > 0 {
		return unknownWord(cmd, words[0])
	}
	if cmd.Name() == helpName && cmd.Parent() == cmd.Root() {
		_, err := topic(cmd.Root(), words)
		return err
	}
	return nil
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

const helpName = "help"

// newHelp replaces cobra's own, which reports success for a word that it does not
// know.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   helpName + " [COMMAND]",
		Short: "Help about a command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, err := topic(cmd.Root(), args)
			if err != nil {
				return err
			}
			return about.Help()
		},
	}
}

// topic is the command that words name.
func topic(root *cobra.Command, words []string) (*cobra.Command, error) {
	about, rest, err := root.Find(words)
	if err == nil && len(rest) > 0 {
		err = unknownWord(about, rest[0])
	}
	return about, err
}

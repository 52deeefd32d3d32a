// Package cli is what all commands share: the root command, exit codes, progress
// and the version. A command is a thin skin over the libraries: flags fill a
// configuration, the configuration runs, and [Main] turns the outcome into an
// exit code. The environment, the arguments and the exit are touched below cmd,
// and nowhere else.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// Exit codes, the same for every command.
const (
	ExitOK      = 0 // done, and good
	ExitUsage   = 1 // used wrongly, or a fault of ours
	ExitUnknown = 2 // could not measure
	ExitFailed  = 3 // measured, and it failed
)

// coded is an error that knows its exit code.
type coded struct {
	code int
	err  error
}

func (c coded) Error() string { return c.err.Error() }
func (c coded) Unwrap() error { return c.err }

// Unknown makes an error mean: could not measure.
func Unknown(err error) error { return coded{ExitUnknown, err} }

// Failed makes an error mean: measured, and it failed.
func Failed(err error) error { return coded{ExitFailed, err} }

// Judged makes an error mean what a verdict says of it. Only a pass is no error:
// a verdict that nobody gave, or that this version does not know, is unknown.
func Judged(v assay.Verdict, err error) error {
	switch v {
	case assay.Pass:
		return nil
	case assay.Fail:
		return Failed(err)
	}
	return Unknown(err)
}

// ExitCode is the one place that turns an outcome into an exit code. Of several
// errors the worst counts: what failed is not hidden by what is unknown.
func ExitCode(err error) int {
	code := ExitOK
	walk(err, func(c int) { code = max(code, c) })
	return code
}

// walk gives the code of each error that was joined.
func walk(err error, code func(int)) {
	switch e := err.(type) { //nolint:errorlint // it unwraps by itself, to see each of several
	case nil:
	case coded:
		code(e.code)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			walk(one, code)
		}
	default:
		var c coded
		if inner := errors.Unwrap(err); inner != nil && errors.As(err, &c) {
			walk(inner, code)
			return
		}
		code(ExitUsage)
	}
}

// Root is the root command of a program with the given commands. Its licenses are
// those of what it contains, as tools/licenses packs them.
func Root(name string, licenses []byte, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   name,
		Short: "Assay proves what a GPU inference node can do",
		Long: `Assay proves what a GPU inference node can do: how fast it is, how healthy it
is, what a token costs on it, and that the proof is true.

Start with:
  ` + name + ` hammer        finds an engine on this machine and measures it for a minute
  ` + name + ` verify        is the GPU what it says, and does it compute right
  ` + name + ` ledger        sign a run, and verify one that somebody gives you
  ` + name + ` simulate      an engine whose truth is known, to measure the measurer

Exit codes: 0 done and good, 1 usage or internal error, 2 could not measure,
3 measured and it failed.`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		Version:           Version().Assay,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetVersionTemplate(versionLine(name))
	root.AddCommand(commands...)
	root.AddCommand(newVersion(name, licenses))
	refuseUnknownWords(root)
	new(logFlags).register(root)
	completeValues(root)
	return root
}

// Main runs a root command as the process's main: interrupted by Ctrl-C once,
// it ends in order and saves what there is; the second time it ends at once.
// Words rewrites the command line first; nil leaves it as it was typed.
func Main(root *cobra.Command, words func([]string) []string) int {
	ctx, stop := interruptible(context.Background())
	defer stop()
	args := os.Args[1:]
	if words != nil {
		args = words(args)
	}
	return Run(ctx, root, args)
}

// maxError bounds what is printed of an error. It may hold a file's name, an
// engine's answer or a node's words, and is the last place where they can be
// made harmless.
const maxError = 64 << 10

// Run runs a root command with a command line. It gives the exit code.
func Run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = misnamed(cmd)
	}
	if err != nil {
		fmt.Fprintf(root.ErrOrStderr(), "%s: %s\n", cmd.CommandPath(), foreign.Clip(err.Error(), maxError))
	}
	return ExitCode(err)
}

// interruptible gives a context that ends at the first SIGINT or SIGTERM. The
// signals get their default meaning back then, so that a second one ends a
// process that is stuck.
func interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

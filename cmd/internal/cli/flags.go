package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// valuesAnnotation holds what a flag may be, for a shell to complete.
const valuesAnnotation = "assay_values"

// Values says what a flag may be. A shell completes it; to refuse anything else is
// its command's job.
func Values(fs *pflag.FlagSet, name string, values ...string) {
	if err := fs.SetAnnotation(name, valuesAnnotation, values); err != nil {
		panic(err) // a name that the line above does not have
	}
}

// FormatFlag adds --format, or -f, to the flags of a command. The first format is
// the default.
func FormatFlag(fs *pflag.FlagSet, to *string, help string, formats ...string) {
	fs.StringVarP(to, "format", "f", formats[0], help)
	Values(fs, "format", formats...)
}

// completeValues has the shells complete what Values was told of the flags of a
// command and of those below it.
func completeValues(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		values := f.Annotations[valuesAnnotation]
		if len(values) == 0 {
			return
		}
		// The flag is the command's own and has no other function.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	})
	for _, c := range cmd.Commands() {
		completeValues(c)
	}
}

// WithScheme is an address as a person types it: one without a scheme is http.
func WithScheme(address string) string {
	if address == "" || strings.Contains(address, "://") {
		return address
	}
	return "http://" + address
}

// seconds is a flag's duration: 90s, 1m30s, or a number of seconds.
type seconds time.Duration

// SecondsVar adds a flag for a duration that may be written without its unit, as
// other load testers have it: 5 is 5s.
func SecondsVar(fs *pflag.FlagSet, to *time.Duration, name string, value time.Duration, help string) {
	*to = value
	fs.Var((*seconds)(to), name, help)
}

func (s *seconds) String() string {
	if *s == 0 {
		return "0" // which a list of flags does not show as a default
	}
	return time.Duration(*s).String()
}

// Type is the word for the flag's value in a list of flags.
func (s *seconds) Type() string { return "duration" }

// maxSeconds is the most that a duration holds.
const maxSeconds = float64(1<<63-1) / float64(time.Second)

func (s *seconds) Set(text string) error {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err == nil && n >= 0 && n < maxSeconds {
		*s = seconds(n * float64(time.Second))
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is no duration: write 30s, 5m, 1h30m, or a number of seconds", text)
	}
	*s = seconds(d)
	return nil
}

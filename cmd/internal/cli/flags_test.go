package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{"5": 5 * time.Second, "0.5": 500 * time.Millisecond, "90s": 90 * time.Second, "1m30s": 90 * time.Second, "0": 0, "-1s": -time.Second} {
		var got time.Duration
		fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
		SecondsVar(fs, &got, "duration", time.Minute, "how long")
		if err := fs.Parse([]string{"--duration", text}); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, bad := range []string{"5 minutes", "soon", "", "1e300", "NaN", "inf"} {
		var got time.Duration
		fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
		SecondsVar(fs, &got, "duration", time.Minute, "how long")
		if err := fs.Parse([]string{"--duration=" + bad}); err == nil || !strings.Contains(err.Error(), "a number of seconds") {
			t.Errorf("%q: %s, %v", bad, got, err)
		}
	}
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	var zero, ten time.Duration
	SecondsVar(fs, &zero, "zero", 0, "none")
	SecondsVar(fs, &ten, "ten", 10*time.Second, "some")
	if got := fs.FlagUsages(); strings.Contains(got, "default 0") || !strings.Contains(got, "--ten duration") || !strings.Contains(got, "(default 10s)") || ten != 10*time.Second {
		t.Errorf("%s", got)
	}
}

func TestWithScheme(t *testing.T) {
	for in, want := range map[string]string{"": "", "gpu:8000": "http://gpu:8000", "10.0.0.7:8000/v1": "http://10.0.0.7:8000/v1", "https://gpu": "https://gpu", "http://gpu": "http://gpu"} {
		if got := WithScheme(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// A shell is told what each flag may be, also those that all commands have; it picks
// what fits.
func TestValuesAreCompleted(t *testing.T) {
	root := func() *cobra.Command {
		var format string
		c := &cobra.Command{Use: "show", Args: cobra.NoArgs, Run: func(*cobra.Command, []string) {}}
		FormatFlag(c.Flags(), &format, "how", "text", "json")
		return Root("tool", nil, c)
	}
	for line, want := range map[string]string{
		"show --format ":     "text json",
		"show -f j":          "text json",
		"show --log-level w": "debug info warn error",
		"--log-format ":      "text json",
	} {
		var out bytes.Buffer
		r := root()
		r.SetOut(&out)
		r.SetErr(&out)
		r.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, strings.Split(line, " ")...))
		if err := r.Execute(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for word := range strings.FieldsSeq(out.String()) {
			if strings.HasPrefix(word, ":") {
				break
			}
			got = append(got, word)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q\n%s", line, got, want, out.String())
		}
	}
}

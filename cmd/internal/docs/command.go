package docs

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// eachCommand visits a command and those below it, as help lists them: without
// those that only processes of our own call.
func eachCommand(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			eachCommand(c, visit)
		}
	}
}

// option is a flag as a reader sees it.
type option struct {
	name, short string // without dashes; short may be empty
	value       string // what is given to it; empty: nothing
	initial     string // empty: none
	meaning     string
}

// options are a command's own flags, or those that all commands below it have too.
func options(flags *pflag.FlagSet) (out []option) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, meaning := pflag.UnquoteUsage(f)
		o := option{name: f.Name, short: f.Shorthand, value: value, meaning: meaning}
		switch f.DefValue {
		case "", "false", "0", "0s", "[]", "<nil>":
		default:
			o.initial = f.DefValue
		}
		out = append(out, o)
	})
	return out
}

// spelled is a flag with its short form and what is given to it.
func (o option) spelled() string {
	s := "--" + o.name
	if o.short != "" {
		s = "-" + o.short + ", " + s
	}
	if o.value != "" {
		s += " " + o.value
	}
	return s
}

// passage is a paragraph of a help text, or lines that stand as they are.
type passage struct {
	lines []string
	asIs  bool
}

// passages parts a help text at its empty lines. Lines that are indented, or a list
// that has such lines, stand as they are.
func passages(text string) (out []passage) {
	for block := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		p := passage{lines: strings.Split(strings.Trim(block, "\n"), "\n")}
		var words []string
		for i, line := range p.lines {
			if strings.HasPrefix(line, " ") {
				// A heading that ends in a colon is a paragraph of its own.
				if len(words) == i && i > 0 && strings.HasSuffix(words[i-1], ":") {
					out = append(out, passage{lines: words})
					p.lines = p.lines[i:]
				}
				p.asIs = true
				break
			}
			words = append(words, line)
		}
		if n := len(out); p.asIs && n > 0 && out[n-1].asIs {
			out[n-1].lines = append(append(out[n-1].lines, ""), p.lines...)
			continue
		}
		out = append(out, p)
	}
	return out
}

// about is what a command says of itself.
func about(cmd *cobra.Command) string {
	if cmd.Long != "" {
		return cmd.Long
	}
	return cmd.Short + "."
}

// exitCodes is the paragraph of the root's help that has them.
func exitCodes(root *cobra.Command) string {
	for _, p := range passages(root.Long) {
		if words, ok := strings.CutPrefix(strings.Join(p.lines, " "), "Exit codes: "); ok {
			return words
		}
	}
	return ""
}

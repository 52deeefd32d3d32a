package docs

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
)

// manual makes a manual page for each command. There is no date in it: the same
// program makes the same pages.
func manual(root *cobra.Command) map[string][]byte {
	files := map[string][]byte{}
	eachCommand(root, func(c *cobra.Command) { files[manName(c)+".1"] = manPage(c) })
	return files
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func manPage(cmd *cobra.Command) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"assay %s\" \"Assay\"\n", strings.ToUpper(manName(cmd)), cli.Release)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(cmd)), roff(cmd.Short))
	b.WriteString(".SH SYNOPSIS\n")
	asIs(&b, cmd.UseLine())
	b.WriteString(".SH DESCRIPTION\n")
	for _, p := range passages(about(cmd)) {
		if p.asIs {
			asIs(&b, strings.Join(p.lines, "\n"))
			continue
		}
		b.WriteString(".PP\n" + roff(strings.Join(p.lines, "\n")) + "\n")
	}
	manOptions(&b, "OPTIONS", options(cmd.NonInheritedFlags()))
	manOptions(&b, "OPTIONS OF EVERY COMMAND", options(cmd.InheritedFlags()))
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n")
		asIs(&b, cmd.Example)
	}
	b.WriteString(".SH EXIT STATUS\n" + roff(exitCodes(cmd.Root())) + "\n")
	var also []string
	if cmd.HasParent() {
		also = append(also, manName(cmd.Parent()))
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			also = append(also, manName(c))
		}
	}
	b.WriteString(".SH SEE ALSO\n")
	for i, name := range also {
		end := ","
		if i == len(also)-1 {
			end = ""
		}
		fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(name), end)
	}
	return []byte(b.String())
}

func manOptions(b *strings.Builder, head string, list []option) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", head)
	for _, o := range list {
		meaning := o.meaning
		if o.initial != "" {
			meaning += " (default " + o.initial + ")"
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(o.spelled()), roff(meaning))
	}
}

// asIs writes lines that are not filled.
func asIs(b *strings.Builder, text string) {
	fmt.Fprintf(b, ".PP\n.nf\n%s\n.fi\n", roff(text))
}

// roff makes text stand as it is: its backslashes, its hyphens, what is not ASCII,
// and lines that begin as a request does.
func roff(text string) string {
	var b strings.Builder
	for _, r := range strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`).Replace(text) {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, `\[u%04X]`, r)
	}
	text = b.String()
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

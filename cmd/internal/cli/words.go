package cli

import "strings"

// Words rewrites a command line so that a flag may be followed by several
// words, as argparse's nargs allows and pflag does not: with goodput in
// several, "--goodput a b" becomes "--goodput a --goodput b". A flag's words
// end at the next word that begins with "-". Flags that are not in several
// are left alone with what follows them, so "-1" stays the value of a flag
// that takes one, and a switch never swallows a word. A flag of several without
// a word gets the empty one, for its owner to complain about.
//
// Names in several have dashes; in args "_" counts as "-". Nothing behind "--"
// is touched.
func Words(args []string, several map[string]bool) []string {
	out := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		word := args[i]
		if word == "--" {
			return append(out, args[i:]...)
		}
		name, ok := strings.CutPrefix(word, "--")
		if !ok || !several[Dashed(name)] {
			out = append(out, word)
			continue
		}
		n := 0
		for i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			n++
			out = append(out, word, args[i])
		}
		if n == 0 {
			out = append(out, word+"=") // or pflag would take the next flag as its word
		}
	}
	return out
}

// Dotted rewrites "--extra-body.a.b 1" and "--extra-body.a.b=1" as
// "--extra-body a.b=1" for the flags in objects.
func Dotted(args []string, objects map[string]bool) []string {
	out := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		word := args[i]
		if word == "--" {
			return append(out, args[i:]...)
		}
		name, ok := strings.CutPrefix(word, "--")
		name, value, given := strings.Cut(name, "=")
		flag, path, dotted := strings.Cut(name, ".")
		if !ok || !dotted || !objects[Dashed(flag)] {
			out = append(out, word)
			continue
		}
		if !given {
			if i+1 == len(args) {
				return append(out, word)
			}
			i++
			value = args[i]
		}
		out = append(out, "--"+flag, path+"="+value)
	}
	return out
}

// Dashed is a flag's name as it is registered: vLLM takes "_" for "-".
func Dashed(name string) string { return strings.ReplaceAll(name, "_", "-") }

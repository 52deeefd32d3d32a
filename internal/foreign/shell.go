package foreign

import "strings"

// Shell writes a command line so that a shell reads the same words, for people to
// paste. It writes no backslash: Markdown doubles one, and what was quoted by it
// would not be any more where somebody pastes from the source.
func Shell(words ...string) string {
	out := make([]string, len(words))
	for i, w := range words {
		if w != "" && strings.IndexFunc(w, func(r rune) bool { return !shellPlain(r) }) < 0 {
			out[i] = w
		} else {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'"'"'`) + "'"
		}
	}
	return strings.Join(out, " ")
}

func shellPlain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=+,./:@%", r)
}

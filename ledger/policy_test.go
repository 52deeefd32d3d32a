package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/transparency-dev/tessera"
)

func TestParsePolicy(t *testing.T) {
	log := "log " + NoteVerifierKey(runOrigin, runSigner('L').Public())
	w := func(n byte) string {
		return fmt.Sprintf("witness w%d %s https://w%d.example.org/", n, CosignatureVerifierKey(fmt.Sprintf("w%d.example.org", n), runSigner('W'+n).Public()), n)
	}
	join := func(lines ...string) string { return strings.Join(lines, "\n") + "\n" }
	for _, c := range []struct{ name, text, want string }{
		{"no witness", join(log, "quorum none"), ""},
		{"one", join("# words", "", log+" https://log.example.org/", w(1), "quorum w1"), ""},
		{"groups in groups", join(log, w(1), w(2), w(3), "group a 1 w1 w2", "group b all a w3", "quorum b"), ""},
		{"any", join(log, w(1), w(2), "group a any w1 w2", "quorum a"), ""},
		{"empty", "", "names no log"},
		{"no quorum", join(log), "no quorum"},
		{"two quorums", join(log, "quorum none", "quorum none"), "a quorum already"},
		{"unknown quorum", join(log, "quorum w1"), `"w1" is no witness`},
		{"unknown word", join("logs x"), "unknown word"},
		{"unknown member", join(log, w(1), "group a 1 w2", "quorum a"), `"w2" is no witness`},
		{"a group of itself", join(log, w(1), "group a 1 a", "quorum a"), `"a" is no witness`},
		{"too many of them", join(log, w(1), "group a 2 w1", "quorum a"), "not possible"},
		{"none of them", join(log, w(1), "group a 0 w1", "quorum a"), "not possible"},
		{"a member twice", join(log, w(1), w(2), "group a 2 w1 w1", "quorum a"), "count twice"},
		{"a witness twice", join(log, w(1), strings.Replace(w(1), "witness w1", "witness w9", 1), "quorum none"), "the same key"},
		{"a name twice", join(log, w(1), w(1), "quorum none"), "given twice"},
		{"the log as its own witness", join(log, "witness w "+CosignatureVerifierKey("w", runSigner('L').Public()), "quorum w"), "the same key"},
		{"a log twice", join(log, log, "quorum none"), "there twice"},
		{"a keyword as a name", join(log, strings.Replace(w(1), "witness w1", "witness none", 1), "quorum none"), "no name"},
		{"a witness's key for a log", join(strings.Replace(w(1), "witness w1", "log", 1), "quorum none"), "must be of kind 1"},
		{"a log's key for a witness", join(log, strings.Replace(log, "log ", "witness w ", 1), "quorum w"), "must be of kind 4"},
		{"an altered key", join(strings.Replace(log, "+", "+0", 1), "quorum none"), "hash does not fit"},
		{"no key", join("log x", "quorum none"), "not a verifier key"},
		{"a comment behind", join(log+" # mine", "quorum none"), "log VKEY"},
		{"a comment behind a group", join(log, w(1), "group a 1 w1", "quorum a#"), "no witness"},
		{"not text", "\xff\n", "not UTF-8"},
		{"too long", strings.Repeat("#\n", 40_000), "bytes"},
		{"too many lines", join(strings.Repeat("#\n", 2000)+log, "quorum none"), "more than 1000 lines"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := ParsePolicy([]byte(c.text))
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("error = %v, want %q", err, c.want)
			}
			if err != nil {
				return
			}
			text, err := p.MarshalText()
			if err != nil || string(text) != c.text {
				t.Errorf("%q, %v", text, err)
			}
			// What we take Tessera takes too, and asks for as many.
			g, err := tessera.NewWitnessGroupFromPolicy(text)
			if err != nil {
				t.Fatal(err)
			}
			if none := g.N == 0; none != (p.quorum == "") {
				t.Errorf("Tessera asks for %d witnesses", g.N)
			}
		})
	}
}

func TestQuorum(t *testing.T) {
	p := Policy{quorum: "b", groups: map[string]group{"a": {1, []string{"w1", "w2"}}, "b": {2, []string{"a", "w3"}}}}
	for signed, want := range map[string]bool{"": false, "w1": false, "w3": false, "w1 w2": false, "w1 w3": true, "w2 w3": true, "w1 w2 w3": true} {
		m := map[string]bool{}
		for _, w := range strings.Fields(signed) {
			m[w] = true
		}
		if got := p.met(p.quorum, m); got != want {
			t.Errorf("%q: %v", signed, got)
		}
	}
}

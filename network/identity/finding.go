package identity

import "github.com/assay-bench/assay/internal/foreign"

// Verdicts of findings, as they are stored. Nothing is said of what is well.
const (
	Fail    = "fail"    // the policy says what follows
	Unknown = "unknown" // it is kept for people to see, and nothing follows
)

// maxText bounds what a finding says, since it repeats what nodes say.
const maxText = 400

// Finding is something about a node that a person might want to know.
type Finding struct {
	Node    string
	Kind    string // of control
	Verdict string
	Subject string // what it is about, as "gpu GPU-…": it is told once about each
	Text    string // all of it in a sentence
}

func found(node, kind, subject, text string) Finding {
	return Finding{Node: node, Kind: kind, Verdict: Fail, Subject: foreign.Line(subject, 150), Text: foreign.Line(text, maxText)}
}

func unknown(node, kind, subject, text string) Finding {
	f := found(node, kind, subject, text)
	f.Verdict = Unknown
	return f
}

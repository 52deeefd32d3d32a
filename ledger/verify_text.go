package ledger

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// notProved is what no signature and no log can say, and what this one lacks.
func (v *verification) notProved() []string {
	out := []string{
		"that the operator measured honestly: whoever holds the key can sign what they like",
		"that the GPU was real: assay verify looks into that",
		"that there are no other runs, which were never published",
		"that the key was not revoked later than the revocations given here say",
	}
	if v.d.layout == &operationsLayout {
		out[1] = "that the GPU was real: its owner can run the work on other hardware, and can replace the driver"
		out[2] = "of which node the operations are, but by the signer's word; and that there are no others, which were never published"
	}
	witnessed := false
	for _, s := range v.Statements {
		if s.Log != nil && len(s.Log.Witnesses) > 0 {
			witnessed = true
		}
	}
	switch {
	case witnessed:
		out = append(out, "that the witnesses are independent: one that the log's own operator runs proves little")
	case v.Since != nil && v.Since.By == "log":
		out = append(out, "that the log shows everybody the same: no witness has seen it")
	default:
		out = append(out, "when it was signed: only the signer says so")
	}
	return out
}

// Line is the answer in one line: the verdict and whose word it is, or the worst of
// what was found.
func (v Verification) Line() string {
	if len(v.Problems) > 0 {
		return foreign.Line(fmt.Sprintf("%s: %s", v.Verdict, v.Problems[0].Text), maxLine)
	}
	if v.Signer == nil {
		return v.Verdict.String()
	}
	return foreign.Line(fmt.Sprintf("%s: as %s signed it, and unaltered since", v.Verdict, v.Signer.Owner), maxLine)
}

// Text writes the answer for a person.
func (v Verification) Text(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", name, foreign.Line(fmt.Sprintf(format, args...), maxLine))
	}
	line("verdict", "%s", v.Line())
	for _, p := range v.Problems[min(1, len(v.Problems)):] {
		line("", "%s: %s", p.Verdict, p.Text)
	}
	if r := v.Run; r != nil {
		line("run", "%s of node %s, %s, %s, %s", r.ID, r.Node, clockTime(r.Created), r.Model, r.Status)
		line("tests", "%s, by the signer's word", r.Result)
		if r.Nonce != "" {
			line("nonce", "%s", r.Nonce)
		}
	}
	if o := v.Operations; o != nil {
		line("operations", "%d of node %s, %d failed%s", o.Operations, o.Node, o.Failed, o.between())
		line("checks", "%s", o.Result)
	}
	if s := v.Signer; s != nil {
		v.signer(line)
	} else {
		line("signed by", "not known")
	}
	for _, s := range v.Statements {
		switch {
		case s.Log != nil:
			line("in the log", "%s: %s, index %d of %d, taken at %s", s.File, s.Log.Origin, s.Log.Index, s.Log.Size, clockTime(s.Log.Time))
			if len(s.Log.Witnesses) == 0 {
				line("", "no witness has seen it")
			}
			for _, c := range s.Log.Witnesses {
				line("", "seen by witness %s at %s", c.Name, clockTime(c.Time))
			}
		case s.Signature == "missing":
			line("statement", "%s: missing", s.File)
		default:
			line("in no log", "%s: signature %s", s.File, s.Signature)
		}
	}
	for _, s := range v.Subjects {
		line("file", "%-16s %s", s.Name, s.State)
	}
	for _, k := range v.Keys {
		whole := "complete by the log's signature"
		if !k.Complete {
			whole = "whether any is missing only who collected them knows"
		}
		line("keys", "of log %s with %d entries, as of %s (%s), %s old; %s", k.Origin, k.Size, clockTime(k.AsOf), k.By, v.at.Sub(k.AsOf).Round(time.Second), whole)
	}
	v.unaltered(line)
	line("figures", "%s", v.Figures.Text)
	for _, n := range v.Notes {
		line("note", "%s", n)
	}
	for i, n := range v.NotProved {
		if i == 0 {
			b.WriteString("this does not prove\n")
		}
		line("", "%s", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// between says when the operations were.
func (o VerifiedOperations) between() string {
	if o.First == nil || o.Last == nil {
		return ""
	}
	return fmt.Sprintf(", from %s to %s", clockTime(*o.First), clockTime(*o.Last))
}

func (v Verification) signer(line func(string, string, ...any)) {
	s := v.Signer
	if !s.Trusted {
		line("signed by", "%s, self-reported", s.Owner)
	} else {
		line("signed by", "%s", s.Owner)
	}
	line("", "key %s of node %s, valid from %s to %s", shortKeyID(s.KeyID), s.Node, clockTime(s.NotBefore), clockTime(s.NotAfter))
	switch {
	case s.SelfSigned && s.Trusted:
		line("", "%s", strings.TrimSpace("trusted by --trust "+v.TrustFiles[s.KeyID]))
	case s.SelfSigned:
		line("", "nobody else says whose key it is")
	case s.Authority != "":
		text := fmt.Sprintf("authority: %s, key %s", s.Authority, shortKeyID(s.AuthorityKey))
		if file := v.TrustFiles[s.AuthorityKey]; file != "" {
			text += ", trusted by --trust " + file
		}
		line("", "%s", text)
	default:
		line("", "the statement about it is signed by key %s, which is not known here", shortKeyID(s.AuthorityKey))
	}
	if s.RevocationsTo == nil {
		line("", "no revocations were given: a later or an unseen one would not be known")
	} else {
		line("", "%d revocations were given, the newest of %s; a later one would not be known", s.Revocations, clockTime(*s.RevocationsTo))
	}
}

// altered says why nothing shows that it is as it was signed.
func (v Verification) altered() string {
	var changed []string
	for _, s := range v.Subjects {
		if s.State == SubjectAltered || s.State == SubjectMissing {
			changed = append(changed, s.Name)
		}
	}
	if len(changed) == 0 {
		return "not known"
	}
	return "no: " + strings.Join(changed, ", ") + " changed"
}

func (v Verification) unaltered(line func(string, string, ...any)) {
	switch s := v.Since; {
	case s == nil:
		line("unaltered", "%s", v.altered())
	case s.By == "witness":
		line("unaltered", "since %s at the latest, by the word of witness %s", clockTime(s.Time), s.Who)
	case s.By == "log":
		line("unaltered", "since %s, by the word of the log %s alone", clockTime(s.Time), s.Who)
	default:
		line("unaltered", "since it was signed; that this was at %s is the word of %s alone", clockTime(s.Time), s.Who)
	}
}

// maxLine bounds a line of the answer, in bytes.
const maxLine = 4 << 10

// Err is nil for a pass, and otherwise says the worst of what was found.
func (v Verification) Err() error {
	if v.Verdict == assay.Pass {
		return nil
	}
	what := "it could not be verified"
	if v.Verdict == assay.Fail {
		what = "it does not hold"
	}
	return fmt.Errorf("%s: %s", what, foreign.Line(v.Problems[0].Text, maxLine))
}

package notary

import (
	"bytes"

	"github.com/assay-bench/assay/ledger"
)

// quickStatement reads the payload of a run's statement in the spelling that our
// own programs write, in one pass and without a JSON decoder: its type, its stamp,
// and every rule of ParseStatement and shape. Nearly all that a notary reads is so.
//
// It may take only what those two take, with the same stamp; of anything else it
// says nothing, and they judge. A test and a fuzz test compare the two.
func quickStatement(payload []byte) (kind string, st ledger.Stamp, ok bool) {
	if len(payload) > ledger.MaxPayload {
		return "", st, false
	}
	r := &quick{b: payload, ok: true}
	r.lit(`{"_type":"` + ledger.StatementType + `","subject":[`)
	subjects := 0
	for r.each(&subjects) {
		r.lit(`{"name":`)
		r.some()
		r.lit(`,"digest":`)
		r.digest()
		r.lit(`}`)
	}
	r.lit(`,"predicateType":"`)
	switch {
	case subjects == 0 || subjects > ledger.MaxSubjects:
		return "", st, false
	case r.has(ledger.GPUBenchmark + `","predicate":{`):
		kind = ledger.GPUBenchmark
		st = r.benchmark()
	case r.has(ledger.TestResult + `","predicate":{`):
		kind = ledger.TestResult
		st = r.testResult()
	default:
		return "", st, false
	}
	r.lit(`}`)
	return kind, st, r.ok && len(r.b) == 0
}

// quick reads literal words and values one after the other. After the first that
// does not fit it reads nothing more.
type quick struct {
	b  []byte
	ok bool
}

func (r *quick) benchmark() ledger.Stamp {
	st := r.stamp()
	r.lit(`,"run":{"id":`)
	r.some()
	r.lit(`,"status":`)
	r.some()
	r.lit(`,"created":`)
	created := st.Time
	r.check(created.UnmarshalText(r.plain()) == nil && !created.IsZero())
	r.lit(`},"engine":{"url":`)
	r.text()
	r.lit(`,"backend":`)
	r.text()
	r.lit(`,"model":`)
	r.text()
	if r.has(`,"version":`) {
		r.text()
	}
	r.lit(`},"gpus":[`)
	for n := 0; r.each(&n); {
		r.lit(`{"uuid":`)
		r.text()
		r.lit(`,"name":`)
		r.text()
		r.lit(`}`)
	}
	r.lit(`,"tool":{"assay":`)
	r.some()
	r.lit(`,"go":`)
	r.text()
	r.lit(`},"certificate":`)
	r.text()
	r.lit(`,"results":[`)
	for n := 0; r.each(&n); {
		r.result()
	}
	if r.has(`,"results_left_out":`) {
		r.count()
	}
	r.lit(`,"health":`)
	if !r.has(`null}`) {
		r.lit(`{"score":`)
		r.number()
		r.lit(`,"verdict":`)
		var h ledger.BenchmarkHealth
		r.check(h.Verdict.UnmarshalText(r.plain()) == nil)
		r.lit(`,"because":`)
		r.text()
		r.lit(`}}`)
	}
	return st
}

func (r *quick) result() {
	r.lit(`{"stage":`)
	r.some()
	r.lit(`,"metric":`)
	r.some()
	if r.has(`,"stat":`) {
		r.text()
	}
	r.lit(`,"unit":`)
	r.text()
	r.lit(`,"value":`)
	known := r.number()
	r.lit(`,"lo":`)
	r.number()
	r.lit(`,"hi":`)
	r.number()
	r.lit(`,"n":`)
	r.count()
	if r.has(`,"why":`) {
		known = r.text() > 0 || known
	}
	r.check(known)
	r.lit(`}`)
}

func (r *quick) testResult() ledger.Stamp {
	r.lit(`"result":"`)
	r.check(r.has(`PASSED`) || r.has(`WARNED`) || r.has(`FAILED`))
	r.lit(`","configuration":[{"name":`)
	r.text()
	r.lit(`,"digest":`)
	r.digest()
	r.lit(`,"annotations":{`)
	st := r.stamp()
	r.lit(`}}],"passedTests":[`)
	r.texts()
	r.lit(`,"warnedTests":[`)
	r.texts()
	r.lit(`,"failedTests":[`)
	r.texts()
	r.lit(`}`)
	return st
}

func (r *quick) stamp() (st ledger.Stamp) {
	r.lit(`"id":`)
	r.check(st.ID.UnmarshalText(r.plain()) == nil && st.ID.Time() != 0)
	r.lit(`,"node":`)
	st.Node = string(r.plain())
	r.check(st.Node != "" && len(st.Node) <= ledger.MaxNode)
	r.lit(`,"nonce":`)
	st.Nonce = string(r.plain())
	r.lit(`,"time":`)
	r.check(st.Time.UnmarshalText(r.plain()) == nil && !st.Time.IsZero())
	return st
}

func (r *quick) texts() {
	for n := 0; r.each(&n); {
		r.text()
	}
}

// check stops the reading where a rule does not hold.
func (r *quick) check(holds bool) { r.ok = r.ok && holds }

// lit takes a word that must be next.
func (r *quick) lit(word string) { r.check(r.has(word)) }

// has takes a word if it is next.
func (r *quick) has(word string) bool {
	if !r.ok || len(r.b) < len(word) || string(r.b[:len(word)]) != word {
		return false
	}
	r.b = r.b[len(word):]
	return true
}

// each goes on to a list's next value, and past its end: n counts the values.
func (r *quick) each(n *int) bool {
	if r.has(`]`) {
		return false
	}
	if *n > 0 {
		r.lit(`,`)
	}
	*n++
	return r.ok
}

// plain takes a string of printable ASCII without escapes: as it is spelled, so it
// is.
func (r *quick) plain() []byte {
	raw := r.raw()
	for _, c := range raw {
		r.check(c < 0x7f && c != '\\')
	}
	return raw
}

// text takes any string, and gives the length of its spelling.
func (r *quick) text() int {
	raw := r.raw()
	for i := bytes.IndexByte(raw, '\\'); i >= 0 && i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++ // there is one: raw ends where a quote stands without
		switch c := raw[i]; {
		case bytes.IndexByte([]byte(`"\/bfnrt`), c) >= 0:
		case c == 'u' && i+4 < len(raw):
			for _, h := range raw[i+1 : i+5] {
				r.check('0' <= h && h <= '9' || 'a' <= h && h <= 'f' || 'A' <= h && h <= 'F')
			}
		default:
			r.check(false)
		}
	}
	return len(raw)
}

// some takes a string that is not empty.
func (r *quick) some() { r.check(r.text() > 0) }

// raw takes a string up to the quote that ends it.
func (r *quick) raw() []byte {
	r.lit(`"`)
	if !r.ok {
		return nil
	}
	for i := 0; i < len(r.b); i++ {
		switch c := r.b[i]; {
		case c == '"':
			raw := r.b[:i]
			r.b = r.b[i+1:]
			return raw
		case c < ' ':
			i = len(r.b)
		case c == '\\':
			i++
		}
	}
	r.ok = false
	return nil
}

// digest takes an object with a SHA-256 and nothing else.
func (r *quick) digest() {
	r.lit(`{"sha256":`)
	raw := r.raw()
	r.check(len(raw) == 64)
	for _, c := range raw {
		r.check('0' <= c && c <= '9' || 'a' <= c && c <= 'f')
	}
	r.lit(`}`)
}

// number takes a number or null, and reports which. One that is so long, or has
// such an exponent, that it might not be a float64 is for others to read.
func (r *quick) number() (known bool) {
	if r.has(`null`) {
		return false
	}
	from := len(r.b)
	r.has(`-`)
	if !r.has(`0`) {
		r.check(r.digits() > 0)
	}
	if r.has(`.`) {
		r.check(r.digits() > 0)
	}
	if r.has(`e`) || r.has(`E`) {
		_ = r.has(`+`) || r.has(`-`)
		n := r.digits()
		r.check(n > 0 && n <= 2)
	}
	r.check(from-len(r.b) <= 40)
	return true
}

// count takes a whole number that is not negative.
func (r *quick) count() {
	if !r.has(`0`) {
		n := r.digits()
		r.check(n > 0 && n <= 18)
	}
}

func (r *quick) digits() int {
	n := 0
	for n < len(r.b) && '0' <= r.b[n] && r.b[n] <= '9' {
		n++
	}
	r.b = r.b[n:]
	return n
}

package ledger

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
)

// Proof files beside a run.
const (
	TestResultFile       = "test-result.dsse.json"
	BenchmarkFile        = "gpu-benchmark.dsse.json"
	KeyFile              = "key.dsse.json"
	TestResultReceipt    = "test-result.tlog-proof"
	BenchmarkReceiptFile = "gpu-benchmark.tlog-proof"
	KeyReceipt           = "key.tlog-proof"
)

// SignOptions are what SignRun and SignOperations can be told. The zero value is good.
type SignOptions struct {
	Now time.Time    // zero: the clock's
	IDs [2]ulid.ULID // of test-result and gpu-benchmark, or the first of gpu-operations; zero: made from Now and chance
	// Replace allows to sign again what has statements with receipts, which
	// are removed: they are about the statements that are replaced.
	Replace bool
}

// Errors of signing.
var (
	// ErrRunning means that the run is not at its end. Wait for it.
	ErrRunning = errors.New("the run is still being written: sign it when it has ended")
	// ErrReceipts means that signing again would throw proof away.
	ErrReceipts = errors.New("it is signed, and its statements are in a log; signing it again would remove their receipts")
)

// CheckSigner says whether runs and operations of this node can be signed now. It is asked
// before a run, which must not fail at its end for the want of a good key.
func CheckSigner(s Signer, key Key, node string, now time.Time) error {
	switch {
	case !bytes.Equal(s.Public(), key.Public):
		return fmt.Errorf("%s: its statement is about another key than the one that signs (%s)", key, shortKeyID(KeyID(s.Public())))
	case node == "":
		return errors.New("this node has no id, so nobody could tell whose it is")
	}
	for _, p := range predicates {
		if p.Role != RoleRun {
			continue
		}
		if err := p.signs(node)(knownKey{Key: key}); err != nil {
			return err
		}
	}
	return inTime(key, now, time.Time{})
}

// SignRun makes the two statements about a run that has ended, signs them and
// writes them into its directory, with the statement about the key. It gives
// the records for an outbox: the statements, and before them that of the key if
// an authority signed it (a log does not take a key's own word).
func SignRun(ctx context.Context, dir string, s Signer, key Key, o SignOptions) ([]Record, error) {
	records, err := signRun(ctx, dir, s, key, o)
	if err != nil {
		return nil, fmt.Errorf("sign run %s: %w", dir, err)
	}
	return records, nil
}

func signRun(ctx context.Context, dir string, s Signer, key Key, o SignOptions) ([]Record, error) {
	d, err := openRunDir(dir, &runLayout)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := d.replaceable(o); err != nil {
		return nil, err
	}
	r, err := d.read()
	if err != nil {
		return nil, err
	}
	o = o.resolved()
	if err := CheckSigner(s, key, r.manifest.Node.ID, o.Now); err != nil {
		return nil, err
	}
	if n := r.manifest.Nonce; n != "" && CheckNonce(n) != nil {
		return nil, fmt.Errorf("%s: %w", journal.RunFile, CheckNonce(n))
	}
	subjects, err := d.subjects(r.manifest)
	if err != nil {
		return nil, err
	}
	return signing{s, key, o, r.manifest.Node.ID, r.manifest.Nonce}.sign(ctx, d, subjects, r.testResult, r.benchmark)
}

// resolved gives the time its value.
func (o SignOptions) resolved() SignOptions {
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	o.Now = o.Now.UTC().Truncate(time.Millisecond)
	return o
}

// signing is who signs what of which node.
type signing struct {
	signer      Signer
	key         Key
	o           SignOptions
	node, nonce string
}

// sign makes the statements of a directory, one of each function in the order of
// its layout, and writes them.
func (s signing) sign(ctx context.Context, d *runDir, subjects []ResourceDescriptor, kinds ...func(Stamp) (string, any)) ([]Record, error) {
	var files []proofFile
	var records []Record
	if !s.key.SelfSigned() {
		records = append(records, Record{s.key.Stamp.ID, KindEnvelope, s.key.Node, s.key.Envelope})
	}
	for i, predicate := range kinds {
		st := Stamp{ID: s.o.IDs[i], Node: s.node, Nonce: s.nonce, Time: s.o.Now}
		if st.ID == (ulid.ULID{}) {
			var err error
			if st.ID, err = ulid.New(ulid.Timestamp(s.o.Now), rand.Reader); err != nil {
				return nil, fmt.Errorf("make an id: %w", err)
			}
		}
		kind, p := predicate(st)
		envelope, err := signStatement(ctx, s.signer, kind, subjects, p)
		if err != nil {
			return nil, err
		}
		files = append(files, proofFile{d.layout.statements[i].file, envelope})
		records = append(records, Record{st.ID, KindEnvelope, st.Node, envelope})
	}
	// Receipts go first: one that stands beside another statement than its own
	// would look like tampering.
	for _, name := range d.existing(d.layout.receipts()...) {
		if err := d.root.Remove(name); err != nil {
			return nil, err
		}
	}
	return records, d.write(append(files, proofFile{KeyFile, s.key.Envelope}))
}

// signStatement makes the envelope of one statement. What was made is read back
// as a verifier would: a statement that cannot be read must not be signed.
func signStatement(ctx context.Context, s Signer, kind string, subjects []ResourceDescriptor, predicate any) ([]byte, error) {
	var raw bytes.Buffer
	encode := json.NewEncoder(&raw)
	encode.SetEscapeHTML(false)
	if err := encode.Encode(predicate); err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	payload, err := Statement{Type: StatementType, Subject: subjects, PredicateType: kind, Predicate: raw.Bytes()}.payload()
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	if _, _, err := ParseStatement(payload); err != nil {
		return nil, err
	}
	e, err := Sign(ctx, s, payload)
	if err != nil {
		return nil, err
	}
	return e.Encode(), nil
}

// CheckNonce says what is wrong with a nonce, if something is.
func CheckNonce(nonce string) error {
	if len(nonce) < 32 || len(nonce) > 128 || len(nonce)%2 != 0 || strings.Trim(nonce, "0123456789abcdef") != "" {
		return fmt.Errorf("the nonce %.140q is not 16 to 64 bytes in lower-case hexadecimal", nonce)
	}
	return nil
}

// readRun is what the statements are made from.
type readRun struct {
	manifest assay.Manifest
	status   assay.Status
	summary  *assay.Summary // nil: there is none
	health   *assay.Health  // nil: there is none
	checks   map[string]assay.Verdict
}

// checked is what a check was about.
type checked struct{ name, device string }

// worstCheck is the verdict by a check's name. A run that was resumed may have
// checked a thing twice: then the later one stands.
func worstCheck(run *journal.Run) (map[string]assay.Verdict, error) {
	last := map[checked]assay.Verdict{}
	for c, err := range run.Checks() {
		if err != nil {
			return nil, err
		}
		last[checked{c.Name, c.Device}] = c.Verdict
	}
	return worstOf(last), nil
}

// worstOf is the verdict by a check's name. Of several devices the worst counts.
func worstOf(last map[checked]assay.Verdict) map[string]assay.Verdict {
	out := map[string]assay.Verdict{}
	for t, v := range last {
		if old, ok := out[t.name]; !ok || badness(v) > badness(old) {
			out[t.name] = v
		}
	}
	return out
}

// badness orders verdicts for a statement: unknown is worse than a pass.
func badness(v assay.Verdict) int {
	switch v {
	case assay.Pass:
		return 0
	case assay.Fail:
		return 2
	}
	return 1
}

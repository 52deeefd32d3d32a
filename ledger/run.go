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

// SignOptions are what SignRun can be told. The zero value is good.
type SignOptions struct {
	Now time.Time    // zero: the clock's
	IDs [2]ulid.ULID // of test-result and gpu-benchmark; zero: made from Now and chance
	// Replace allows to sign again a run whose statements have receipts, which
	// are removed: they are about the statements that are replaced.
	Replace bool
}

// Errors of signing.
var (
	// ErrRunning means that the run is not at its end. Wait for it.
	ErrRunning = errors.New("the run is still being written: sign it when it has ended")
	// ErrReceipts means that signing again would throw proof away.
	ErrReceipts = errors.New("the run is signed, and its statements are in a log; signing it again would remove their receipts")
)

// CheckSigner says whether a run of this node can be signed now. It is asked
// before a run, which must not fail at its end for the want of a good key.
func CheckSigner(s Signer, key Key, node string, now time.Time) error {
	switch {
	case !bytes.Equal(s.Public(), key.Public):
		return fmt.Errorf("%s: its statement is about another key than the one that signs (%s)", key, shortKeyID(KeyID(s.Public())))
	case node == "":
		return errors.New("this node has no id, so nobody could tell whose run it is")
	}
	for _, kind := range []string{TestResult, GPUBenchmark} {
		p, _ := predicateOf(kind)
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
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	o.Now = o.Now.UTC().Truncate(time.Millisecond)
	d, err := openRunDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	receipts := d.existing(TestResultReceipt, BenchmarkReceiptFile, KeyReceipt)
	if len(receipts) > 0 && !o.Replace {
		return nil, ErrReceipts
	}
	r, err := d.read()
	if err != nil {
		return nil, err
	}
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
	var files []proofFile
	var records []Record
	if !key.SelfSigned() {
		records = append(records, Record{key.Stamp.ID, KindEnvelope, key.Node, key.Envelope})
	}
	for i, make := range []func(Stamp) (string, any){r.testResult, r.benchmark} {
		st := Stamp{ID: o.IDs[i], Node: r.manifest.Node.ID, Nonce: r.manifest.Nonce, Time: o.Now}
		if st.ID == (ulid.ULID{}) {
			if st.ID, err = ulid.New(ulid.Timestamp(o.Now), rand.Reader); err != nil {
				return nil, fmt.Errorf("make an id: %w", err)
			}
		}
		kind, predicate := make(st)
		envelope, err := signStatement(ctx, s, kind, subjects, predicate)
		if err != nil {
			return nil, err
		}
		files = append(files, proofFile{[]string{TestResultFile, BenchmarkFile}[i], envelope})
		records = append(records, Record{st.ID, KindEnvelope, st.Node, envelope})
	}
	// Receipts go first: one that stands beside another statement than its own
	// would look like tampering.
	for _, name := range receipts {
		if err := d.root.Remove(name); err != nil {
			return nil, err
		}
	}
	return records, d.write(append(files, proofFile{KeyFile, key.Envelope}))
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

// worstCheck is the verdict by a check's name. A run that was resumed may have
// checked a thing twice: then the later one stands. Of several devices the
// worst counts.
func worstCheck(run *journal.Run) (map[string]assay.Verdict, error) {
	type thing struct{ name, device string }
	last := map[thing]assay.Verdict{}
	for c, err := range run.Checks() {
		if err != nil {
			return nil, err
		}
		last[thing{c.Name, c.Device}] = c.Verdict
	}
	out := map[string]assay.Verdict{}
	for t, v := range last {
		if old, ok := out[t.name]; !ok || badness(v) > badness(old) {
			out[t.name] = v
		}
	}
	return out, nil
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

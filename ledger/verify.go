package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
)

// VerificationFormat names the format of what a verification answers.
const VerificationFormat = "assay/ledger-verification/v1"

// futureSlack is how far two clocks may differ before a time counts as one that
// has not come yet.
const futureSlack = 10 * time.Minute

// VerifyOptions say whom to trust and what to ask for.
type VerifyOptions struct {
	// Keys are those that are trusted, and what is known of others. Nil: nobody
	// is, and the answer is at best unknown. The statement about the key beside
	// the run is added to them if one of their authorities signed it.
	Keys *Keyring
	// Policy says which logs and witnesses are trusted. Nil: receipts are not
	// judged, and the answer says so.
	Policy      *Policy
	NeedReceipt bool   // without a good receipt of each statement the answer is no pass
	Nonce       string // the auditor's, that the run must carry; empty: any
	// Snapshots are those that were added to Keys, for the answer to say of when
	// they are. MaxKeysAge is how old the newest may be, by a witness's word or the
	// log's; zero: any age.
	Snapshots  []VerifiedKeys
	MaxKeysAge time.Duration
	// Recompute makes the summary and the health report again from the evidence.
	// Nil: the figures are not held against it, and the answer says so.
	Recompute func(dir string) (assay.Summary, assay.Health, error)
	// Version is that of Assay here: another may have computed figures otherwise,
	// and a difference is then no proof of a lie.
	Version string
	Now     time.Time // zero: the clock's
}

// Verification is the answer: for machines as it stands, for people by Text.
type Verification struct {
	Format     string              `json:"format"`
	Verdict    assay.Verdict       `json:"verdict"`
	Problems   []Problem           `json:"problems"`   // why it is no pass; the worst first
	Run        *VerifiedRun        `json:"run"`        // null: not known, or no run
	Operations *VerifiedOperations `json:"operations"` // null: not known, or a run
	Signer     *VerifiedSigner     `json:"signer"`     // null: not known
	Statements []VerifiedStatement `json:"statements"`
	Subjects   []VerifiedSubject   `json:"subjects"`
	Since      *VerifiedSince      `json:"unaltered_since"` // null: not known to be unaltered
	Figures    VerifiedFigures     `json:"figures"`
	Keys       []VerifiedKeys      `json:"keys"` // snapshots of logs' keys that were given
	Notes      []string            `json:"notes"`
	NotProved  []string            `json:"does_not_prove"`

	// TrustFiles are the files that keys were trusted by, by key id: for Text to name,
	// where who asks knows them.
	TrustFiles map[string]string `json:"-"`

	at time.Time // when it was answered
}

// Problem is a reason for another verdict than a pass.
type Problem struct {
	Verdict assay.Verdict `json:"verdict"` // fail or unknown
	Text    string        `json:"text"`
}

// VerifiedRun is the run that the statements are about.
type VerifiedRun struct {
	ID      string       `json:"id"`
	Status  assay.Status `json:"status"`
	Node    string       `json:"node"`
	Nonce   string       `json:"nonce"`
	Created time.Time    `json:"created"`
	Model   string       `json:"model"`
	Result  string       `json:"result"` // of test-result: PASSED, WARNED, FAILED
}

// VerifiedOperations are the operations that the statement is about.
type VerifiedOperations struct {
	Node       string     `json:"node"` // by the signer's word
	Operations int        `json:"operations"`
	Failed     int        `json:"failed"`
	First      *time.Time `json:"first"` // null: there are none
	Last       *time.Time `json:"last"`
	Result     string     `json:"result"` // PASSED, WARNED, FAILED
}

// VerifiedSigner is whose signature it is.
type VerifiedSigner struct {
	KeyID         string     `json:"key_id"`
	Trusted       bool       `json:"trusted"` // false: what follows is the signer's own word
	Owner         string     `json:"owner"`
	Node          string     `json:"node"`
	NotBefore     time.Time  `json:"not_before"`
	NotAfter      time.Time  `json:"not_after"`
	Authority     string     `json:"authority"` // who vouches for the key; empty: the verifier trusts it itself
	AuthorityKey  string     `json:"authority_key_id,omitempty"`
	Revocations   int        `json:"revocations_known"`         // that were given, of any key
	RevocationsTo *time.Time `json:"revocations_to,omitempty"`  // when the newest of them was made
	SelfSigned    bool       `json:"key_statement_self_signed"` // nobody else says whose key it is
}

// VerifiedStatement is one of the statements.
type VerifiedStatement struct {
	File      string       `json:"file"`
	Predicate string       `json:"predicate,omitempty"`
	ID        string       `json:"id,omitempty"`
	Time      *time.Time   `json:"time,omitempty"` // by the signer's clock
	Signature string       `json:"signature"`      // good, bad, unknown, missing
	Log       *VerifiedLog `json:"log"`            // null: in no log that was judged
}

// VerifiedLog is where a statement is logged.
type VerifiedLog struct {
	Origin    string        `json:"origin"`
	Index     uint64        `json:"index"`
	Size      uint64        `json:"size"`
	Time      time.Time     `json:"time"` // when the broker took it, by the log's word
	Topic     string        `json:"topic"`
	Partition int32         `json:"partition"`
	Offset    int64         `json:"offset"`
	Witnesses []Cosignature `json:"witnesses"`
}

// States of a subject.
const (
	SubjectSame      = "same"
	SubjectAltered   = "altered"
	SubjectMissing   = "missing"
	SubjectNotSigned = "not signed" // a file of the run that no statement covers
)

// VerifiedSubject is one thing that was signed, or should have been.
type VerifiedSubject struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Signed string `json:"signed_sha256,omitempty"`
	Found  string `json:"found_sha256,omitempty"`
}

// VerifiedSince says since when the run is unaltered, and who says so.
type VerifiedSince struct {
	Time time.Time `json:"time"`
	By   string    `json:"by"`  // witness, log or signer
	Who  string    `json:"who"` // its name
}

// VerifiedFigures says whether the figures follow from the evidence.
type VerifiedFigures struct {
	Verdict assay.Verdict `json:"verdict"`
	Text    string        `json:"text"`
}

// verification is one under way.
type verification struct {
	Verification
	o          VerifyOptions
	d          *runDir
	key        *Key         // of KeyFile; nil: none that can be read
	statements []*statement // in the order of the layout; nil: missing or unreadable
	manifest   *assay.Manifest
	intact     bool // every subject is the same, and nothing else is there
}

// statement is one that could be read.
type statement struct {
	file      string
	raw       []byte
	envelope  Envelope
	statement Statement
	stamp     Stamp
	logged    time.Time // zero: no good receipt
}

// statementFiles are the two statements of a run with what each must hold.
var statementFiles = []statementFile{
	{TestResultFile, TestResultReceipt, TestResult},
	{BenchmarkFile, BenchmarkReceiptFile, GPUBenchmark},
}

// VerifyRun says what the signatures of a run and its receipts prove. It needs
// no network. An error means that there was nothing to look at; everything that
// is wrong with a run is in the answer.
func VerifyRun(dir string, o VerifyOptions) (Verification, error) {
	d, err := openRunDir(dir, &runLayout)
	if err != nil {
		return Verification{}, fmt.Errorf("verify run: %w", err)
	}
	defer d.Close()
	if _, err := d.root.Lstat(journal.RunFile); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fs.ErrNotExist // without the name of the system call
		}
		return Verification{}, fmt.Errorf("verify run %s: it has no %s, so it is not a run directory: %w", dir, journal.RunFile, err)
	}
	v := d.verification(o)
	v.signatures()
	v.compare()
	v.about()
	v.since()
	v.figures()
	v.conclude()
	return v.Verification, nil
}

// verification begins one.
func (d *runDir) verification(o VerifyOptions) *verification {
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	if o.Keys == nil {
		o.Keys = NewKeyring()
	}
	return &verification{o: o, d: d, Verification: Verification{
		at: o.Now, Format: VerificationFormat, Problems: []Problem{}, Statements: []VerifiedStatement{}, Subjects: []VerifiedSubject{}, Notes: []string{}, Keys: append([]VerifiedKeys{}, o.Snapshots...),
	}}
}

// signatures looks at keys, statements and receipts first: they are small, and
// what they cover may be anything.
func (v *verification) signatures() {
	v.fresh()
	v.readKey()
	for i := range v.d.layout.statements {
		v.read(i)
	}
	v.agree()
	for i, s := range v.statements {
		if s != nil {
			v.receipt(s, &v.Statements[i])
			v.signature(s, &v.Statements[i])
		}
	}
}

func (v *verification) problem(verdict assay.Verdict, format string, args ...any) {
	v.Problems = append(v.Problems, Problem{verdict, fmt.Sprintf(format, args...)})
}

func (v *verification) fail(format string, args ...any) { v.problem(assay.Fail, format, args...) }
func (v *verification) unknown(format string, args ...any) {
	v.problem(assay.Unknown, format, args...)
}
func (v *verification) note(format string, args ...any) {
	v.Notes = append(v.Notes, fmt.Sprintf(format, args...))
}

// readKey reads the statement about the key. Where an authority that is trusted
// signed it, the key counts from now on.
func (v *verification) readKey() {
	raw, err := v.d.bytes(KeyFile, MaxValue)
	if errors.Is(err, fs.ErrNotExist) {
		v.note("%s is not there: whose key it is must come from elsewhere", KeyFile)
		return
	}
	var k Key
	if err == nil {
		k, err = ParseKey(raw)
	}
	if err != nil {
		v.fail("%s: %v", KeyFile, err)
		return
	}
	v.key = &k
	logged := v.keyReceipt(raw, k.Stamp.ID) // a bad one is told, whoever signed the key
	if k.SelfSigned() {
		return // checked, and adds nothing to what is known
	}
	err = v.o.Keys.Add(raw, logged)
	same := func(o Key) bool { return string(o.Envelope) == string(raw) }
	switch {
	case err == nil || slices.ContainsFunc(v.o.Keys.Keys(), same): // given as trusted, or with its time
	case errors.Is(err, ErrUnknownKey):
		v.unknown("%s: %v", KeyFile, err)
	default:
		v.fail("%s: %v", KeyFile, err)
	}
}

// read reads one of the statements.
func (v *verification) read(i int) {
	f := v.d.layout.statements[i]
	v.statements = append(v.statements, nil)
	v.Statements = append(v.Statements, VerifiedStatement{File: f.file, Signature: "missing"})
	out := &v.Statements[i]
	raw, err := v.d.bytes(f.file, MaxValue)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	out.Signature = "bad"
	s := &statement{file: f.file, raw: raw}
	if err == nil {
		s.envelope, err = ReadEnvelope(raw)
	}
	if err == nil && (len(s.envelope.Signatures) != 1 || s.envelope.PayloadType != PayloadType) {
		err = fmt.Errorf("%w: it has %d signatures and the type %q", ErrEnvelope, len(s.envelope.Signatures), s.envelope.PayloadType)
	}
	if err == nil {
		s.statement, s.stamp, err = ParseStatement(s.envelope.Payload)
	}
	if err == nil && s.statement.PredicateType != f.predicate {
		err = fmt.Errorf("it holds the statement %s; was it swapped with the other one?", s.statement.PredicateType)
	}
	if err == nil {
		err = v.d.layout.check(s.statement.Subject)
	}
	if err != nil {
		v.fail("%s: %v", f.file, err)
		return
	}
	at := s.stamp.Time.UTC()
	out.Predicate, out.ID, out.Time, out.Signature = s.statement.PredicateType, s.stamp.ID.String(), &at, "unknown"
	if at.After(v.o.Now.Add(futureSlack)) {
		v.unknown("%s is of %s, and here it is %s: one of the clocks is wrong", f.file, clockTime(at), clockTime(v.o.Now))
	}
	v.statements[i] = s
}

// agree says which statements are missing, and compares those of a run.
func (v *verification) agree() {
	var files, missing []string
	for _, s := range v.Statements {
		files = append(files, s.File)
		if s.Signature == "missing" {
			missing = append(missing, s.File)
		}
	}
	switch {
	case len(missing) == len(files):
		v.unknown("the %s is not signed: there is no %s; assay ledger sign DIR signs it", v.d.layout.thing, strings.Join(files, " and no "))
	case len(missing) > 0:
		v.unknown("one of %s is missing: it was removed, or signing was interrupted", strings.Join(files, " and "))
	case len(files) == 2 && v.statements[0] != nil && v.statements[1] != nil:
		v.agreeing(v.statements[0], v.statements[1])
	}
}

// agreeing compares the two statements of a run with each other.
func (v *verification) agreeing(t, b *statement) {
	switch {
	case t.envelope.Signatures[0].KeyID != b.envelope.Signatures[0].KeyID:
		v.fail("the two statements are signed by different keys: %s and %s", shortKeyID(t.envelope.Signatures[0].KeyID), shortKeyID(b.envelope.Signatures[0].KeyID))
	case t.stamp.ID == b.stamp.ID:
		v.fail("the two statements have the same id %s", t.stamp.ID)
	case t.stamp.Node != b.stamp.Node:
		v.fail("the two statements are of different nodes: %q and %q", t.stamp.Node, b.stamp.Node)
	case t.stamp.Nonce != b.stamp.Nonce:
		v.fail("the two statements are of different runs: their nonces are %q and %q", t.stamp.Nonce, b.stamp.Nonce)
	case !sameSubjects(t.statement.Subject, b.statement.Subject):
		v.fail("the two statements are about different files: one of them was made at another time or for another run")
	}
}

func sameSubjects(a, b []ResourceDescriptor) bool {
	return slices.EqualFunc(a, b, func(x, y ResourceDescriptor) bool {
		return x.Name == y.Name && x.Digest["sha256"] == y.Digest["sha256"]
	})
}

// conclude makes the verdict of what was found.
func (v *verification) conclude() {
	v.Verdict = assay.Pass
	slices.SortStableFunc(v.Problems, func(a, b Problem) int { return badness(b.Verdict) - badness(a.Verdict) })
	if len(v.Problems) > 0 {
		v.Verdict = v.Problems[0].Verdict
	}
	v.NotProved = v.notProved()
}

// strict decodes JSON that must have no member that we do not know.
func strict(raw []byte, into any) error {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

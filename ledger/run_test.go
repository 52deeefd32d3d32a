package ledger

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testresult "github.com/in-toto/attestation/go/predicates/test_result/v0"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/oklog/ulid/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
)

var updateRun = flag.Bool("update-run", false, "write the golden statements")

// runSchemas are compiled once: it takes longer than what is validated.
var runSchemas sync.Map

func runValidate(t testing.TB, name string, doc []byte) {
	t.Helper()
	known, ok := runSchemas.Load(name)
	if !ok {
		s, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "docs", "formats", "schema", name+".schema.json"))
		if err != nil {
			t.Fatal(err)
		}
		known, _ = runSchemas.LoadOrStore(name, s)
	}
	s := known.(*jsonschema.Schema)
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(v); err != nil {
		t.Errorf("%s: %v\n%s", name, err, doc)
	}
}

func verifySchema(t testing.TB, v Verification) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	runValidate(t, "ledger-verification", b)
}

// signedFixture signs a copy of journal's example run.
func signedFixture(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "journal", "testdata", "run-v1"))); err != nil {
		t.Fatal(err)
	}
	s := runSigner(1)
	if _, err := SignRun(context.Background(), dir, s, runKey(t, s, s, "node-1"), SignOptions{Now: runNow, IDs: [2]ulid.ULID{runID(1), runID(2)}}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func runEnvelope(t *testing.T, path string) Envelope {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ReadEnvelope(b)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestStatementsAreGolden(t *testing.T) {
	dir := signedFixture(t)
	for _, name := range []string{"test-result", "gpu-benchmark"} {
		var got bytes.Buffer
		if err := json.Indent(&got, runEnvelope(t, filepath.Join(dir, name+".dsse.json")).Payload, "", "  "); err != nil {
			t.Fatal(err)
		}
		got.WriteByte('\n')
		golden := filepath.Join("testdata", name+".statement.json")
		if *updateRun {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", golden, diff)
		}
	}
	s, _, err := ParseStatement(runEnvelope(t, filepath.Join(dir, BenchmarkFile)).Payload)
	if err != nil {
		t.Fatal(err)
	}
	runValidate(t, "gpu-benchmark", s.Predicate)
}

// in-toto's own library reads and validates what we sign.
func TestStatementsAreInTotos(t *testing.T) {
	dir := signedFixture(t)
	for _, f := range statementFiles {
		var s intoto.Statement
		if err := protojson.Unmarshal(runEnvelope(t, filepath.Join(dir, f.file)).Payload, &s); err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", f.file, err)
		}
		if s.PredicateType != f.predicate || len(s.Subject) != 8 {
			t.Errorf("%s: %s, %d subjects", f.file, s.PredicateType, len(s.Subject))
		}
		if f.predicate != TestResult {
			continue
		}
		raw, err := protojson.Marshal(s.Predicate)
		if err != nil {
			t.Fatal(err)
		}
		var p testresult.TestResult
		if err := protojson.Unmarshal(raw, &p); err != nil {
			t.Fatal(err)
		}
		if p.Result == "" || len(p.Configuration) != 1 || p.Configuration[0].Annotations.Fields["node"].GetStringValue() != "node-1" {
			t.Errorf("test-result: %v", &p)
		}
		if err := p.Configuration[0].Validate(); err != nil {
			t.Error(err)
		}
	}
}

// foreignKey is an ed25519 key as go-securesystemslib wants it.
type foreignKey struct{ s Signer }

func (k foreignKey) KeyID() (string, error)   { return KeyID(k.s.Public()), nil }
func (k foreignKey) Public() crypto.PublicKey { return k.s.Public() }
func (k foreignKey) Sign(ctx context.Context, data []byte) ([]byte, error) {
	return k.s.Sign(ctx, data)
}

func (k foreignKey) Verify(_ context.Context, data, sig []byte) error {
	if !ed25519.Verify(k.s.Public(), data, sig) {
		return errors.New("bad signature")
	}
	return nil
}

// Envelopes go both ways between us and another implementation of DSSE.
func TestEnvelopesAreDSSEs(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(signedFixture(t), BenchmarkFile))
	if err != nil {
		t.Fatal(err)
	}
	ev, err := dsse.NewEnvelopeVerifier(foreignKey{runSigner(1)})
	if err != nil {
		t.Fatal(err)
	}
	var theirs dsse.Envelope
	if err := json.Unmarshal(raw, &theirs); err != nil {
		t.Fatal(err)
	}
	if _, payload, err := ev.VerifyAndDecode(t.Context(), &theirs); err != nil || !bytes.Contains(payload, []byte(GPUBenchmark)) {
		t.Errorf("theirs on ours: %v", err)
	}
	es, err := dsse.NewEnvelopeSigner(foreignKey{runSigner(2)})
	if err != nil {
		t.Fatal(err)
	}
	made, err := es.SignPayload(t.Context(), PayloadType, []byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = json.MarshalIndent(made, "", "  "); err != nil {
		t.Fatal(err)
	}
	e, err := ParseEnvelope(raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Verify(runSigner(2).Public()); err != nil || string(e.Payload) != `{"a":1}` {
		t.Errorf("ours on theirs: %v, %q", err, e.Payload)
	}
	if err := e.Verify(runSigner(1).Public()); !errors.Is(err, ErrSignature) {
		t.Errorf("with another key: %v", err)
	}
}

func TestSignRunRefuses(t *testing.T) {
	good := runSigner(1)
	for _, c := range []struct {
		name string
		do   func(*testing.T) error
		want string
	}{
		{"a run under way", func(t *testing.T) error {
			dir := filepath.Join(t.TempDir(), "run")
			w, err := journal.Create(dir, assay.Manifest{ID: "x", Node: assay.Node{ID: "node-1"}, Config: json.RawMessage("{}")})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if err := w.Checkpoint(assay.Checkpoint{Status: assay.StatusRunning}); err != nil {
				t.Fatal(err)
			}
			_, err = SignRun(context.Background(), dir, good, runKey(t, good, good, "node-1"), SignOptions{Now: runNow})
			return err
		}, ErrRunning.Error()},
		{"another node's key", func(t *testing.T) error {
			_, err := SignRun(context.Background(), runDirectory(t, "a", "node-1", ""), good, runKey(t, good, good, "node-2"), SignOptions{Now: runNow})
			return err
		}, ErrOtherNode.Error()},
		{"an expired key", func(t *testing.T) error {
			_, err := SignRun(context.Background(), runDirectory(t, "a", "node-1", ""), good, runKey(t, good, good, "node-1"), SignOptions{Now: runNow.AddDate(1, 0, 0)})
			return err
		}, ErrKeyExpired.Error()},
		{"a clock that was stepped back", func(t *testing.T) error {
			_, err := SignRun(context.Background(), runDirectory(t, "a", "node-1", ""), good, runKey(t, good, good, "node-1"), SignOptions{Now: runNow.AddDate(-1, 0, 0)})
			return err
		}, ErrKeyNotYetValid.Error()},
		{"a statement about another key", func(t *testing.T) error {
			_, err := SignRun(context.Background(), runDirectory(t, "a", "node-1", ""), runSigner(2), runKey(t, good, good, "node-1"), SignOptions{Now: runNow})
			return err
		}, "about another key"},
		{"no node", func(t *testing.T) error {
			_, err := SignRun(context.Background(), runDirectory(t, "a", "", ""), good, runKey(t, good, good, "node-1"), SignOptions{Now: runNow})
			return err
		}, "has no id"},
		{"receipts that would be lost", func(t *testing.T) error {
			s := newProvedRun(t)
			_, err := SignRun(context.Background(), s.dir, good, s.key, SignOptions{Now: runNow})
			return err
		}, ErrReceipts.Error()},
		{"a link in a file's place", func(t *testing.T) error {
			dir := runDirectory(t, "a", "node-1", "")
			p := filepath.Join(dir, journal.ChecksFile)
			if err := os.Remove(p); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("/dev/zero", p); err != nil {
				t.Fatal(err)
			}
			_, err := SignRun(context.Background(), dir, good, runKey(t, good, good, "node-1"), SignOptions{Now: runNow})
			return err
		}, "not a regular file"},
		{"no run", func(t *testing.T) error {
			_, err := SignRun(context.Background(), t.TempDir(), good, runKey(t, good, good, "node-1"), SignOptions{Now: runNow})
			return err
		}, "not a run directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.do(t); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

// A run that was broken off can be signed, and says so.
func TestSignPartialRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	w, err := journal.Create(dir, assay.Manifest{ID: "x", Created: 1, Node: assay.Node{ID: "node-1"}, Config: json.RawMessage("{}")})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Checkpoint(assay.Checkpoint{Status: assay.StatusPartial}), w.Close()); err != nil {
		t.Fatal(err)
	}
	s := runSigner(1)
	k := runKey(t, s, s, "node-1")
	records, err := SignRun(context.Background(), dir, s, k, SignOptions{Now: runNow})
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != 2 {
		t.Errorf("%d records; a key's own word is none", len(records))
	}
	for _, r := range records {
		if err := r.Check(); err != nil || r.Node != "node-1" {
			t.Errorf("%v, node %q", err, r.Node)
		}
	}
	v, err := VerifyRun(dir, VerifyOptions{Keys: NewKeyring(k), Now: runNow})
	if err != nil || v.Verdict != assay.Pass || v.Run.Status != assay.StatusPartial || v.Run.Result != "WARNED" {
		t.Errorf("%v, %v, %+v", err, v.Problems, v.Run)
	}
}

// With a key that an authority certified, its statement goes to the log first.
func TestSignRunRecordsTheKey(t *testing.T) {
	s, authority := runSigner(1), runSigner(9)
	k := runKey(t, s, authority, "node-1")
	records, err := SignRun(context.Background(), runDirectory(t, "a", "node-1", runNonce), s, k, SignOptions{Now: runNow})
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != 3 || !bytes.Equal(records[0].Value, k.Envelope) || records[0].ID != k.Stamp.ID {
		t.Errorf("%d records", len(records))
	}
}

// Whatever an engine or a driver says of itself, the run can be signed.
func TestSignRunOfAHostileEngine(t *testing.T) {
	for _, evil := range []string{strings.Repeat("\x00", 10_000), strings.Repeat(`"\`, 5_000), strings.Repeat("<&>", 5_000), strings.Repeat("\xff", 10_000), strings.Repeat("𝄞", 5_000)} {
		dir := filepath.Join(t.TempDir(), "run")
		m := assay.Manifest{ID: "x", Created: 1, Node: assay.Node{ID: "node-1"}, Config: json.RawMessage("{}"), Engine: assay.Engine{URL: evil, Model: evil, Backend: evil, Version: evil}}
		for range 20 {
			m.Node.GPUs = append(m.Node.GPUs, assay.GPU{Name: evil[:1000], UUID: evil[:1000]})
		}
		w, err := journal.Create(dir, m)
		if err != nil {
			t.Fatal(err)
		}
		sum, health := runSummary("x"), runHealth("x")
		health.Because = evil
		for range 60 {
			sum.Stages = append(sum.Stages, sum.Stages[0])
		}
		if err := errors.Join(w.Checkpoint(assay.Checkpoint{Status: assay.StatusComplete}), w.Summary(&sum), w.Health(&health), w.Close()); err != nil {
			t.Fatal(err)
		}
		s := runSigner(1)
		k := runKey(t, s, s, "node-1")
		if _, err := SignRun(context.Background(), dir, s, k, SignOptions{Now: runNow}); err != nil {
			t.Fatalf("%.10q: %v", evil, err)
		}
		v, err := VerifyRun(dir, VerifyOptions{Keys: NewKeyring(k), Now: runNow, Recompute: func(string) (assay.Summary, assay.Health, error) { return sum, health, nil }})
		if err != nil || v.Verdict != assay.Pass {
			t.Errorf("%.10q: %v, %v", evil, err, v.Problems)
		}
	}
}

func TestCheckNonce(t *testing.T) {
	for nonce, ok := range map[string]bool{
		runNonce: true, strings.Repeat("ab", 64): true, "": false, runNonce[:30]: false, strings.Repeat("ab", 65): false,
		runNonce + "a": false, strings.ToUpper(runNonce): false, "zz" + runNonce: false,
	} {
		if err := CheckNonce(nonce); (err == nil) != ok {
			t.Errorf("%q: %v", nonce, err)
		}
	}
}

func TestRunTests(t *testing.T) {
	sum := runSummary("x")
	sum.Stages[0].Objectives[0].Verdict = assay.Fail
	r := readRun{status: assay.StatusComplete, summary: &sum, checks: map[string]assay.Verdict{"a": assay.Unknown, "b": assay.Pass}}
	_, p := r.testResult(Stamp{Time: time.Time{}})
	got := p.(TestResultPredicate)
	want := TestResultPredicate{Result: "FAILED", Passed: []string{"check/b", "client/certificate", "run/complete"}, Warned: []string{"check/a"}, Failed: []string{"objective/ttft/p99"}}
	got.Configuration = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// A search goes beyond what is kept on purpose.
	sum.FindMax = &assay.FindMax{Load: assay.Quantity{N: 1, Est: 3}}
	r.checks = nil
	_, p = r.testResult(Stamp{})
	if got := p.(TestResultPredicate); got.Result != "PASSED" {
		t.Errorf("a search with an answer: %+v", got)
	}
}

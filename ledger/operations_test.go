package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
)

// recorded are the lines that a verification of two GPUs and an engine leaves.
func recorded() ([]assay.Operation, []assay.Check) {
	op := func(minutes int, device string) assay.Operation {
		return assay.Operation{
			At: runNow.Add(time.Duration(minutes-60) * time.Minute).UnixNano(), Action: "gpu_operation", Component: "gpu_monitor",
			Details:   "Operation: matrix_multiply, Input Shape: [2000, 2000], Time: 123ms, Device: " + device,
			Operation: "matrix_multiply", Shape: []int{2000, 2000}, Seconds: 0.123, Device: device,
		}
	}
	check := func(name, device string, v assay.Verdict) assay.Check {
		return assay.Check{At: 1, Name: name, Device: device, Verdict: v, Evidence: "seen", Proves: "it"}.Settled()
	}
	return []assay.Operation{op(2, "Cuda(1)"), op(0, "Cuda(0)"), op(1, "Cuda(0)")},
		[]assay.Check{check("compute.golden", "GPU-0", assay.Pass), check("compute.golden", "GPU-1", assay.Unknown), check("identity.sources", "GPU-0", assay.Pass)}
}

// operationsDirectory is what verify --out writes.
func operationsDirectory(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	ops, checks := recorded()
	write := func(name string, lines ...any) {
		var b strings.Builder
		for _, l := range lines {
			raw, err := json.Marshal(l)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(append(raw, '\n'))
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(OperationsFile, ops[0], ops[1], ops[2])
	write(journal.ChecksFile, checks[0], checks[1], checks[2])
	return dir
}

// newProvedOperations is such a directory, signed and logged.
func newProvedOperations(t testing.TB) provedRun {
	t.Helper()
	s := provedRun{dir: operationsDirectory(t), log: &runLog{}}
	signer := runSigner(1)
	s.key = runKey(t, signer, signer, "node-1", RoleRun)
	records, err := SignOperations(context.Background(), s.dir, "node-1", signer, s.key, SignOptions{Now: runNow, IDs: [2]ulid.ULID{runID(7)}})
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != 1 || records[0].Check() != nil || records[0].ID != runID(7) {
		t.Fatalf("records %+v", records)
	}
	s.log.add([]byte("before"))
	e := Entry{Position: Position{Topic, 0, 0}, Time: runNow.Add(time.Second), ID: records[0].ID, Envelope: records[0].Value}
	at := s.log.add(e.Encode())
	cp := s.log.checkpoint(t, 2, 1, 2)
	s.put(t, OperationsReceipt, s.log.receipt(t, e, at, 2, cp).Encode())
	s.opts = VerifyOptions{Keys: NewKeyring(s.key), Policy: runPolicy(t), NeedReceipt: true, Now: runNow.Add(2 * time.Hour)}
	return s
}

func (s provedRun) verifyOperations(t testing.TB) Verification {
	t.Helper()
	v, err := VerifyOperations(s.dir, s.opts)
	if err != nil {
		t.Fatal(err)
	}
	verifySchema(t, v)
	return v
}

// Recorded operations are signed, logged and verified as a run is, by one
// statement over their file.
func TestOperationsAreSignedProvedAndVerified(t *testing.T) {
	s := newProvedOperations(t)
	if !IsOperations(s.dir) || !slices.Equal(StatementFiles(s.dir), []string{OperationsStatement}) {
		t.Errorf("operations %v with %q", IsOperations(s.dir), StatementFiles(s.dir))
	}
	st, stamp, err := ParseStatement(runEnvelope(t, filepath.Join(s.dir, OperationsStatement)).Payload)
	if err != nil {
		t.Fatal(err)
	}
	runValidate(t, "gpu-operations", st.Predicate)
	var theirs intoto.Statement
	if err := protojson.Unmarshal(runEnvelope(t, filepath.Join(s.dir, OperationsStatement)).Payload, &theirs); err != nil || theirs.Validate() != nil {
		t.Errorf("in-toto does not take it: %v, %v", err, theirs.Validate())
	}
	var got Operations
	if err := checkOperations(st.Predicate, &got); err != nil {
		t.Fatal(err)
	}
	first, last := runNow.Add(-time.Hour), runNow.Add(-58*time.Minute)
	want := Operations{
		Stamp: stamp, Operations: 3, First: &first, Last: &last, Devices: []string{"Cuda(0)", "Cuda(1)"},
		Result: "WARNED", PassedChecks: []string{"identity.sources"}, WarnedChecks: []string{"compute.golden"}, FailedChecks: []string{},
	}
	if diff := cmp.Diff(want, got); diff != "" || stamp.Node != "node-1" {
		t.Errorf("node %q, (-want +got):\n%s", stamp.Node, diff)
	}
	v := s.verifyOperations(t)
	if v.Verdict != assay.Pass || v.Operations == nil || v.Operations.Operations != 3 || v.Run != nil || v.Figures.Verdict != assay.Pass ||
		v.Since == nil || v.Since.By != "witness" || v.Statements[0].Log == nil || len(v.Subjects) != 2 {
		t.Errorf("%s: %+v", v.Verdict, v)
	}
	var text strings.Builder
	if err := v.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"operations  3 of node node-1, 0 failed, from ", "checks      WARNED", "file        operations.jsonl same", "since 2026-11-15T13:01:00Z", "by the signer's word"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not said:\n%s", want, &text)
		}
	}
	// A run beside which they lie would be another thing.
	if _, err := VerifyRun(s.dir, s.opts); err == nil {
		t.Error("operations are taken for a run")
	}
	if _, err := VerifyOperations(t.TempDir(), s.opts); err == nil {
		t.Error("nothing is taken for operations")
	}
}

// Every byte of the operations and the checks, and some of what proves them,
// flipped or cut off, gives another answer than a pass, and so does a file that is gone or new.
func TestOperationsAlteredByteIsFound(t *testing.T) {
	s := newProvedOperations(t)
	proofs := []string{OperationsStatement, OperationsReceipt, KeyFile}
	for _, name := range append([]string{OperationsFile, journal.ChecksFile}, proofs...) {
		whole := s.get(t, name)
		step := 1
		if slices.Contains(proofs, name) {
			step = 17
		}
		for i := 0; i < len(whole); i += step {
			bad := slices.Clone(whole)
			bad[i] ^= 1
			s.put(t, name, bad)
			if v, err := VerifyOperations(s.dir, s.opts); err != nil || v.Verdict == assay.Pass {
				t.Fatalf("%s with another byte %d: %s, %v", name, i, v.Verdict, err)
			}
		}
		s.put(t, name, whole[:len(whole)-1])
		if v := s.verifyOperations(t); v.Verdict == assay.Pass {
			t.Errorf("%s without its last byte passes", name)
		}
		if name != KeyFile { // the key is known from elsewhere
			if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
				t.Fatal(err)
			}
			if v := s.verifyOperations(t); v.Verdict == assay.Pass {
				t.Errorf("without %s: passes", name)
			}
		}
		s.put(t, name, whole)
	}
	if v := s.verifyOperations(t); v.Verdict != assay.Pass {
		t.Fatalf("all as it was: %v", v.Problems)
	}
}

// What is signed about the operations must follow from them.
func TestOperationsFiguresFollow(t *testing.T) {
	for _, spoil := range []func(*Operations){
		func(p *Operations) { p.Operations = 4 },
		func(p *Operations) { p.Failed = 1 },
		func(p *Operations) { *p.First = p.First.Add(time.Second) },
		func(p *Operations) { p.Devices = []string{"Cuda(0)"} },
		func(p *Operations) { p.Result = "PASSED" },
		func(p *Operations) { p.PassedChecks = []string{"compute.golden", "identity.sources"} },
		func(p *Operations) { p.Result = "GOOD" },
		func(p *Operations) { p.First = nil },
		func(p *Operations) { p.Devices = nil },
		func(p *Operations) { p.Failed = 9 },
	} {
		s := newProvedOperations(t)
		s.opts.NeedReceipt, s.opts.Policy = false, nil
		d, err := openRunDir(s.dir, &operationsLayout)
		if err != nil {
			t.Fatal(err)
		}
		r := d.operations()
		d.Close()
		p := r.told
		first := *p.First
		p.First = &first
		p.Stamp = Stamp{ID: runID(7), Node: "node-1", Time: runNow}
		spoil(&p)
		envelope, err := signStatement(t.Context(), runSigner(1), GPUOperations, []ResourceDescriptor{subject(OperationsFile, r.sums[OperationsFile]), subject(journal.ChecksFile, r.sums[journal.ChecksFile])}, p)
		if err != nil {
			t.Fatal(err)
		}
		s.put(t, OperationsStatement, envelope)
		if err := os.Remove(filepath.Join(s.dir, OperationsReceipt)); err != nil {
			t.Fatal(err)
		}
		if v := s.verifyOperations(t); v.Verdict != assay.Fail {
			t.Errorf("%+v: %s", p, v.Verdict)
		}
	}
}

// A check that failed is not made good by a line behind it: two devices without a
// name of their own are one thing to a statement.
func TestOperationsWorstCheckCounts(t *testing.T) {
	good := runSigner(1)
	for _, lines := range []string{
		`{"name":"compute.golden","verdict":"fail"}` + "\n" + `{"name":"compute.golden","verdict":"pass"}` + "\n",
		`{"name":"compute.golden","verdict":"pass"}` + "\n" + `{"name":"compute.golden","verdict":"fail"}` + "\n",
	} {
		dir := operationsDirectory(t)
		if err := os.WriteFile(filepath.Join(dir, journal.ChecksFile), []byte(lines), 0o644); err != nil {
			t.Fatal(err)
		}
		key := runKey(t, good, good, "node-1")
		if _, err := SignOperations(t.Context(), dir, "node-1", good, key, SignOptions{Now: runNow}); err != nil {
			t.Fatal(err)
		}
		if v, err := VerifyOperations(dir, VerifyOptions{Keys: NewKeyring(key), Now: runNow}); err != nil || v.Operations.Result != "FAILED" {
			t.Errorf("%s is signed as %+v, %v", lines, v.Operations, err)
		}
	}
}

func TestSignOperationsRefuses(t *testing.T) {
	good := runSigner(1)
	sign := func(dir, node string, key Key, o SignOptions) error {
		o.Now = runNow
		_, err := SignOperations(context.Background(), dir, node, good, key, o)
		return err
	}
	key := runKey(t, good, good, "node-1")
	spoiled := func(name, line string) string {
		dir := operationsDirectory(t)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(line), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	linked := operationsDirectory(t)
	if err := errors.Join(os.Remove(filepath.Join(linked, journal.ChecksFile)), os.Symlink("/dev/zero", filepath.Join(linked, journal.ChecksFile))); err != nil {
		t.Fatal(err)
	}
	proved := newProvedOperations(t)
	for _, tt := range []struct {
		name, dir, node, want string
	}{
		{"another node", operationsDirectory(t), "node-2", ErrOtherNode.Error()},
		{"no node", operationsDirectory(t), "", "has no id"},
		{"no operation", spoiled(OperationsFile, "{}\n"), "node-1", "operations.jsonl: line 1: it is no operation"},
		{"no JSON", spoiled(OperationsFile, "[\n"), "node-1", "operations.jsonl: line 1"},
		{"no check", spoiled(journal.ChecksFile, "{}\n"), "node-1", "checks.jsonl: line 1: it is no check"},
		{"a long line", spoiled(OperationsFile, strings.Repeat("x", maxOperationLine+1)), "node-1", "operations.jsonl: line 1"},
		{"a link", linked, "node-1", "not a regular file"},
		{"nothing", t.TempDir(), "node-1", "no such file"},
		{"receipts that would be lost", proved.dir, "node-1", ErrReceipts.Error()},
	} {
		if err := sign(tt.dir, tt.node, key, SignOptions{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	if err := sign(proved.dir, "node-1", proved.key, SignOptions{Replace: true}); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(proved.dir, OperationsReceipt)); err == nil {
		t.Error("the receipt of the statement that was replaced is still there")
	}
	// A machine without a GPU has nothing to record, and can say so.
	empty := spoiled(OperationsFile, "")
	if err := sign(empty, "node-1", key, SignOptions{}); err != nil {
		t.Error(err)
	}
	if v, err := VerifyOperations(empty, VerifyOptions{Keys: NewKeyring(key), Now: runNow}); err != nil || v.Verdict != assay.Pass || v.Operations.Result != "WARNED" {
		t.Errorf("%v: %+v", err, v)
	}
}

// Every record of an operation and of a check is as the schema of the topic's
// events has it, and the schema refuses what is not.
func TestOperationEventSchema(t *testing.T) {
	ops, checks := recorded()
	ops[1].Error, ops[2].Shape = "lost", nil
	var events []Event
	for _, o := range ops {
		events = append(events, OperationEvent(someID(1), "node-1", o))
	}
	for _, c := range checks {
		events = append(events, CheckEvent(someID(2), "node-1", c))
	}
	events = append(events, Event{ID: someID(3), Time: runNow, Node: "node-1", Action: "run_started", Component: "hammer"})
	for _, e := range events {
		r, err := EncodeEvent(e)
		if err != nil {
			t.Fatal(err)
		}
		runValidate(t, "operation-event", r.Value)
	}
	schema := keySchema(t, "operation-event")
	for name, spoil := range map[string]func(*Event){
		"no action":         func(e *Event) { e.Action = "" },
		"no node":           func(e *Event) { e.Node = "" },
		"another component": func(e *Event) { e.Component = "other" },
		"no operation":      func(e *Event) { delete(e.Fields, "operation") },
		"more fields":       func(e *Event) { e.Fields["more"] = 1 },
		"a negative time":   func(e *Event) { e.Fields["seconds"] = -1 },
	} {
		e := OperationEvent(someID(1), "node-1", ops[0])
		spoil(&e)
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := json.Unmarshal(raw, &doc); err != nil {
			t.Fatal(err)
		}
		if schema.Validate(doc) == nil {
			t.Errorf("%s keeps the schema", name)
		}
	}
}

package ledger

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/journal"
)

// OperationsFile is where verify records operations on GPUs, one a line. The
// other two are proof of it.
const (
	OperationsFile      = "operations.jsonl"
	OperationsStatement = "gpu-operations.dsse.json"
	OperationsReceipt   = "gpu-operations.tlog-proof"
)

// Bounds of what is read of operations: the file may come from anybody.
const (
	maxOperationLine = 1 << 20
	maxChecks        = 1000 // of different names and devices
	maxCheckNames    = 100  // in each list of a statement
)

// Operations is the predicate gpu-operations/v1: what the recorded operations
// and checks come to. Everything in it follows from the files that it is about.
type Operations struct {
	Stamp
	Operations   int        `json:"operations"`
	Failed       int        `json:"failed"`  // operations that ended with an error
	First        *time.Time `json:"first"`   // when the earliest began, by the node's clock; null: there are none
	Last         *time.Time `json:"last"`    // when the latest began
	Devices      []string   `json:"devices"` // as the operations name them; the first 16
	Result       string     `json:"result"`  // PASSED, WARNED, FAILED: of the checks and the operations
	PassedChecks []string   `json:"passed_checks"`
	WarnedChecks []string   `json:"warned_checks"`
	FailedChecks []string   `json:"failed_checks"`
}

// SignOperations makes the statement about what verify recorded, signs it and
// writes it into the directory, with the statement about the key. The operations
// do not say of which node they are: the signer does. The records are for an
// outbox, as those of SignRun.
func SignOperations(ctx context.Context, dir, node string, s Signer, key Key, o SignOptions) ([]Record, error) {
	records, err := signOperations(ctx, dir, node, s, key, o)
	if err != nil {
		return nil, fmt.Errorf("sign operations %s: %w", dir, err)
	}
	return records, nil
}

func signOperations(ctx context.Context, dir, node string, s Signer, key Key, o SignOptions) ([]Record, error) {
	d, err := openRunDir(dir, &operationsLayout)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := d.replaceable(o); err != nil {
		return nil, err
	}
	o = o.resolved()
	if err := CheckSigner(s, key, node, o.Now); err != nil {
		return nil, err
	}
	r := d.operations()
	if r.bad != nil {
		return nil, r.bad
	}
	var subjects []ResourceDescriptor
	for _, name := range operationsLayout.files {
		switch err := r.errs[name]; {
		case errors.Is(err, fs.ErrNotExist) && name != OperationsFile:
			continue
		case err != nil:
			return nil, err
		}
		subjects = append(subjects, subject(name, r.sums[name]))
	}
	return signing{s, key, o, node, ""}.sign(ctx, d, subjects, r.statement)
}

// readOperations is what the two files of a directory hold.
type readOperations struct {
	sums map[string]string
	errs map[string]error // why a file could not be read
	bad  error            // the first line that is not what it must be
	told Operations       // without a stamp

	checks map[checked]assay.Verdict
}

// operations reads the directory once: what is hashed is what is decoded.
func (d *runDir) operations() *readOperations {
	if d.ops != nil {
		return d.ops
	}
	r := &readOperations{sums: map[string]string{}, errs: map[string]error{}, checks: map[checked]assay.Verdict{}}
	r.told.Devices = []string{}
	for _, f := range []struct {
		name string
		each func([]byte) error
	}{{OperationsFile, r.operation}, {journal.ChecksFile, r.check}} {
		var bad error
		r.sums[f.name], bad, r.errs[f.name] = d.scan(f.name, f.each)
		if r.bad == nil {
			r.bad = bad
		}
	}
	slices.Sort(r.told.Devices)
	r.told.Devices = r.told.Devices[:min(len(r.told.Devices), maxGPUs)]
	p := &r.told
	p.Result, p.PassedChecks, p.WarnedChecks, p.FailedChecks = verdictLists(worstOf(r.checks), maxCheckNames, maxName)
	if p.Failed > 0 && p.Result == "PASSED" {
		p.Result = "WARNED"
	}
	d.ops = r
	return r
}

// scan hashes a file and decodes its lines up to the first that is bad. The hash
// is of the whole file all the same.
func (d *runDir) scan(name string, each func([]byte) error) (sum string, bad, err error) {
	f, err := d.open(name)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	h := sha256.New()
	lines := bufio.NewScanner(io.TeeReader(f, h))
	lines.Buffer(nil, maxOperationLine)
	n := 0
	for bad == nil && lines.Scan() {
		n++
		bad = each(lines.Bytes())
	}
	if bad == nil {
		n, bad = n+1, lines.Err()
	}
	if bad != nil {
		bad = fmt.Errorf("%s: line %d: %w", name, n, bad)
	}
	if _, err := io.Copy(h, f); err != nil {
		return "", bad, fmt.Errorf("read %s: %w", name, err)
	}
	return hex.EncodeToString(h.Sum(nil)), bad, nil
}

// operation takes one line of operations.jsonl.
func (r *readOperations) operation(line []byte) error {
	var o assay.Operation
	if err := json.Unmarshal(line, &o); err != nil {
		return err
	}
	if o.Operation == "" || o.At <= 0 {
		return errors.New("it is no operation: it has no name or no time")
	}
	p := &r.told
	p.Operations++
	if o.Error != "" {
		p.Failed++
	}
	at := time.Unix(0, o.At).UTC()
	if p.First == nil || at.Before(*p.First) {
		p.First = &at
	}
	if p.Last == nil || at.After(*p.Last) {
		p.Last = &at
	}
	device := foreign.Line(o.Device, maxName)
	if device != "" && len(p.Devices) < maxChecks && !slices.Contains(p.Devices, device) {
		p.Devices = append(p.Devices, device)
	}
	return nil
}

// check takes one line of checks.jsonl. Of two about one thing the worse counts:
// verify writes a directory once, so that a later line corrects no earlier one.
func (r *readOperations) check(line []byte) error {
	var c assay.Check
	if err := json.Unmarshal(line, &c); err != nil {
		return err
	}
	if c.Name == "" {
		return errors.New("it is no check: it has no name")
	}
	thing := checked{c.Name, c.Device}
	old, again := r.checks[thing]
	switch {
	case !again && len(r.checks) >= maxChecks:
		return fmt.Errorf("there are more than %d checks", maxChecks)
	case !again || badness(c.Verdict) > badness(old):
		r.checks[thing] = c.Verdict
	}
	return nil
}

// statement makes the predicate with its stamp.
func (r *readOperations) statement(st Stamp) (string, any) {
	p := r.told
	p.Stamp = st
	return GPUOperations, p
}

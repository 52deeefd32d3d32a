package ledger

import (
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/assay-bench/assay"
)

// VerifyOperations says what the signature of recorded operations and its receipt
// prove. It needs no network. An error means that there was nothing to look at;
// everything that is wrong is in the answer.
func VerifyOperations(dir string, o VerifyOptions) (Verification, error) {
	d, err := openRunDir(dir, &operationsLayout)
	if err != nil {
		return Verification{}, fmt.Errorf("verify operations: %w", err)
	}
	defer d.Close()
	if len(d.existing(OperationsFile, OperationsStatement)) == 0 {
		return Verification{}, fmt.Errorf("verify operations %s: it has no %s, so it is not what verify --out wrote: %w", dir, OperationsFile, fs.ErrNotExist)
	}
	v := d.verification(o)
	v.signatures()
	v.compare()
	v.aboutOperations()
	v.since()
	v.conclude()
	return v.Verification, nil
}

// aboutOperations compares the statement with the files beside which it lies.
func (v *verification) aboutOperations() {
	v.Figures = VerifiedFigures{assay.Unknown, "were not counted again, because of the problems above"}
	s := v.statements[0]
	if s == nil {
		return
	}
	var p Operations
	if err := checkOperations(s.statement.Predicate, &p); err != nil {
		v.fail("%s: %v", s.file, err)
		return
	}
	v.Operations = &VerifiedOperations{p.Node, p.Operations, p.Failed, p.First, p.Last, p.Result}
	if v.o.Nonce != "" && v.o.Nonce != p.Nonce {
		v.fail("the operations have the nonce %q, not the %q that was asked for: what is fresh about them is the challenge in checks.jsonl (assay verify --challenge)", p.Nonce, v.o.Nonce)
	}
	if !v.intact {
		return
	}
	r := v.d.operations()
	if r.bad != nil {
		v.fail("%v", r.bad)
		return
	}
	if diff := differingOperations(p, r.told); len(diff) > 0 {
		v.Figures = VerifiedFigures{assay.Fail, "do not follow from the files: " + diff}
		v.fail("the signed figures do not follow from the files: %s", diff)
		return
	}
	v.Figures = VerifiedFigures{assay.Pass, fmt.Sprintf("all of %d operations follow from the files", p.Operations)}
}

// checkOperations decodes the predicate, and checks what its schema asks for.
func checkOperations(raw []byte, p *Operations) error {
	if err := strict(raw, p); err != nil {
		return fmt.Errorf("%w: %w", ErrStatement, err)
	}
	return p.Check()
}

// Check says what is wrong with the predicate, if something is. A notary asks
// before it logs one.
func (p Operations) Check() error {
	switch {
	case p.Result != "PASSED" && p.Result != "WARNED" && p.Result != "FAILED":
		return fmt.Errorf("%w: its result is %.40q", ErrStatement, p.Result)
	case p.Operations < 0 || p.Failed < 0 || p.Failed > p.Operations:
		return fmt.Errorf("%w: %d of %d operations failed", ErrStatement, p.Failed, p.Operations)
	case (p.First == nil) != (p.Operations == 0) || (p.Last == nil) != (p.Operations == 0):
		return fmt.Errorf("%w: it has %d operations, and a first or a last one does not fit that", ErrStatement, p.Operations)
	case p.Devices == nil || p.PassedChecks == nil || p.WarnedChecks == nil || p.FailedChecks == nil:
		return fmt.Errorf("%w: devices and checks are lists, if empty ones", ErrStatement)
	}
	return nil
}

// differingOperations says in words what is not the same; empty: nothing.
func differingOperations(signed, found Operations) string {
	sameTime := func(a, b *time.Time) bool { return a == b || a != nil && b != nil && a.Equal(*b) }
	switch {
	case signed.Operations != found.Operations || signed.Failed != found.Failed:
		return fmt.Sprintf("%d operations with %d failures are signed, %d with %d are found", signed.Operations, signed.Failed, found.Operations, found.Failed)
	case !sameTime(signed.First, found.First) || !sameTime(signed.Last, found.Last):
		return "the time of the first or the last operation is another"
	case !slices.Equal(signed.Devices, found.Devices):
		return fmt.Sprintf("the devices are signed as %q and found as %q", signed.Devices, found.Devices)
	case signed.Result != found.Result || !slices.Equal(signed.PassedChecks, found.PassedChecks) ||
		!slices.Equal(signed.WarnedChecks, found.WarnedChecks) || !slices.Equal(signed.FailedChecks, found.FailedChecks):
		return fmt.Sprintf("the checks are signed as %s and found as %s, or their names differ", signed.Result, found.Result)
	}
	return ""
}

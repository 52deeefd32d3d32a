package notary

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/assay-bench/assay/ledger"
)

// shape checks a predicate's members, as docs/formats/statement.md and its
// schemas have them. What is logged stays for ever and is read by programs that
// do not exist yet: a member that no format knows would mean something to
// somebody. Statements about keys are checked by the keyring.
func shape(s ledger.Statement) error {
	switch s.PredicateType {
	case ledger.TestResult:
		var p ledger.TestResultPredicate
		if err := strict(s.Predicate, &p); err != nil {
			return err
		}
		if p.Result != "PASSED" && p.Result != "WARNED" && p.Result != "FAILED" {
			return fmt.Errorf("predicate: result is %.40q; PASSED, WARNED or FAILED are known", p.Result)
		}
	case ledger.GPUBenchmark:
		var p ledger.Benchmark
		if err := strict(s.Predicate, &p); err != nil {
			return err
		}
		switch {
		case p.Run.ID == "" || p.Run.Status == "" || p.Run.Created.IsZero():
			return errors.New("predicate: run has no id, no status or no time")
		case p.GPUs == nil || p.Results == nil:
			return errors.New("predicate: gpus and results are lists, if empty ones")
		case p.Tool.Assay == "":
			return errors.New("predicate: it does not say what measured")
		}
		for i, r := range p.Results {
			if r.Stage == "" || r.Metric == "" || r.N < 0 {
				return fmt.Errorf("predicate: result %d has no stage or no metric", i)
			}
			if r.Value == nil && r.Why == "" {
				return fmt.Errorf("predicate: result %d has no value and does not say why", i)
			}
		}
	case ledger.GPUOperations:
		var p ledger.Operations
		if err := strict(s.Predicate, &p); err != nil {
			return err
		}
		return p.Check()
	case ledger.NodeTransition:
		_, err := ledger.TransitionOf(s)
		return err
	case ledger.ServerAction:
		_, err := ledger.ActionOf(s)
		return err
	}
	return nil
}

func strict(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("predicate: %w", err)
	}
	return nil
}

package ledger

import (
	"fmt"
	"time"
)

// VerifiedKeys is what is known of a snapshot that a policy's log stands for.
type VerifiedKeys struct {
	Origin string    `json:"origin"`
	Size   uint64    `json:"size"`
	AsOf   time.Time `json:"as_of"`
	By     string    `json:"by"` // whose word that time is: witness, log or collector
	// Complete means that the log signed that nothing is missing; false: it is
	// the word of whoever collected it.
	Complete   bool     `json:"complete_by_log"`
	Statements []Logged `json:"-"`
}

// VerifySnapshot checks that everything in a snapshot is in a log that the policy
// trusts, at a checkpoint that enough of its witnesses have seen.
func (p Policy) VerifySnapshot(s *Snapshot) (VerifiedKeys, error) {
	c, err := p.Open(s.Checkpoint)
	if err != nil {
		return VerifiedKeys{}, err
	}
	if c.Origin != s.Origin || c.Size != s.Size || c.Root != s.Root {
		return VerifiedKeys{}, fmt.Errorf("%w: its head is of another checkpoint than the one that it holds", ErrSnapshot)
	}
	v := VerifiedKeys{Origin: c.Origin, Size: c.Size, AsOf: s.Time.UTC(), By: "collector"}
	if s.signature != "" {
		if err := p.signedByLog(s); err != nil {
			return VerifiedKeys{}, err
		}
		v.Complete, v.By = true, "log"
	}
	if len(c.Cosigned) > 0 { // the earliest: no witness's clock makes it newer
		v.AsOf, v.By = c.Cosigned[0].Time.UTC(), "witness"
	}
	for i, r := range s.Statements {
		if i > 0 && r.Index <= s.Statements[i-1].Index {
			return VerifiedKeys{}, fmt.Errorf("%w: its statements are not in the log's order", ErrSnapshot)
		}
		if err := verifyInclusion(c, r, r.Envelope); err != nil {
			return VerifiedKeys{}, fmt.Errorf("statement %s: %w", r.ID, err)
		}
		v.Statements = append(v.Statements, Logged{r.Envelope, r.Time})
	}
	return v, nil
}

// signedByLog checks the one signature of a snapshot.
func (p Policy) signedByLog(s *Snapshot) error {
	text, sigs, err := splitNote([]byte(s.text(s.body()) + "\n" + s.signature))
	if err != nil {
		return err
	}
	k, _, isLog := p.signer(sigs[0])
	switch {
	case len(sigs) != 1 || k == nil || !isLog || k.name != s.Origin:
		return fmt.Errorf("%w: it is signed, and not by the log %q alone", ErrSnapshot, s.Origin)
	case !k.Verify(text, sigs[0].sig):
		return fmt.Errorf("%w (of the log's keys, by %s)", ErrCheckpointSignature, k.name)
	}
	return nil
}

package keys

import (
	"context"

	"github.com/assay-bench/assay/ledger"
)

// Signing is a key that was opened and found good for what is of a node.
type Signing struct {
	Key     ledger.Key
	node    string
	signer  ledger.Signer
	secrets Secrets
}

// OpenSigning opens a key to sign runs and operations of a node with.
func OpenSigning(ctx context.Context, f SignerFlags, s Secrets, node string) (*Signing, error) {
	signer, key, err := f.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := ledger.CheckSigner(signer, key, node, s.Now()); err != nil {
		return nil, err
	}
	return &Signing{Key: key, node: node, signer: signer, secrets: s}, nil
}

// Sign signs a run, or what verify recorded. The records are for an outbox.
func (s *Signing) Sign(ctx context.Context, dir string, replace bool) ([]ledger.Record, error) {
	o := ledger.SignOptions{Now: s.secrets.Now(), Replace: replace}
	if ledger.IsOperations(dir) {
		return ledger.SignOperations(ctx, dir, s.node, s.signer, s.Key, o)
	}
	return ledger.SignRun(ctx, dir, s.signer, s.Key, o)
}

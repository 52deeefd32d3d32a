package decide

import (
	"bytes"
	"context"
	"fmt"

	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

// everybody is the server's own scope.
var everybody = store.Scope{All: true}

func (d *Decider) readPolicy(ctx context.Context, version int64) (control.Policy, error) {
	if version == 0 {
		return control.Default(), nil
	}
	row, err := d.store.Policy(ctx, version)
	if err != nil {
		return control.Policy{}, err
	}
	p, err := control.ReadPolicy(bytes.NewReader(row.Bytes), fmt.Sprintf("policy %d", version))
	if err != nil {
		return control.Policy{}, fmt.Errorf("the policy in force cannot be read by this version: %w", err)
	}
	p.Version = version
	return p, nil
}

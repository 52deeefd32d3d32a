package server

import (
	"errors"
	"fmt"

	"github.com/assay-bench/assay/ledger"
)

// Identity is who a server is. All processes of one network have the same.
type Identity struct {
	Origin   string        // what agents sign their log-ins for
	Enrol    ledger.Signer // certifies the keys of nodes
	EnrolKey ledger.Key    // the statement about it
	Own      ledger.Signer // signs what the server decides
	OwnKey   ledger.Key
}

func (i Identity) check() error {
	switch {
	case i.Origin == "":
		return errors.New("the server has no origin")
	case i.Enrol == nil || i.Own == nil:
		return errors.New("the server has no keys")
	}
	if err := ledger.CheckCertifier(i.EnrolKey, []ledger.Role{ledger.RoleRun}); err != nil {
		return fmt.Errorf("the server's enrol key: %w", err)
	}
	return nil
}

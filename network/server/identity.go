package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/store"
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

// Record is a [store.Recorder]: it signs an audit entry for the ledger. Of the
// entry's detail, which may be words of a person, only the hash is in it.
func (i Identity) Record(ctx context.Context, e store.AuditEntry) (store.Record, error) {
	id, err := ulid.ParseStrict(e.ID)
	if err != nil {
		return store.Record{}, err
	}
	node := e.Node
	if node == "" {
		node = i.Origin
	}
	rec, err := ledger.StateAction(ctx, ledger.Action{
		// In microseconds, as the database has it: the statement hashes the entry.
		Stamp:  ledger.Stamp{ID: id, Node: node, Time: e.At.UTC().Truncate(time.Microsecond)},
		Server: i.Origin, Actor: e.Actor, Action: e.Action, Target: e.Target, Outcome: e.Outcome,
	}, e.Detail, i.Own)
	if err != nil {
		return store.Record{}, err
	}
	return store.Record{ID: e.ID, Topic: store.TopicLedger, Node: node, Kind: string(ledger.KindEnvelope), Bytes: rec.Value, Received: e.At}, nil
}

package server

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net/http"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

// ListKeys lists the keys of a node, oldest first.
func (s *Server) ListKeys(ctx context.Context, r api.ListKeysRequestObject) (api.ListKeysResponseObject, error) {
	keys, err := s.store.NodeKeys(ctx, principalOf(ctx).scope(), r.Node)
	if err != nil {
		return nil, err
	}
	out := api.ListKeys200JSONResponse{}
	for _, k := range keys {
		one := api.Key{Id: k.ID, NotBefore: k.NotBefore, NotAfter: k.NotAfter}
		if !k.Revoked.IsZero() {
			one.Revoked = &k.Revoked
		}
		out = append(out, one)
	}
	return out, nil
}

// GetKeyStatement gives the signed statement about a key, byte for byte.
func (s *Server) GetKeyStatement(ctx context.Context, r api.GetKeyStatementRequestObject) (api.GetKeyStatementResponseObject, error) {
	keys, err := s.store.NodeKeys(ctx, principalOf(ctx).scope(), r.Node)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if k.ID == r.Key {
			return api.GetKeyStatement200ApplicationoctetStreamResponse{Body: bytes.NewReader(k.Statement), ContentLength: int64(len(k.Statement))}, nil
		}
	}
	return nil, notFound("key")
}

// RotateKey certifies a new key of a node. The log-in proves the old key, and the
// body is signed with the new one. The same key again gets the same answer.
func (s *Server) RotateKey(ctx context.Context, r api.RotateKeyRequestObject) (api.RotateKeyResponseObject, error) {
	envelope, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, unread(err)
	}
	var p ledger.RotationProof
	if err := ledger.OpenOwnProof(envelope, ledger.RotationType, &p, func() ed25519.PublicKey { return p.PublicKey }); err != nil {
		return nil, refuse(http.StatusBadRequest, "the proof: %s", err)
	}
	if p.Origin != s.identity.Origin || p.Node != r.Node {
		return nil, refuse(http.StatusBadRequest, "the proof is for another server or another node")
	}
	n, err := s.store.Node(ctx, store.Scope{All: true}, r.Node)
	if err != nil {
		return nil, missing(err, "node")
	}
	requestOf(ctx).owner = n.Owner
	now := s.now()
	k, err := ledger.StateKey(ctx, p.PublicKey, s.identity.Enrol, ledger.KeyOptions{Node: r.Node, Owner: n.Owner, Roles: []ledger.Role{ledger.RoleRun}, Now: now})
	if err != nil {
		return nil, err
	}
	t := s.trail(ctx, "key:"+k.ID)
	t.Outbox = []store.Record{keyRecord(k)}
	b, err := s.store.AddNodeKey(ctx, nodeKey(r.Node, k), t)
	if errors.Is(err, store.ErrTaken) {
		if had, err := s.store.NodeKey(ctx, k.ID); err == nil && had.Node != r.Node {
			s.keyClaimed(ctx, k.ID, "node "+r.Node+" wanted to change to this node's key, and was refused")
		}
		return nil, refuse(http.StatusConflict, "the key is another node's, or was revoked: make a new one")
	}
	if trailed(ctx, err) != nil {
		return nil, err
	}
	if err := s.store.EndLogins(ctx, r.Node, k.ID, now); err != nil {
		return nil, err // it is sent again, and gets the same statement
	}
	return api.RotateKey200ApplicationoctetStreamResponse{Body: bytes.NewReader(b), ContentLength: int64(len(b))}, nil
}

// RevokeKey refuses a key from now on, and ends what it logged in.
func (s *Server) RevokeKey(ctx context.Context, r api.RevokeKeyRequestObject) (api.RevokeKeyResponseObject, error) {
	err := s.store.RevokeNodeKey(ctx, principalOf(ctx).scope(), r.Node, r.Key, s.now(), s.trail(ctx, "key:"+r.Key))
	if err := trailed(ctx, err); err != nil {
		return nil, missing(err, "key")
	}
	return api.RevokeKey204Response{}, nil
}

package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

const (
	nonceLife = 2 * time.Minute
	loginLife = time.Hour
)

// CreateNonce gives a nonce to sign. It does not say whether there is such a node.
func (s *Server) CreateNonce(ctx context.Context, r api.CreateNonceRequestObject) (api.CreateNonceResponseObject, error) {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	nonce := hex.EncodeToString(b)
	now := s.now()
	if err := s.store.CreateNonce(ctx, store.Hash(nonce), r.Body.Node, now.Add(nonceLife)); err != nil {
		return nil, err
	}
	return api.CreateNonce200JSONResponse{Nonce: nonce, Origin: s.identity.Origin, Expires: now.Add(nonceLife).UTC(), Time: now.UTC()}, nil
}

// badLogin is the one answer to every log-in that is none.
func badLogin() error {
	return refuse(http.StatusUnauthorized, "the log-in does not count: its key is unknown, expired or revoked, or its nonce is used, expired or another's; get a new nonce and sign that")
}

// Login gives a node that signed a nonce a token for an hour. A nonce counts once.
func (s *Server) Login(ctx context.Context, r api.LoginRequestObject) (api.LoginResponseObject, error) {
	envelope, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, unread(err)
	}
	now := s.now()
	k, proof, err := s.loginProof(ctx, envelope, now)
	if err != nil {
		return nil, err
	}
	if err := s.store.UseNonce(ctx, store.Hash(proof.Nonce), proof.Node, now); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			s.reject("login")
			return nil, badLogin()
		}
		return nil, err
	}
	secret, hash := newSecret(prefixLogin)
	t := store.Token{
		ID: newID(now), Hash: hash, Kind: store.TokenLogin, Role: string(api.RoleNode), Node: k.Node, NodeKey: k.ID,
		By: "node:" + k.Node, Created: now, Expires: now.Add(loginLife),
	}
	if err := s.store.CreateToken(ctx, t, store.Trail{}); err != nil {
		return nil, err
	}
	s.metrics.add(countLogins, 1)
	return api.Login200JSONResponse{Token: secret, Expires: t.Expires.UTC(), Node: k.Node, Time: now.UTC()}, nil
}

// loginProof checks all of a log-in but its nonce.
func (s *Server) loginProof(ctx context.Context, envelope []byte, now time.Time) (store.NodeKey, ledger.LoginProof, error) {
	var p ledger.LoginProof
	e, err := ledger.ReadEnvelope(envelope)
	if err != nil || len(e.Signatures) != 1 {
		return store.NodeKey{}, p, refuse(http.StatusBadRequest, "the body is no envelope in our spelling with one signature")
	}
	k, err := s.store.NodeKey(ctx, e.Signatures[0].KeyID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.reject("login")
		return store.NodeKey{}, p, badLogin()
	case err != nil:
		return store.NodeKey{}, p, err
	}
	if err := ledger.OpenProof(envelope, ledger.LoginType, k.PublicKey, &p); err != nil {
		s.reject("login")
		return store.NodeKey{}, p, badLogin()
	}
	if p.Origin != s.identity.Origin || p.Node != k.Node || !k.Revoked.IsZero() || now.Before(k.NotBefore) || now.After(k.NotAfter) {
		s.reject("login")
		return store.NodeKey{}, p, badLogin()
	}
	return k, p, nil
}

// unread is the answer to a body that ended early or is too long.
func unread(err error) error {
	if refusalOf(err) != nil {
		return err
	}
	return refuse(http.StatusBadRequest, "the body could not be read to its end")
}

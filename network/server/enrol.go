package server

import (
	"context"
	"crypto/ed25519"
	"crypto/subtle"
	"errors"
	"net/http"
	"slices"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
)

const maxHostname = 253

// badEnrolment is the one answer to every token that takes nobody in: which of the
// reasons it is, is not a stranger's to know.
func badEnrolment() error {
	return refuse(http.StatusUnauthorized, "the enrolment token is unknown, used by another key, expired or taken back: ask for a new one")
}

// Enrol takes a node in: its key is certified, and the statement about it waits to
// be published. The same token and key get the same answer until the token
// expires.
func (s *Server) Enrol(ctx context.Context, r api.EnrolRequestObject) (api.EnrolResponseObject, error) {
	proof, err := s.enrolProof(*r.Body)
	if err != nil {
		return nil, err
	}
	out, err := s.takeIn(ctx, hashSecret(r.Body.Token), proof)
	switch {
	case errors.Is(err, store.ErrTokenUnknown) || errors.Is(err, store.ErrTokenExpired) || errors.Is(err, store.ErrTokenUsed):
		s.reject("enrol")
		return nil, badEnrolment()
	case errors.Is(err, store.ErrTaken):
		s.keyClaimed(ctx, ledger.KeyID(proof.PublicKey), "somebody with an enrolment token wanted to enrol with this node's key, and was refused: its state directory was copied")
		return nil, refuse(http.StatusConflict, "the key is another node's: make a new key for this one")
	case err != nil:
		return nil, err
	}
	if !out.Again {
		s.metrics.add(countEnrolments, 1)
	}
	s.enrolled(ctx, out.Node)
	return api.Enrol200JSONResponse{
		Node: out.Node, Owner: out.Owner, Origin: s.identity.Origin, KeyStatement: out.Statement,
		HeartbeatSeconds: s.heartbeatSeconds(), Time: s.now().UTC(),
	}, nil
}

// checkKeyClaimed is a finding about a node whose key somebody else has too. Nothing
// follows from it: the other one was refused.
const checkKeyClaimed = "key_claimed"

// keyClaimed keeps a finding about the node that has a key, once in a while.
func (s *Server) keyClaimed(ctx context.Context, key, text string) {
	k, err := s.store.NodeKey(ctx, key)
	if err != nil {
		return // it was revoked, or its node is gone
	}
	last, err := s.store.Findings(ctx, store.Scope{All: true}, k.Node, store.Page{Limit: 20})
	if err == nil && !slices.ContainsFunc(last, func(f store.Finding) bool { return f.Check == checkKeyClaimed && f.Text == text }) {
		now := s.now()
		err = s.store.AddFinding(ctx, store.Finding{ID: newID(now), At: now, Node: k.Node, Check: checkKeyClaimed, Verdict: "fail", Text: text})
	}
	if err != nil {
		s.log.Error("could not keep a finding", "node", k.Node, "error", err)
	}
}

// enrolProof checks that whoever has the token has the key, and means this server.
func (s *Server) enrolProof(e api.Enrolment) (ledger.EnrolProof, error) {
	var p ledger.EnrolProof
	if err := ledger.OpenOwnProof(e.Proof, ledger.EnrolType, &p, func() ed25519.PublicKey { return p.PublicKey }); err != nil {
		return p, refuse(http.StatusBadRequest, "the proof: %s", err)
	}
	if p.Origin != s.identity.Origin {
		return p, refuse(http.StatusBadRequest, "the proof is for the server %q, and this is %q", foreign.Line(p.Origin, 100), s.identity.Origin)
	}
	if subtle.ConstantTimeCompare([]byte(p.TokenSHA256), []byte(hashSecret(e.Token))) != 1 {
		return p, refuse(http.StatusBadRequest, "the proof is for another token")
	}
	return p, nil
}

// takeIn makes the node. The token is looked at first, since its owner is part of
// what is signed about the key.
func (s *Server) takeIn(ctx context.Context, hash string, p ledger.EnrolProof) (store.Enrolled, error) {
	now := s.now()
	keyID := ledger.KeyID(p.PublicKey)
	t, err := s.store.EnrolmentToken(ctx, hash, keyID, now)
	if err != nil {
		return store.Enrolled{}, err
	}
	node := newID(now)
	k, err := ledger.StateKey(ctx, p.PublicKey, s.identity.Enrol, ledger.KeyOptions{Node: node, Owner: t.Owner, Roles: []ledger.Role{ledger.RoleRun}, Now: now})
	if err != nil {
		return store.Enrolled{}, err
	}
	hostname := foreign.Line(p.Hostname, maxHostname)
	return s.store.Enrol(ctx, store.Enrolment{
		TokenHash: hash, At: now,
		Node:  store.Node{ID: node, Name: hostname, Hostname: hostname, Facts: newcomer()},
		Key:   nodeKey(node, k),
		Trail: store.Trail{Audit: []store.AuditEntry{s.entry(ctx, "node:"+node, "enrol", "node:"+node, node, t.Owner)}, Outbox: []store.Record{keyRecord(k)}},
	})
}

// newcomer are the facts of what was just taken in. Its state is empty: nothing was
// decided about it yet.
func newcomer() store.Facts {
	return store.Facts{Admission: string(control.Pending), Intent: string(control.Serve), Contact: string(control.Seen), Reasons: []string{"enrolled"}}
}

// nodeKey is a key's row.
func nodeKey(node string, k ledger.Key) store.NodeKey {
	return store.NodeKey{ID: k.ID, Node: node, PublicKey: k.Public, Statement: k.Envelope, NotBefore: k.NotBefore, NotAfter: k.NotAfter, Created: k.Time}
}

// keyRecord is the statement about a key on its way to the ledger.
func keyRecord(k ledger.Key) store.Record {
	return store.Record{ID: k.Stamp.ID.String(), Topic: store.TopicLedger, Node: k.Node, Kind: string(ledger.KindEnvelope), Bytes: k.Envelope, Received: k.Time}
}

func (s *Server) heartbeatSeconds() int { return int(s.o.Heartbeat.Seconds()) }

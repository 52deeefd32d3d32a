package agent

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-bench/assay/ledger"
)

// rotateBefore is how long before a key's end a new one is made.
const rotateBefore = 30 * 24 * time.Hour

// rotate replaces the node's key. The new one is on the disk before the server
// hears of it, so that a lost answer leaves no key that nobody has.
func (s *session) rotate(ctx context.Context) error {
	token, err := s.authorised(ctx)
	if err != nil {
		return err
	}
	s.busy.Lock()
	defer s.busy.Unlock()
	if s.id.NextKey == "" {
		next, err := s.vault.create()
		if err != nil {
			return err
		}
		id := s.id
		id.NextKey = next
		if err := s.state.write(nodeFile, id); err != nil {
			return err
		}
		s.become(id, s.signer, s.key)
	}
	signer, err := s.vault.open(s.id.NextKey)
	if err != nil {
		return err
	}
	proof, err := ledger.SignProof(ctx, signer, ledger.RotationType, ledger.RotationProof{Origin: s.id.Origin, Node: s.id.Node, PublicKey: signer.Public()})
	if err != nil {
		return err
	}
	statement, err := s.link.exchange(ctx, "rotate the key", callTimeout, func(ctx context.Context) (*http.Response, error) {
		return s.link.client.RotateKeyWithBody(ctx, s.id.Node, "application/octet-stream", bytes.NewReader(proof), bearer(token))
	})
	if err != nil {
		return err
	}
	return s.succeed(signer, statement)
}

// adopt is for a new key that the server took without our knowing: its statement
// is fetched. s.busy is held, and the log-in is the new key's.
func (s *session) adopt(ctx context.Context, next ledger.Signer) error {
	token := s.token
	statement, err := s.link.exchange(ctx, "fetch the key's statement", callTimeout, func(ctx context.Context) (*http.Response, error) {
		return s.link.client.GetKeyStatement(ctx, s.id.Node, ledger.KeyID(next.Public()), bearer(token))
	})
	if err != nil {
		s.token = ""
		return err
	}
	if err := s.succeed(next, statement); err != nil {
		return err
	}
	s.token = token
	return nil
}

// succeed makes the next key the node's. s.busy is held.
func (s *session) succeed(next ledger.Signer, statement []byte) error {
	key, err := s.vault.certify(s.id.NextKey, s.id.Node, statement)
	if err != nil {
		return fmt.Errorf("rotate the key: %w", err)
	}
	old := s.id.Key
	id := s.id
	id.Key, id.NextKey = s.id.NextKey, ""
	if err := s.state.write(nodeFile, id); err != nil {
		return err
	}
	s.become(id, next, key)
	s.token = "" // log-ins by older keys end
	s.log.Info("the node has a new key", "key", id.Key)
	return s.vault.forget(old)
}

// rotationDue reports whether the key's end is near.
func (s *session) rotationDue(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.key.NotAfter.Sub(now)
	whole := s.key.NotAfter.Sub(s.key.NotBefore)
	return s.key.ID != "" && left < min(rotateBefore, whole/3)
}

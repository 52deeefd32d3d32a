package server

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"

	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

// tokens is the authenticator of the server's own tokens: those of the API, and
// log-ins of nodes. Each request is looked up, so that a token or a key that was
// taken back is refused by every process from then on.
type tokens struct{ s *Server }

// Authenticate is for [Authenticator].
func (a tokens) Authenticate(ctx context.Context, r *http.Request) (Principal, bool, error) {
	secret := bearer(r)
	if !strings.HasPrefix(secret, prefixToken) && !strings.HasPrefix(secret, prefixLogin) {
		return Principal{}, false, nil
	}
	hash := hashSecret(secret)
	t, err := a.s.store.TokenByHash(ctx, hash, a.s.now())
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Principal{}, false, ErrCredential
	case err != nil:
		return Principal{}, false, err
	case subtle.ConstantTimeCompare([]byte(hash), []byte(t.Hash)) != 1:
		return Principal{}, false, ErrCredential
	}
	return principalOfToken(t)
}

// principalOfToken is who a token stands for. A token of a kind that this version
// does not know stands for nobody.
func principalOfToken(t store.Token) (Principal, bool, error) {
	p := Principal{Role: api.Role(t.Role), All: t.Scope.All, Owners: t.Scope.Owners, Expires: t.Expires}
	switch t.Kind {
	case store.TokenAPI:
		p.ID = "token:" + t.ID
		if p.Role == api.RoleNode {
			return Principal{}, false, ErrCredential
		}
	case store.TokenSession:
		p.ID = "person:" + t.Person
	case store.TokenLogin:
		// Its scope is itself, whatever the row says.
		p = Principal{ID: "node:" + t.Node, Role: api.RoleNode, Node: t.Node, Key: t.NodeKey, Expires: t.Expires}
	default:
		return Principal{}, false, ErrCredential
	}
	return p, true, nil
}

// scope is what the store shows to a principal. What a node asks about itself has
// passed the guard, which compared the ids.
func (p Principal) scope() store.Scope {
	if p.Role == api.RoleNode {
		return store.Scope{All: true}
	}
	return store.Scope{All: p.All, Owners: p.Owners}
}

// visible says whether people see the node that a path names.
func (s *Server) visible(ctx context.Context, req *request, p Principal) error {
	n, err := s.store.Node(ctx, p.scope(), req.node)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return notFound("node")
	case err != nil:
		return err
	}
	req.owner = n.Owner
	return nil
}

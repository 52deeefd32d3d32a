package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

// Principal is who asks: a person, a program with a token, or a node.
type Principal struct {
	ID      string // person:ID, token:ID or node:ID, as the audit log names it
	Role    api.Role
	All     bool     // sees all owners
	Owners  []string // that it sees, unless All
	Node    string   // of the role node: which
	Key     string   // of the role node: that it logged in with
	Expires time.Time
}

// Sees says whether what belongs to an owner may be shown.
func (p Principal) Sees(owner string) bool { return p.All || slices.Contains(p.Owners, owner) }

// rank orders the roles of people and of programs: each may what those below it may.
func rank(r api.Role) int {
	switch r {
	case api.RoleRouter:
		return 1
	case api.RoleViewer:
		return 2
	case api.RoleOperator:
		return 3
	case api.RoleAdmin:
		return 4
	}
	return 0 // a node is no person, and an unknown role is nobody
}

// ErrCredential marks a credential that was understood and is not good: it has
// expired, was taken back, or never was. Whoever shows it has to get another.
var ErrCredential = errors.New("the credential is not good")

// ErrUnavailable marks a credential of which nothing can be known now, since whoever
// knows does not answer. Whoever shows it may try again.
var ErrUnavailable = errors.New("who could tell does not answer")

// Authenticator knows one kind of credential.
type Authenticator interface {
	// Authenticate says who sends a request. It is false where the request has no
	// credential of its kind, and another may know it. [ErrCredential] ends the
	// search; [ErrUnavailable] means that nobody can tell now.
	Authenticate(ctx context.Context, r *http.Request) (Principal, bool, error)
}

// bearer is the bearer token of a request, or empty.
func bearer(r *http.Request) string {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || len(token) > maxSecret {
		return ""
	}
	return strings.TrimSpace(token)
}

type principalKey struct{}

// principalOf is who sends the request whose context this is. Operations that
// everybody may ask have the zero Principal, which sees nothing.
func principalOf(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	return p
}

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

// What a secret begins with says what it is for, to people and to programs that
// look for secrets in places where none should be.
const (
	prefixToken     = "assay_api_"
	prefixEnrolment = "assay_enrol_"
	prefixLogin     = "assay_node_"
)

// maxSecret bounds what is taken for a token.
const maxSecret = 200

// newSecret makes a token of 32 random bytes, and the hash that is stored. Whoever
// reads the database has no token.
func newSecret(prefix string) (secret, hash string) {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	secret = prefix + base64.RawURLEncoding.EncodeToString(b)
	return secret, hashSecret(secret)
}

// hashSecret is what is stored of a token, and what it is found by. A token is as
// random as a hash, so that there is nothing to slow down and nothing that the
// time of a comparison could tell.
func hashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// newID makes an id of a time.
func newID(now time.Time) string {
	return ulid.MustNew(ulid.Timestamp(now), rand.Reader).String()
}

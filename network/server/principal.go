package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/network/api"
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

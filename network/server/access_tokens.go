package server

import (
	"context"
	"net/http"
	"time"

	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

const (
	defaultEnrolLife = 24 * time.Hour
	defaultTokenLife = 90 * 24 * time.Hour
	adminLife        = 10 * 365 * 24 * time.Hour
)

// CreateAdmin makes an API token that may everything, for whoever has the database
// already: the first of a new network, or one in place of a lost one.
func CreateAdmin(ctx context.Context, st *store.Store, name string, now time.Time) (secret string, err error) {
	secret, hash := newSecret(prefixToken)
	id := newID(now)
	t := store.Token{
		ID: id, Hash: hash, Kind: store.TokenAPI, Name: name, Role: string(api.RoleAdmin), Scope: store.Scope{All: true},
		By: "server:init", Created: now, Expires: now.Add(adminLife),
	}
	trail := store.Trail{Audit: []store.AuditEntry{{ID: newID(now), At: now, Actor: "server:init", Action: "createToken", Target: "token:" + id, Outcome: outcomeDone, Detail: "an admin's, made on the server"}}}
	return secret, st.CreateToken(ctx, t, trail)
}

// CreateEnrolmentToken makes a token that takes in one node of an owner.
func (s *Server) CreateEnrolmentToken(ctx context.Context, r api.CreateEnrolmentTokenRequestObject) (api.CreateEnrolmentTokenResponseObject, error) {
	p := principalOf(ctx)
	if !p.Sees(r.Body.Owner) {
		return nil, notFound("owner")
	}
	life := defaultEnrolLife
	if r.Body.Seconds != nil {
		life = time.Duration(*r.Body.Seconds) * time.Second
	}
	secret, hash := newSecret(prefixEnrolment)
	now := s.now()
	t := store.EnrolmentToken{ID: newID(now), Hash: hash, Owner: r.Body.Owner, By: p.ID, Created: now, Expires: now.Add(life)}
	requestOf(ctx).owner = t.Owner
	err := s.store.CreateEnrolmentToken(ctx, p.scope(), t, s.trail(ctx, "enrolment-token:"+t.ID))
	if err := trailed(ctx, err); err != nil {
		return nil, missing(err, "owner")
	}
	return api.CreateEnrolmentToken201JSONResponse{Id: t.ID, Token: secret, Expires: t.Expires.UTC()}, nil
}

// ListEnrolmentTokens lists them without their secrets, which nobody has.
func (s *Server) ListEnrolmentTokens(ctx context.Context, r api.ListEnrolmentTokensRequestObject) (api.ListEnrolmentTokensResponseObject, error) {
	all, err := s.store.EnrolmentTokens(ctx, principalOf(ctx).scope(), pageOf(r.Params.Limit, r.Params.Before))
	if err != nil {
		return nil, err
	}
	out := api.ListEnrolmentTokens200JSONResponse{}
	for _, t := range all {
		one := api.Token{Id: t.ID, Created: t.Created, Expires: t.Expires, Owners: &[]string{t.Owner}, Revoked: ptr(!t.Revoked.IsZero())}
		if t.UsedBy != "" {
			one.UsedBy = &t.UsedBy
		}
		out = append(out, one)
	}
	return out, nil
}

// DeleteEnrolmentToken takes one back.
func (s *Server) DeleteEnrolmentToken(ctx context.Context, r api.DeleteEnrolmentTokenRequestObject) (api.DeleteEnrolmentTokenResponseObject, error) {
	err := s.store.RevokeEnrolmentToken(ctx, principalOf(ctx).scope(), r.Token, s.now(), s.trail(ctx, "enrolment-token:"+r.Token))
	if err := trailed(ctx, err); err != nil {
		return nil, missing(err, "token")
	}
	return api.DeleteEnrolmentToken204Response{}, nil
}

// CreateToken makes an API token. Nobody gives away more than they have.
func (s *Server) CreateToken(ctx context.Context, r api.CreateTokenRequestObject) (api.CreateTokenResponseObject, error) {
	p := principalOf(ctx)
	scope := store.Scope{Owners: deref(r.Body.Owners)}
	scope.All = len(scope.Owners) == 0
	if scope.All && !p.All {
		return nil, refuse(http.StatusForbidden, "a token for all owners is not yours to give: name owners that you see")
	}
	for _, o := range scope.Owners {
		if !p.Sees(o) {
			return nil, notFound("owner")
		}
	}
	life := defaultTokenLife
	if r.Body.Seconds != nil {
		life = time.Duration(*r.Body.Seconds) * time.Second
	}
	secret, hash := newSecret(prefixToken)
	now := s.now()
	t := store.Token{ID: newID(now), Hash: hash, Kind: store.TokenAPI, Name: r.Body.Name, Role: string(r.Body.Role), Scope: scope, By: p.ID, Created: now, Expires: now.Add(life)}
	requestOf(ctx).detail = "role " + t.Role
	err := s.store.CreateToken(ctx, t, s.trail(ctx, "token:"+t.ID))
	if err := trailed(ctx, err); err != nil {
		return nil, err
	}
	return api.CreateToken201JSONResponse{Id: t.ID, Token: secret, Expires: t.Expires.UTC()}, nil
}

// ListTokens lists API tokens without their secrets.
func (s *Server) ListTokens(ctx context.Context, r api.ListTokensRequestObject) (api.ListTokensResponseObject, error) {
	all, err := s.store.Tokens(ctx, principalOf(ctx).scope(), pageOf(r.Params.Limit, r.Params.Before))
	if err != nil {
		return nil, err
	}
	out := api.ListTokens200JSONResponse{}
	for _, t := range all {
		one := api.Token{Id: t.ID, Name: &t.Name, Role: ptr(api.Role(t.Role)), Created: t.Created, Expires: t.Expires, Revoked: ptr(!t.Revoked.IsZero())}
		if !t.Scope.All {
			one.Owners = &t.Scope.Owners
		}
		out = append(out, one)
	}
	return out, nil
}

// DeleteToken takes one back, on all processes at once.
func (s *Server) DeleteToken(ctx context.Context, r api.DeleteTokenRequestObject) (api.DeleteTokenResponseObject, error) {
	err := s.store.RevokeToken(ctx, principalOf(ctx).scope(), r.Token, s.now(), s.trail(ctx, "token:"+r.Token))
	if err := trailed(ctx, err); err != nil {
		return nil, missing(err, "token")
	}
	return api.DeleteToken204Response{}, nil
}

// ErasePerson forgets who a person is. What they did stays under an id that leads
// nowhere.
func (s *Server) ErasePerson(ctx context.Context, r api.ErasePersonRequestObject) (api.ErasePersonResponseObject, error) {
	err := s.store.ErasePerson(ctx, r.Person, s.now(), s.trail(ctx, "person:"+r.Person))
	if err := trailed(ctx, err); err != nil {
		return nil, missing(err, "person")
	}
	return api.ErasePerson204Response{}, nil
}

// GetMe says who is asking.
func (s *Server) GetMe(ctx context.Context, _ api.GetMeRequestObject) (api.GetMeResponseObject, error) {
	p := principalOf(ctx)
	out := api.GetMe200JSONResponse{Id: p.ID, Role: p.Role, All: p.All}
	if !p.Expires.IsZero() {
		out.Expires = &p.Expires
	}
	if len(p.Owners) > 0 {
		out.Owners = &p.Owners
	}
	return out, nil
}

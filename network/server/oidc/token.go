package oidc

import (
	"context"
	"crypto/subtle"
	"fmt"
	"time"

	"github.com/assay-bench/assay/network/server"
)

// maxIDToken bounds an ID token. One with hundreds of groups has a few kilobytes.
const maxIDToken = 16 << 10

// maxSubject bounds what the provider calls a person. The protocol allows 255.
const maxSubject = 255

// verified are the claims of a token that is good.
type verified struct {
	subject string
	expires time.Time
	claims  map[string]any
}

// verify checks an ID token. [server.ErrCredential] means that it is not good. A
// nonce is compared where there is one: that of a browser's sign-in.
func (p *provider) verify(ctx context.Context, raw, nonce string) (verified, error) {
	if len(raw) > maxIDToken {
		return verified{}, server.ErrCredential
	}
	_, verifier, err := p.discover(ctx)
	if err != nil {
		return verified{}, err
	}
	unreachable := false
	t, err := verifier.Verify(context.WithValue(ctx, unreachableKey{}, &unreachable), raw)
	if unreachable {
		return verified{}, fmt.Errorf("%w: its keys: %w", errUnreachable, err)
	}
	if err != nil {
		return verified{}, fmt.Errorf("%w: %w", server.ErrCredential, err)
	}
	v := verified{subject: t.Subject, expires: t.Expiry}
	if err := t.Claims(&v.claims); err != nil {
		return verified{}, fmt.Errorf("%w: %w", server.ErrCredential, err)
	}
	switch {
	case v.subject == "" || len(v.subject) > maxSubject:
		return verified{}, fmt.Errorf("%w: it names nobody", server.ErrCredential)
	case !p.ours(v.claims, t.Audience):
		return verified{}, fmt.Errorf("%w: it was made for somebody else, or for something else", server.ErrCredential)
	case nonce != "" && subtle.ConstantTimeCompare([]byte(nonce), []byte(t.Nonce)) != 1:
		return verified{}, fmt.Errorf("%w: it answers another sign-in", server.ErrCredential)
	}
	return v, nil
}

// ours says whether a token was made for this client, and as an ID token. Tokens
// of other kinds are signed by the same keys: access tokens say so by their
// type, log-out tokens have events.
func (p *provider) ours(claims map[string]any, audience []string) bool {
	azp, given := claims["azp"]
	if given && azp != p.clientID || !given && len(audience) > 1 {
		return false
	}
	if typ, given := claims["typ"]; given && typ != "ID" {
		return false
	}
	_, events := claims["events"]
	return !events
}

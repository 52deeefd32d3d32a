// Package oidc lets people sign in by an OpenID Connect provider: browsers by the
// authorization code with PKCE, programs by an ID token as bearer.
//
// What it promises: a person has the role and the owners that the first fitting
// rule of a file gives to the provider's claims, and without a fitting rule
// nothing. Of a person the server keeps issuer and subject, which can be erased,
// and a random id, which is what everything else names. A session is a random
// secret in a cookie, of which only the hash is stored, and ends after hours.
//
// What it refuses: a token for another client, of another issuer, without a
// signature that the provider's published keys verify, expired, or of another kind
// than an ID token; an answer that the same browser did not ask for; to follow the
// provider elsewhere, or to read without end what it sends; to lead a browser
// anywhere but to a path of this server.
package oidc

package server

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"time"

	"github.com/oklog/ulid/v2"
)

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

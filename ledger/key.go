package ledger

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/internal/foreign"
)

// Role is what a key may sign.
type Role string

// The roles.
const (
	RoleRun       Role = "run"       // runs of its own node
	RoleEnrol     Role = "enrol"     // keys of the role run, and nothing else: for a server that takes in nodes
	RoleServer    Role = "server"    // what a server decided about nodes, and what people did there; nothing else
	RoleAuthority Role = "authority" // keys and revocations of others, and runs of any node
)

// Roles gives all roles, in the order in which they are shown.
func Roles() []Role { return []Role{RoleRun, RoleEnrol, RoleServer, RoleAuthority} }

// roleNames lists them for a message.
func roleNames() string {
	var names []string
	for _, r := range Roles() {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}

// CheckRoles says what is wrong with the roles of one key, if something is.
func CheckRoles(roles []Role) error {
	if len(roles) == 0 {
		return fmt.Errorf("it has no role; known are %s", roleNames())
	}
	for i, r := range roles {
		switch {
		case !slices.Contains(Roles(), r):
			return fmt.Errorf("unknown role %.40q; known are %s", r, roleNames())
		case slices.Contains(roles[:i], r):
			return fmt.Errorf("role %s is there twice", r)
		case (r == RoleEnrol || r == RoleServer) && len(roles) > 1:
			// Its key is kept where nodes can reach it: what it can do is kept small.
			return fmt.Errorf("role %s stands alone: a key that lies on a server signs one kind of thing", r)
		}
	}
	return nil
}

// Limits of words in statements about keys. They are printed for people, so
// they are also free of control characters.
const (
	MaxOwner  = 200
	MaxReason = 500
)

// Key is a statement about a key: whose it is, what it may sign, and from when
// to when. Its Stamp's ID is the statement's own; ID is the key's.
type Key struct {
	ID                  string // KeyID of Public
	Public              ed25519.PublicKey
	Owner               string
	Roles               []Role
	NotBefore, NotAfter time.Time // both count
	SignedBy            string    // key id; the key's own when it is self-signed
	Stamp
	Envelope []byte // as it is stored and logged
}

// SelfSigned reports whether only the key's holder vouches for the statement.
func (k Key) SelfSigned() bool { return k.SignedBy == k.ID }

// Has reports whether the key has a role.
func (k Key) Has(r Role) bool { return slices.Contains(k.Roles, r) }

// String names the key for a person: owner, node and the beginning of its id.
func (k Key) String() string {
	return fmt.Sprintf("key %s of %q (node %q)", shortKeyID(k.ID), k.Owner, k.Node)
}

// shortKeyID names a key by the beginning of its id, which may be anybody's text.
func shortKeyID(id string) string {
	const shown = 16
	if len(id) <= shown {
		return strconv.Quote(id)
	}
	return foreign.Line(id, shown+len("…"))
}

// ErrKeyStatement marks a statement about a key, or a revocation, that has not
// the shape that docs/formats/statement.md gives it.
var ErrKeyStatement = errors.New("not a proper statement about a key")

// KeyOptions say what a statement about a key is to say.
type KeyOptions struct {
	Node  string // whose key it is; must be given
	Owner string // a person or an organisation; must be given
	Roles []Role // none: RoleRun
	// NotBefore is, when zero, five minutes before Now: clocks differ, and a key
	// that its own log takes for one from the future is of no use. NotAfter is,
	// when zero, a year after Now. Both are cut to whole seconds.
	NotBefore, NotAfter time.Time
	ID                  ulid.ULID // of the statement; zero: made from Now and chance
	Now                 time.Time // zero: the clock's
}

// keyClockSlack is how far a new key's validity begins before it was made.
const keyClockSlack = 5 * time.Minute

// keyPredicate is key/v1.
type keyPredicate struct {
	Stamp
	PublicKey string    `json:"public_key"`
	Owner     string    `json:"owner"`
	Roles     []Role    `json:"roles"`
	NotBefore time.Time `json:"not_before"`
	NotAfter  time.Time `json:"not_after"`
}

// StateKey makes a statement about a public key and signs it. With the key's own
// signer it is self-signed; an authority's signer certifies the key.
func StateKey(ctx context.Context, pub ed25519.PublicKey, by Signer, o KeyOptions) (Key, error) {
	if len(pub) != ed25519.PublicKeySize {
		return Key{}, fmt.Errorf("state a key: a public key has %d bytes, not %d", ed25519.PublicKeySize, len(pub))
	}
	st, err := keyStamp(o.Node, o.ID, o.Now)
	if err != nil {
		return Key{}, fmt.Errorf("state a key: %w", err)
	}
	p := keyPredicate{Stamp: st, PublicKey: base64.StdEncoding.EncodeToString(pub), Owner: o.Owner, Roles: o.Roles, NotBefore: o.NotBefore, NotAfter: o.NotAfter}
	if len(p.Roles) == 0 {
		p.Roles = []Role{RoleRun}
	}
	if p.NotBefore.IsZero() {
		p.NotBefore = st.Time.Add(-keyClockSlack)
	}
	if p.NotAfter.IsZero() {
		p.NotAfter = st.Time.AddDate(1, 0, 0)
	}
	p.NotBefore, p.NotAfter = p.NotBefore.UTC().Truncate(time.Second), p.NotAfter.UTC().Truncate(time.Second)
	envelope, err := signAboutKey(ctx, KeyPredicate, KeyID(pub), p, by)
	if err != nil {
		return Key{}, fmt.Errorf("state a key: %w", err)
	}
	k, err := ParseKey(envelope) // so nothing is made that nobody would take
	if err != nil {
		return Key{}, fmt.Errorf("state a key: %w", err)
	}
	return k, nil
}

// ParseKey reads a statement about a key: in our one spelling, with the members
// that the format has and no other. A self-signed one has its signature checked;
// that of an authority only whoever knows the authority can check (Keyring.Add).
func ParseKey(envelope []byte) (Key, error) {
	e, s, st, err := readAboutKey(envelope, KeyPredicate)
	if err != nil {
		return Key{}, err
	}
	k, err := keyOf(e, s, st)
	if err != nil {
		return Key{}, err
	}
	if k.SelfSigned() {
		if err := e.Verify(k.Public); err != nil {
			return Key{}, fmt.Errorf("statement of %s about itself: %w", k, err)
		}
	}
	k.Envelope = bytes.Clone(envelope)
	return k, nil
}

// keyOf reads the predicate. The signature is not looked at.
func keyOf(e Envelope, s Statement, st Stamp) (Key, error) {
	bad := func(format string, args ...any) (Key, error) {
		return Key{}, fmt.Errorf("%w: %w", ErrKeyStatement, fmt.Errorf(format, args...))
	}
	var p keyPredicate
	if err := decodeMembers(s.Predicate, &p, "id", "node", "nonce", "time", "public_key", "owner", "roles", "not_before", "not_after"); err != nil {
		return bad("predicate: %w", err)
	}
	pub, err := base64.StdEncoding.Strict().DecodeString(p.PublicKey)
	if err != nil || len(pub) != ed25519.PublicKeySize || strings.ContainsAny(p.PublicKey, "\r\n") {
		return bad("public_key is not %d bytes as base64", ed25519.PublicKeySize)
	}
	k := Key{
		ID: KeyID(pub), Public: pub, Owner: p.Owner, Roles: p.Roles,
		NotBefore: p.NotBefore.UTC(), NotAfter: p.NotAfter.UTC(), SignedBy: e.Signatures[0].KeyID, Stamp: st,
	}
	if err := checkAboutKey(s, st, k.ID); err != nil {
		return bad("%w", err)
	}
	if err := checkKeyWords("owner", k.Owner, MaxOwner); err != nil {
		return bad("%w", err)
	}
	if err := CheckRoles(k.Roles); err != nil {
		return bad("%w", err)
	}
	if k.NotBefore.IsZero() || !k.NotAfter.After(k.NotBefore) {
		return bad("it is valid from %s to %s, which is no time at all", clockTime(k.NotBefore), clockTime(k.NotAfter))
	}
	return k, nil
}

// keyStamp is the stamp of a statement about a key.
func keyStamp(node string, id ulid.ULID, now time.Time) (Stamp, error) {
	if now.IsZero() {
		now = time.Now()
	}
	now = now.UTC().Truncate(time.Millisecond)
	if id == (ulid.ULID{}) {
		var err error
		if id, err = ulid.New(ulid.Timestamp(now), rand.Reader); err != nil {
			return Stamp{}, fmt.Errorf("make an id: %w", err)
		}
	}
	return Stamp{ID: id, Node: node, Time: now}, nil
}

// signAboutKey makes the envelope of a statement whose subject is a key.
func signAboutKey(ctx context.Context, predicateType, keyID string, predicate any, by Signer) ([]byte, error) {
	raw, err := json.Marshal(predicate)
	if err != nil {
		return nil, err
	}
	payload, err := Statement{
		Type: StatementType, PredicateType: predicateType, Predicate: raw,
		Subject: []ResourceDescriptor{{Name: keySubject(keyID), Digest: map[string]string{"sha256": keyID}}},
	}.payload()
	if err != nil {
		return nil, err
	}
	e, err := Sign(ctx, by, payload)
	if err != nil {
		return nil, err
	}
	return e.Encode(), nil
}

// readAboutKey reads the envelope and its statement, up to the predicate.
func readAboutKey(envelope []byte, predicateType string) (Envelope, Statement, Stamp, error) {
	e, err := ReadEnvelope(envelope)
	if err != nil {
		return Envelope{}, Statement{}, Stamp{}, err
	}
	s, st, err := ParseStatement(e.Payload)
	if err == nil && (len(e.Signatures) != 1 || e.PayloadType != PayloadType) {
		err = fmt.Errorf("%w: it has %d signatures and the type %q", ErrEnvelope, len(e.Signatures), e.PayloadType)
	}
	if err == nil && s.PredicateType != predicateType {
		err = fmt.Errorf("%w: its predicate is %s, not %s", ErrKeyStatement, s.PredicateType, predicateType)
	}
	return e, s, st, err
}

func keySubject(keyID string) string { return "ed25519:" + keyID }

// checkAboutKey holds what both kinds of statements about keys have in common.
func checkAboutKey(s Statement, st Stamp, keyID string) error {
	if len(s.Subject) != 1 || s.Subject[0].Name != keySubject(keyID) || s.Subject[0].Digest["sha256"] != keyID || len(s.Subject[0].Digest) != 1 || s.Subject[0].Annotations != nil {
		return fmt.Errorf("its subject is not the key %s and nothing else", shortKeyID(keyID))
	}
	if st.Nonce != "" {
		return errors.New("it has a nonce, and is about no run")
	}
	return checkKeyWords("node", st.Node, MaxNode)
}

// checkKeyWords refuses what a terminal would not print as it is: a name must
// not be able to move the cursor and overwrite the verdict.
func checkKeyWords(what, s string, most int) error {
	switch {
	case strings.TrimSpace(s) == "" || len(s) > most:
		return fmt.Errorf("%s has %d bytes; 1 to %d are allowed, and not only spaces", what, len(s), most)
	case !foreign.Plain(s):
		return fmt.Errorf("%s %.60q has characters that cannot be printed", what, s)
	}
	return nil
}

// decodeMembers decodes an object that has exactly these members, each once.
// encoding/json alone takes "OWNER" for "owner" and the last of two, which
// another reader may see otherwise.
func decodeMembers(raw []byte, into any, names ...string) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("it is not an object")
	}
	seen := make(map[string]bool, len(names))
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		if !slices.Contains(names, name) {
			return fmt.Errorf("unknown member %.40q", name)
		}
		if seen[name] {
			return fmt.Errorf("member %q is there twice", name)
		}
		seen[name] = true
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			return err
		}
	}
	for _, n := range names {
		if !seen[n] {
			return fmt.Errorf("member %q is missing", n)
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind it")
	}
	return json.Unmarshal(raw, into)
}

// clockTime is how messages write a time.
func clockTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// IsAboutKey reports whether an envelope holds a statement about a key, or a
// revocation. It says nothing about the signature.
func IsAboutKey(envelope []byte) bool {
	e, err := ReadEnvelope(envelope)
	if err != nil {
		return false
	}
	s, _, err := ParseStatement(e.Payload)
	return err == nil && s.AboutKey()
}

package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
)

// ErrNotEnrolled means that the node has no id yet and no token to get one with.
var ErrNotEnrolled = errors.New("the node is not enrolled: give --enrol-token-file with a token from `assay server token create`")

// ErrRefused means that the server does not take the node's key: it was revoked,
// or the node is not known there any more.
var ErrRefused = errors.New("the server refuses this node")

// session is who the node is to the server: its key, its id, and the token of its
// log-in.
type session struct {
	link  *link
	vault vault
	state *state
	log   *slog.Logger

	// busy is held by whoever talks to the server about who the node is: once at a
	// time. Only its holder writes what follows, under mu.
	busy    sync.Mutex
	token   string    // of busy's holder
	renewAt time.Time // by our clock

	mu     sync.Mutex
	id     identity
	signer ledger.Signer
	key    ledger.Key // of the signer; zero: not certified yet
}

// renewShare of a log-in's time is used before it is renewed.
const renewShare = 0.75

// openSession reads who the node is, and makes its key if it has none.
func openSession(s *state, v vault, l *link, log *slog.Logger) (*session, error) {
	id, err := s.identity()
	if err != nil {
		return nil, err
	}
	if id.Server != "" && id.Server != l.base.String() {
		return nil, fmt.Errorf("state directory %s belongs to the server %s, not %s: give each its own", s.dir, foreign.Line(id.Server, 200), l.base)
	}
	x := &session{link: l, vault: v, state: s, log: log, id: id}
	if id.Key == "" {
		if x.id.Key, err = v.create(); err != nil {
			return nil, err
		}
		x.id.Server = l.base.String()
		if err := s.write(nodeFile, x.id); err != nil {
			return nil, err
		}
	}
	if x.signer, err = v.open(x.id.Key); err != nil {
		return nil, err
	}
	if x.id.Node != "" {
		if x.key, err = v.statement(x.id.Key, x.id.Node); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// node is the node's id; empty: not enrolled.
func (s *session) node() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id.Node
}

// signing is what runs are signed with.
func (s *session) signing() (ledger.Signer, ledger.Key, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signer, s.key, s.id.Node
}

// enrol has the server take the node in. The same token and key get the same
// answer, so it may be asked again after any failure.
func (s *session) enrol(ctx context.Context, token string) error {
	s.busy.Lock()
	defer s.busy.Unlock()
	if s.id.Node != "" {
		return nil
	}
	if token == "" {
		return ErrNotEnrolled
	}
	server, err := call[api.Server](ctx, s.link, "ask who the server is", callTimeout, func(ctx context.Context) (*http.Response, error) {
		return s.link.client.GetServer(ctx)
	})
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // only a name for people
	sum := sha256.Sum256([]byte(token))
	proof, err := ledger.SignProof(ctx, s.signer, ledger.EnrolType, ledger.EnrolProof{
		Origin: server.Origin, PublicKey: s.signer.Public(), TokenSHA256: hex.EncodeToString(sum[:]), Hostname: foreign.Cut(host, 253),
	})
	if err != nil {
		return err
	}
	sent := time.Now()
	got, err := call[api.Enrolled](ctx, s.link, "enrol", callTimeout, func(ctx context.Context) (*http.Response, error) {
		return s.link.client.Enrol(ctx, api.Enrolment{Token: token, Proof: proof})
	})
	if err != nil {
		return err
	}
	s.link.clock.saw(sent, time.Now(), got.Time)
	if _, err := ulid.ParseStrict(got.Node); err != nil || got.Origin != server.Origin {
		return errors.New("enrol: the server's answer has no proper node or another origin than the server's")
	}
	key, err := s.vault.certify(s.id.Key, got.Node, got.KeyStatement)
	if err != nil {
		return fmt.Errorf("enrol: %w", err)
	}
	id := s.id
	id.Node, id.Owner, id.Origin, id.Heartbeat = got.Node, foreign.Line(got.Owner, 100), got.Origin, got.HeartbeatSeconds
	if err := s.state.write(nodeFile, id); err != nil {
		return err
	}
	s.become(id, s.signer, key)
	s.log.Info("the node is enrolled", "node", id.Node, "owner", id.Owner, "key", id.Key)
	return nil
}

// become changes who the node is. s.busy is held.
func (s *session) become(id identity, signer ledger.Signer, key ledger.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.signer, s.key = id, signer, key
}

// authorised gives the token of a log-in that holds.
func (s *session) authorised(ctx context.Context) (string, error) {
	s.busy.Lock()
	defer s.busy.Unlock()
	if s.token == "" || !time.Now().Before(s.renewAt) {
		if err := s.login(ctx); err != nil {
			return "", err
		}
	}
	return s.token, nil
}

// bearer adds a token to a request.
func bearer(token string) api.RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
}

// login logs in, with the key that the server was asked to certify if it took
// that and we never learned of it. s.busy is held.
func (s *session) login(ctx context.Context) error {
	if s.id.Node == "" {
		return ErrNotEnrolled
	}
	err := s.loginAs(ctx, s.signer)
	if s.id.NextKey == "" || status(err) != http.StatusUnauthorized && status(err) != http.StatusForbidden {
		return refusedAs(err)
	}
	next, kerr := s.vault.open(s.id.NextKey)
	if kerr != nil {
		return errors.Join(refusedAs(err), kerr)
	}
	if nerr := s.loginAs(ctx, next); nerr != nil {
		return refusedAs(err)
	}
	return s.adopt(ctx, next)
}

// refusedAs marks an answer that says no to the key itself.
func refusedAs(err error) error {
	switch status(err) {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

func (s *session) loginAs(ctx context.Context, signer ledger.Signer) error {
	l := s.link
	sent := time.Now()
	nonce, err := call[api.Nonce](ctx, l, "ask for a nonce", callTimeout, func(ctx context.Context) (*http.Response, error) {
		return l.client.CreateNonce(ctx, api.CreateNonceJSONRequestBody{Node: s.id.Node})
	})
	if err != nil {
		return err
	}
	l.clock.saw(sent, time.Now(), nonce.Time)
	if nonce.Origin != s.id.Origin {
		// Signing for whatever somebody names would log them in there.
		return fmt.Errorf("%w: it calls itself %s, and the node enrolled with %s", ErrRefused, foreign.Line(nonce.Origin, 200), s.id.Origin)
	}
	proof, err := ledger.SignProof(ctx, signer, ledger.LoginType, ledger.LoginProof{Origin: s.id.Origin, Node: s.id.Node, Nonce: nonce.Nonce})
	if err != nil {
		return err
	}
	sent = time.Now()
	in, err := call[api.Login](ctx, l, "log in", callTimeout, func(ctx context.Context) (*http.Response, error) {
		return l.client.LoginWithBody(ctx, "application/octet-stream", bytes.NewReader(proof))
	})
	if err != nil {
		return err
	}
	got := time.Now()
	l.clock.saw(sent, got, in.Time)
	holds := in.Expires.Sub(in.Time) // by the server's clock alone
	if in.Token == "" || len(in.Token) > 8192 || !foreign.Plain(in.Token) || holds <= 0 {
		return errors.New("log in: the server's answer has no token that holds")
	}
	s.token, s.renewAt = in.Token, sent.Add(time.Duration(renewShare*float64(min(holds, 24*time.Hour))))
	return nil
}

// lost forgets a log-in that the server does not know any more, unless somebody
// has made a new one since.
func (s *session) lost(token string) {
	s.busy.Lock()
	defer s.busy.Unlock()
	if s.token == token {
		s.token = ""
	}
}

// as makes a call by the node, and once more after a log-in that ended too early.
func as[T any](ctx context.Context, s *session, doing string, timeout time.Duration, do func(context.Context, string, api.RequestEditorFn) (*http.Response, error)) (T, error) {
	var v T
	var err error
	for range 2 {
		var token string
		if token, err = s.authorised(ctx); err != nil {
			return v, err
		}
		v, err = call[T](ctx, s.link, doing, timeout, func(ctx context.Context) (*http.Response, error) { return do(ctx, s.node(), bearer(token)) })
		if status(err) != http.StatusUnauthorized {
			return v, err
		}
		s.lost(token)
	}
	return v, err
}

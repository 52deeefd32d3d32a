package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
)

const maxAnswer = 4 << 20

// agent is one of the swarm.
type agent struct {
	*swarm
	node   string
	origin string
	signer ledger.Signer
	key    ledger.Key
	calls  *api.Client // by the shared connections
	poller *api.Client // by a connection of its own

	mu     sync.Mutex
	token  string
	failed bool      // the last request had no answer
	away   time.Time // until then it asks nothing
}

func bearer(token string) api.RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
}

// ask makes one request and decodes its answer.
func ask[T any](ctx context.Context, m *meter, kind string, limit time.Duration, do func(context.Context) (*http.Response, error)) (v T, err error) {
	over := ctx // when the time is over, what is under way counts as nothing
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	defer func() {
		if err == nil || over.Err() == nil {
			m.done(kind, time.Since(began), err)
		}
	}()
	resp, err := do(ctx)
	if err != nil {
		return v, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return v, err
	}
	if resp.StatusCode/100 != 2 {
		after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return v, &statusError{resp.StatusCode, string(b[:min(len(b), 300)]), time.Duration(after) * time.Second}
	}
	if _, nothing := any(v).(struct{}); !nothing {
		err = json.Unmarshal(b, &v)
	}
	return v, err
}

// insist repeats what was refused for the moment, until ctx ends.
func insist[T any](ctx context.Context, m *meter, kind string, do func(context.Context) (*http.Response, error)) (T, error) {
	for {
		v, err := ask[T](ctx, m, kind, timeout, do)
		var s *statusError
		wait := time.Second
		if errors.As(err, &s) {
			if s.status != http.StatusTooManyRequests && s.status < 500 {
				return v, err
			}
			wait = max(wait, s.after)
		}
		if err == nil || !pause(ctx, jitter(wait)) {
			return v, err
		}
	}
}

// enrol takes a new agent in.
func (s *swarm) enrol(ctx context.Context) (*agent, error) {
	_, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	a := &agent{swarm: s, signer: ledger.HeldKey(priv)}
	if a.calls, err = api.NewClient(s.server, api.WithHTTPClient(s.shared)); err != nil {
		return nil, err
	}
	if a.poller, err = api.NewClient(s.server, api.WithHTTPClient(s.waits)); err != nil {
		return nil, err
	}
	token, err := insist[api.CreatedToken](ctx, s.meter, "token", func(ctx context.Context) (*http.Response, error) {
		return s.admin.CreateEnrolmentToken(ctx, api.NewEnrolmentToken{Owner: "swarm"})
	})
	if err != nil {
		return nil, fmt.Errorf("make an enrolment token: %w", err)
	}
	server, err := insist[api.Server](ctx, s.meter, "server", func(ctx context.Context) (*http.Response, error) { return a.calls.GetServer(ctx) })
	if err != nil {
		return nil, fmt.Errorf("ask who the server is: %w", err)
	}
	a.origin = server.Origin
	sum := sha256.Sum256([]byte(token.Token))
	proof, err := ledger.SignProof(ctx, a.signer, ledger.EnrolType, ledger.EnrolProof{
		Origin: a.origin, PublicKey: a.signer.Public(), TokenSHA256: hex.EncodeToString(sum[:]), Hostname: "swarm",
	})
	if err != nil {
		return nil, err
	}
	in, err := insist[api.Enrolled](ctx, s.meter, "enrol", func(ctx context.Context) (*http.Response, error) {
		return a.calls.Enrol(ctx, api.Enrolment{Token: token.Token, Proof: proof})
	})
	if err != nil {
		return nil, fmt.Errorf("enrol: %w", err)
	}
	a.node = in.Node
	if a.key, err = ledger.ParseKey(in.KeyStatement); err != nil {
		return nil, err
	}
	return a, a.login(ctx)
}

// login gets a token.
func (a *agent) login(ctx context.Context) error {
	nonce, err := insist[api.Nonce](ctx, a.meter, "nonce", func(ctx context.Context) (*http.Response, error) {
		return a.calls.CreateNonce(ctx, api.CreateNonceJSONRequestBody{Node: a.node})
	})
	if err != nil {
		return fmt.Errorf("ask for a nonce: %w", err)
	}
	proof, err := ledger.SignProof(ctx, a.signer, ledger.LoginType, ledger.LoginProof{Origin: a.origin, Node: a.node, Nonce: nonce.Nonce})
	if err != nil {
		return err
	}
	in, err := insist[api.Login](ctx, a.meter, "login", func(ctx context.Context) (*http.Response, error) {
		return a.calls.LoginWithBody(ctx, "application/octet-stream", bytes.NewReader(proof))
	})
	if err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token = in.Token
	return nil
}

func (a *agent) auth(ctx context.Context, r *http.Request) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return bearer(a.token)(ctx, r)
}

// reach makes a request, and when there is no answer lets the agent rest for a time
// by chance, one for all that it does, as real ones do: a server that returns must
// not be run over.
func reach[T any](ctx context.Context, a *agent, kind string, limit time.Duration, do func(context.Context) (*http.Response, error)) (v T, ok bool) {
	for {
		a.mu.Lock()
		away := a.away
		a.mu.Unlock()
		if !pause(ctx, time.Until(away)) {
			return v, false
		}
		v, err := ask[T](ctx, a.meter, kind, limit, do)
		if err == nil {
			a.answered()
			return v, true
		}
		if ctx.Err() != nil {
			return v, false
		}
		var wait time.Duration
		var s *statusError
		switch {
		case !errors.As(err, &s):
			a.mu.Lock()
			a.failed = true
			if now := time.Now(); now.After(a.away) {
				a.away = now.Add(time.Duration(rand.Float64() * float64(a.spread)))
			}
			a.mu.Unlock()
		case s.status == http.StatusUnauthorized:
			if a.login(ctx) != nil {
				return v, false
			}
			wait = 0
		case s.status == http.StatusTooManyRequests || s.status >= 500:
			wait = max(s.after, time.Second)
		default:
			return v, false
		}
		if !pause(ctx, wait) {
			return v, false
		}
	}
}

// answered notes that the server is back.
func (a *agent) answered() {
	a.mu.Lock()
	back := a.failed
	a.failed = false
	a.mu.Unlock()
	if back {
		a.meter.returned()
	}
}

// beats tells the server that the agent is there.
func (a *agent) beats(ctx context.Context) {
	for pause(ctx, time.Duration(rand.Float64()*float64(a.heartbeat))) {
		known := true
		reach[api.Seen](ctx, a, "heartbeat", timeout, func(ctx context.Context) (*http.Response, error) {
			return a.calls.Heartbeat(ctx, a.node, api.Heartbeat{Time: time.Now().UTC(), Version: "swarm", RunningKnown: &known}, a.auth)
		})
		if !pause(ctx, jitter(a.heartbeat)/2) {
			return
		}
	}
}

// polls waits for commands and says that each is done.
func (a *agent) polls(ctx context.Context) {
	wait := 30
	for ctx.Err() == nil {
		commands, ok := reach[[]api.Command](ctx, a, "poll", 2*timeout, func(ctx context.Context) (*http.Response, error) {
			return a.poller.ListCommands(ctx, a.node, &api.ListCommandsParams{Wait: &wait}, a.auth)
		})
		if !ok {
			return
		}
		for _, c := range commands {
			reach[struct{}](ctx, a, "acknowledge", timeout, func(ctx context.Context) (*http.Response, error) {
				return a.calls.AcknowledgeCommand(ctx, a.node, c.Id, api.Acknowledgement{Outcome: api.AcknowledgementOutcomeDone}, a.auth)
			})
		}
	}
}

// reports delivers one after the other. One that was begun is brought to its end
// even when the time is over.
func (a *agent) reports(ctx, late context.Context) {
	for pause(ctx, time.Duration(rand.Float64()*float64(a.report))) {
		a.took(a.deliver(late))
		if !pause(ctx, jitter(a.report)/2) {
			return
		}
	}
}

// deliver signs a run and brings its statements and files to the server.
func (a *agent) deliver(ctx context.Context) bool {
	records, files, err := a.run.sign(ctx, a.node, a.signer, a.key)
	if err != nil {
		a.meter.done("sign", 0, err)
		return false
	}
	var body []byte
	for i := range records {
		body = append(append(body, bytes.TrimSuffix(records[i].Value, []byte{'\n'})...), '\n')
	}
	got, ok := reach[api.Delivery](ctx, a, "deliver", timeout, func(ctx context.Context) (*http.Response, error) {
		return a.calls.DeliverStatementsWithBody(ctx, a.node, "application/octet-stream", bytes.NewReader(body), a.auth)
	})
	if !ok {
		return false
	}
	var ids []string
	for _, o := range got.Outcomes {
		if o.Outcome == api.DeliveryOutcomesOutcomeRefused {
			a.meter.done("deliver", 0, &statusError{status: 0, text: "refused"})
			return false
		}
		ids = append(ids, o.Id)
	}
	a.deliveredAs(ids)
	announced, err := announcement(records[len(records)-1], files)
	if err != nil {
		a.meter.done("sign", 0, err)
		return false
	}
	up, ok := reach[api.Uploads](ctx, a, "announce", timeout, func(ctx context.Context) (*http.Response, error) {
		return a.calls.CreateReport(ctx, a.node, announced, a.auth)
	})
	for range 5 {
		if !ok {
			return false
		}
		a.upload(ctx, files, up) // a link may have ended: what is missing then comes with new ones
		if up, ok = reach[api.Uploads](ctx, a, "confirm", timeout, func(ctx context.Context) (*http.Response, error) {
			return a.calls.ConfirmReport(ctx, a.node, up.Report, a.auth)
		}); ok && len(up.Uploads) == 0 {
			return true
		}
	}
	return false
}

// announcement names the files that the statement covers.
func announcement(r ledger.Record, files map[string][]byte) (api.Announcement, error) {
	a := api.Announcement{Statement: r.ID.String()}
	e, err := ledger.ReadEnvelope(r.Value)
	if err != nil {
		return a, err
	}
	st, _, err := ledger.ParseStatement(e.Payload)
	if err != nil {
		return a, err
	}
	for _, s := range st.Subject {
		if b, there := files[s.Name]; there {
			a.Files = append(a.Files, api.File{Name: s.Name, Sha256: s.Digest["sha256"], Size: int64(len(b))})
		}
	}
	return a, nil
}

// upload puts files where the server wants them, up to the first that is refused.
func (a *agent) upload(ctx context.Context, files map[string][]byte, up api.Uploads) {
	for i := range up.Uploads {
		u := &up.Uploads[i]
		_, ok := reach[struct{}](ctx, a, "upload", timeout, func(ctx context.Context) (*http.Response, error) {
			at, err := a.base.Parse(u.Url) // of a directory it is a reference
			if err != nil {
				return nil, err
			}
			r, err := http.NewRequestWithContext(ctx, u.Method, at.String(), bytes.NewReader(files[u.Name]))
			if err != nil {
				return nil, err
			}
			for k, v := range u.Headers {
				r.Header.Set(k, v)
			}
			return a.shared.Do(r)
		})
		if !ok {
			return
		}
	}
}

package agent

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
)

// fake is a server that keeps everything in memory, and fails when told to.
type fake struct {
	api.StrictServerInterface // what no agent asks for
	t                         testing.TB
	http                      *httptest.Server
	enrolKey                  ledger.Signer
	origin                    string
	ahead                     time.Duration // its clock

	// fault answers in place of the server, if it returns true.
	fault func(w http.ResponseWriter, r *http.Request) bool
	// step is told when something has happened at the server, before the answer.
	step func(name string)

	mu         sync.Mutex
	tokens     map[string]string // of enrolment, to the key that used it
	enrolled   map[string]api.Enrolled
	keys       map[string][]ed25519.PublicKey // of nodes; the last is the one that counts
	keyEnv     map[string][]byte              // statements by key id
	nonces     map[string]bool
	logins     map[string]string // token to node
	lifetime   time.Duration
	beats      []api.Heartbeat
	inventory  []api.Inventory
	settings   api.Settings
	commands   []api.Command
	acks       map[string][]api.Acknowledgement
	statements map[string][]byte
	taken      []string // ids as they were taken
	events     [][]byte
	duplicates int
	refuse     func(id string) string
	reports    map[string]api.Announcement
	confirmed  map[string]bool
	objects    map[string][]byte
	lose       int // so many uploads vanish
	requests   map[string]int
}

const goodToken = "enrol-token-1"

func newFake(t testing.TB) *fake {
	_, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{
		t: t, enrolKey: ledger.HeldKey(priv), origin: "https://fake.example", lifetime: time.Hour,
		tokens: map[string]string{goodToken: ""}, enrolled: map[string]api.Enrolled{}, keys: map[string][]ed25519.PublicKey{}, keyEnv: map[string][]byte{},
		nonces: map[string]bool{}, logins: map[string]string{}, acks: map[string][]api.Acknowledgement{}, statements: map[string][]byte{},
		reports: map[string]api.Announcement{}, confirmed: map[string]bool{}, objects: map[string][]byte{}, requests: map[string]int{},
		settings: api.Settings{Version: 0},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /objects/{sha}", f.object)
	api.HandlerFromMux(api.NewStrictHandler(f, []api.StrictMiddlewareFunc{f.guard}), mux)
	f.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.requests[r.Method+" "+r.URL.Path]++
		fault := f.fault
		f.mu.Unlock()
		if fault != nil && fault(w, r) {
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(f.http.Close)
	return f
}

func (f *fake) setFault(fault func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *fake) did(name string) {
	f.mu.Lock()
	step := f.step
	f.mu.Unlock()
	if step != nil {
		step(name)
	}
}

func (f *fake) now() time.Time { return time.Now().Add(f.ahead).UTC() }

type nodeKey struct{}

// guard lets a node in by its log-in only.
func (f *fake) guard(next api.StrictHandlerFunc, operation string) api.StrictHandlerFunc {
	return func(ctx context.Context, w http.ResponseWriter, r *http.Request, request any) (any, error) {
		switch operation {
		case "GetServer", "Enrol", "CreateNonce", "Login":
			return next(ctx, w, r, request)
		}
		f.mu.Lock()
		node := f.logins[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		f.mu.Unlock()
		if node == "" || node != r.PathValue("node") {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"type":"about:blank","title":"log in first","status":401}`)
			return nil, nil
		}
		return next(context.WithValue(ctx, nodeKey{}, node), w, r, request)
	}
}

func problemOf(status int, title string) api.EnroldefaultApplicationProblemPlusJSONResponse {
	return api.EnroldefaultApplicationProblemPlusJSONResponse{StatusCode: status, Body: api.Problem{Type: "about:blank", Title: title, Status: status}}
}

func (f *fake) GetServer(context.Context, api.GetServerRequestObject) (api.GetServerResponseObject, error) {
	return api.GetServer200JSONResponse(api.Server{Origin: f.origin, Time: f.now()}), nil
}

func (f *fake) Enrol(ctx context.Context, r api.EnrolRequestObject) (api.EnrolResponseObject, error) {
	var p ledger.EnrolProof
	if err := ledger.OpenOwnProof(r.Body.Proof, ledger.EnrolType, &p, func() ed25519.PublicKey { return p.PublicKey }); err != nil {
		return problemOf(400, err.Error()), nil
	}
	sum := sha256.Sum256([]byte(r.Body.Token))
	if p.Origin != f.origin || p.TokenSHA256 != hex.EncodeToString(sum[:]) {
		return problemOf(400, "not for me"), nil
	}
	id := ledger.KeyID(p.PublicKey)
	f.mu.Lock()
	used, known := f.tokens[r.Body.Token]
	if !known || used != "" && used != id {
		f.mu.Unlock()
		return problemOf(403, "the token was used"), nil
	}
	e, ok := f.enrolled[id]
	if !ok {
		node := ulid.Make().String()
		k, err := ledger.StateKey(ctx, p.PublicKey, f.enrolKey, ledger.KeyOptions{Node: node, Owner: "owner"})
		if err != nil {
			f.mu.Unlock()
			return nil, err
		}
		e = api.Enrolled{Node: node, Owner: "owner", Origin: f.origin, KeyStatement: k.Envelope, HeartbeatSeconds: 30}
		f.tokens[r.Body.Token], f.enrolled[id] = id, e
		f.keys[node], f.keyEnv[id] = []ed25519.PublicKey{p.PublicKey}, k.Envelope
	}
	f.mu.Unlock()
	f.did("enrol")
	e.Time = f.now()
	return api.Enrol200JSONResponse(e), nil
}

func (f *fake) CreateNonce(_ context.Context, r api.CreateNonceRequestObject) (api.CreateNonceResponseObject, error) {
	nonce := ulid.Make().String()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nonces[nonce] = true
	return api.CreateNonce200JSONResponse(api.Nonce{Nonce: nonce, Origin: f.origin, Time: f.now(), Expires: f.now().Add(time.Minute)}), nil
}

func (f *fake) Login(_ context.Context, r api.LoginRequestObject) (api.LoginResponseObject, error) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	no := api.LogindefaultApplicationProblemPlusJSONResponse{StatusCode: 401, Body: api.Problem{Title: "no", Status: 401}}
	f.mu.Lock()
	defer f.mu.Unlock()
	for node, keys := range f.keys {
		var p ledger.LoginProof
		if len(keys) == 0 || ledger.OpenProof(b, ledger.LoginType, keys[len(keys)-1], &p) != nil {
			continue
		}
		if p.Node != node || p.Origin != f.origin || !f.nonces[p.Nonce] {
			return no, nil
		}
		delete(f.nonces, p.Nonce)
		token := ulid.Make().String()
		f.logins[token] = node
		return api.Login200JSONResponse(api.Login{Token: token, Node: node, Time: f.now(), Expires: f.now().Add(f.lifetime)}), nil
	}
	return no, nil
}

func (f *fake) Heartbeat(_ context.Context, r api.HeartbeatRequestObject) (api.HeartbeatResponseObject, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beats = append(f.beats, *r.Body)
	return api.Heartbeat200JSONResponse(api.Seen{
		Time: f.now(), HeartbeatSeconds: 30, SendInventory: len(f.inventory) == 0, SettingsVersion: f.settings.Version,
		Intent: api.IntentServe, State: api.AdmissionPending,
	}), nil
}

func (f *fake) PutInventory(_ context.Context, r api.PutInventoryRequestObject) (api.PutInventoryResponseObject, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inventory = append(f.inventory, *r.Body)
	return api.PutInventory204Response{}, nil
}

func (f *fake) GetSettings(context.Context, api.GetSettingsRequestObject) (api.GetSettingsResponseObject, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return api.GetSettings200JSONResponse(f.settings), nil
}

func (f *fake) ListCommands(ctx context.Context, r api.ListCommandsRequestObject) (api.ListCommandsResponseObject, error) {
	for end := time.Now().Add(200 * time.Millisecond); ; time.Sleep(5 * time.Millisecond) {
		f.mu.Lock()
		var out []api.Command
		for _, c := range f.commands {
			if len(f.acks[c.Id]) == 0 {
				out = append(out, c)
			}
		}
		f.mu.Unlock()
		if len(out) > 0 || time.Now().After(end) || ctx.Err() != nil {
			return api.ListCommands200JSONResponse(out), nil
		}
	}
}

func (f *fake) AcknowledgeCommand(_ context.Context, r api.AcknowledgeCommandRequestObject) (api.AcknowledgeCommandResponseObject, error) {
	f.mu.Lock()
	f.acks[r.Command] = append(f.acks[r.Command], *r.Body)
	f.mu.Unlock()
	f.did("ack " + string(r.Body.Outcome))
	return api.AcknowledgeCommand204Response{}, nil
}

func (f *fake) DeliverStatements(ctx context.Context, r api.DeliverStatementsRequestObject) (api.DeliverStatementsResponseObject, error) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	f.did("deliver: received")
	d := f.take(b)
	f.did("deliver: taken")
	return api.DeliverStatements200JSONResponse(d), nil
}

func (f *fake) DeliverEvents(_ context.Context, r api.DeliverEventsRequestObject) (api.DeliverEventsResponseObject, error) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var d api.Delivery
	f.mu.Lock()
	defer f.mu.Unlock()
	for line := range bytes.Lines(b) {
		f.events = append(f.events, bytes.Clone(line))
		d.Outcomes = append(d.Outcomes, struct {
			Id      string                      `json:"id"`
			Outcome api.DeliveryOutcomesOutcome `json:"outcome"`
			Reason  *string                     `json:"reason,omitempty"`
		}{Outcome: api.DeliveryOutcomesOutcomeTaken})
	}
	return api.DeliverEvents200JSONResponse(d), nil
}

func newULID() ulid.ULID { return ulid.Make() }

func checkOf(name string) assay.Check {
	return assay.Check{At: time.Now().UnixNano(), Name: name, Verdict: assay.Pass, Evidence: "it is there"}
}

func (f *fake) take(b []byte) (d api.Delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for line := range bytes.Lines(b) {
		rec, err := ledger.RecordOf(line)
		one := api.Delivery{}.Outcomes
		one = append(one, struct {
			Id      string                      `json:"id"`
			Outcome api.DeliveryOutcomesOutcome `json:"outcome"`
			Reason  *string                     `json:"reason,omitempty"`
		}{})
		o := &one[0]
		if err != nil {
			why := err.Error()
			o.Outcome, o.Reason = api.DeliveryOutcomesOutcomeRefused, &why
			d.Outcomes = append(d.Outcomes, *o)
			continue
		}
		o.Id = rec.ID.String()
		why := ""
		if f.refuse != nil {
			why = f.refuse(o.Id)
		}
		switch before, there := f.statements[o.Id]; {
		case why != "":
			o.Outcome, o.Reason = api.DeliveryOutcomesOutcomeRefused, &why
		case there && !bytes.Equal(before, line):
			why = "other bytes under this id"
			f.t.Error(why)
			o.Outcome, o.Reason = api.DeliveryOutcomesOutcomeRefused, &why
		case there:
			f.duplicates++
			o.Outcome = api.DeliveryOutcomesOutcomeDuplicate
		default:
			f.statements[o.Id] = bytes.Clone(line)
			f.taken = append(f.taken, o.Id)
			o.Outcome = api.DeliveryOutcomesOutcomeTaken
		}
		d.Outcomes = append(d.Outcomes, *o)
	}
	return d
}

func (f *fake) missing(statement string, a api.Announcement) api.Uploads {
	up := api.Uploads{Report: statement}
	up.Uploads = append(up.Uploads, up.Uploads...)
	for _, file := range a.Files {
		if _, ok := f.objects[file.Sha256]; ok {
			continue
		}
		sum, _ := hex.DecodeString(file.Sha256)
		up.Uploads = append(up.Uploads, struct {
			Expires api.Time          `json:"expires"`
			Headers map[string]string `json:"headers"`
			Method  string            `json:"method"`
			Name    string            `json:"name"`
			Sha256  api.Sha256        `json:"sha256"`
			Url     string            `json:"url"`
		}{f.now().Add(time.Hour), map[string]string{"x-amz-checksum-sha256": base64.StdEncoding.EncodeToString(sum), "Content-Length": fmt.Sprint(file.Size)}, "PUT", file.Name, file.Sha256, f.http.URL + "/objects/" + file.Sha256})
	}
	if up.Uploads == nil {
		up.Uploads = make([]struct {
			Expires api.Time          `json:"expires"`
			Headers map[string]string `json:"headers"`
			Method  string            `json:"method"`
			Name    string            `json:"name"`
			Sha256  api.Sha256        `json:"sha256"`
			Url     string            `json:"url"`
		}, 0)
	}
	return up
}

func (f *fake) CreateReport(_ context.Context, r api.CreateReportRequestObject) (api.CreateReportResponseObject, error) {
	f.mu.Lock()
	_, known := f.statements[r.Body.Statement]
	if known {
		f.reports[r.Body.Statement] = *r.Body
	}
	up := f.missing(r.Body.Statement, *r.Body)
	f.mu.Unlock()
	if !known {
		return api.CreateReportdefaultApplicationProblemPlusJSONResponse{StatusCode: 409, Body: api.Problem{Title: "the statement is not known", Status: 409}}, nil
	}
	f.did("announce")
	return api.CreateReport200JSONResponse(up), nil
}

func (f *fake) ConfirmReport(_ context.Context, r api.ConfirmReportRequestObject) (api.ConfirmReportResponseObject, error) {
	f.mu.Lock()
	up := f.missing(r.Report, f.reports[r.Report])
	if len(up.Uploads) == 0 {
		f.confirmed[r.Report] = true
	}
	f.mu.Unlock()
	f.did("confirm")
	return api.ConfirmReport200JSONResponse(up), nil
}

// object takes an upload that is what its link says.
func (f *fake) object(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	sum := sha256.Sum256(b)
	sha := r.PathValue("sha")
	if err != nil || hex.EncodeToString(sum[:]) != sha || r.Header.Get("x-amz-checksum-sha256") != base64.StdEncoding.EncodeToString(sum[:]) || r.Header.Get("Authorization") != "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	if f.lose > 0 {
		f.lose--
	} else {
		f.objects[sha] = b
	}
	f.mu.Unlock()
	f.did("upload")
}

func (f *fake) RotateKey(ctx context.Context, r api.RotateKeyRequestObject) (api.RotateKeyResponseObject, error) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var p ledger.RotationProof
	if err := ledger.OpenOwnProof(b, ledger.RotationType, &p, func() ed25519.PublicKey { return p.PublicKey }); err != nil || p.Node != r.Node || p.Origin != f.origin {
		return api.RotateKeydefaultApplicationProblemPlusJSONResponse{StatusCode: 400, Body: api.Problem{Title: "no proof", Status: 400}}, nil
	}
	k, err := ledger.StateKey(ctx, p.PublicKey, f.enrolKey, ledger.KeyOptions{Node: r.Node, Owner: "owner"})
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.keys[r.Node] = append(f.keys[r.Node], p.PublicKey)
	f.keyEnv[ledger.KeyID(p.PublicKey)] = k.Envelope
	clear(f.logins)
	f.mu.Unlock()
	f.did("rotate")
	return api.RotateKey200ApplicationoctetStreamResponse{Body: bytes.NewReader(k.Envelope), ContentLength: int64(len(k.Envelope))}, nil
}

func (f *fake) GetKeyStatement(_ context.Context, r api.GetKeyStatementRequestObject) (api.GetKeyStatementResponseObject, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.keyEnv[r.Key]
	return api.GetKeyStatement200ApplicationoctetStreamResponse{Body: bytes.NewReader(b), ContentLength: int64(len(b))}, nil
}

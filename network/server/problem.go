package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
)

// maxDetail bounds what a problem says. It may hold words of whoever asked.
const maxDetail = 1000

// refusal is an error that is told to whoever asked: its words are for them. Any
// other error is a fault of ours, which is logged and not told.
type refusal struct {
	status int
	detail string
	retry  time.Duration // when to ask again; zero: not said
	kind   string        // a problem that programs tell apart; empty: its status says all
}

func (r *refusal) Error() string { return r.detail }

// refuse makes a refusal.
func refuse(status int, format string, args ...any) error {
	return &refusal{status: status, detail: fmt.Sprintf(format, args...)}
}

// refuseFor makes a refusal that ends by itself.
func refuseFor(status int, retry time.Duration, format string, args ...any) error {
	return &refusal{status: status, retry: retry, detail: fmt.Sprintf(format, args...)}
}

// notFound is for what is not there, and for what is not theirs to see: nobody can
// tell the two apart.
func notFound(what string) error {
	return refuse(http.StatusNotFound, "there is no such %s, or it is not yours to see", what)
}

// refusalOf is the refusal that an error is, or nil.
func refusalOf(err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return &refusal{status: http.StatusRequestEntityTooLarge, detail: fmt.Sprintf("the request has more than %d bytes", large.Limit)}
	}
	return nil
}

// writeProblem answers by RFC 9457.
func writeProblem(w http.ResponseWriter, id string, r *refusal) {
	h := w.Header()
	if r.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(r.retry.Seconds())))))
	}
	if r.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	h.Set("Content-Type", "application/problem+json")
	detail := foreign.Line(r.detail, maxDetail)
	kind := "about:blank"
	if r.kind != "" {
		kind = r.kind
	}
	p := api.Problem{Type: kind, Title: http.StatusText(r.status), Status: r.status, Detail: &detail, Instance: &id}
	b, err := json.Marshal(p)
	if err != nil { // strings and a number: there is nothing that could fail
		b = []byte(`{"type":"about:blank","title":"error","status":500}`)
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(append(foreign.JSON(b), '\n')) // whoever asked may be gone
}

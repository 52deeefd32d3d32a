package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// request is what is known of one request while it is answered.
type request struct {
	id     string
	op     string // of the document; empty: none was found
	node   string // that its path names
	owner  string // of that node, once it was looked up
	target string // for the audit log, where a handler knows it better
	detail string // for the audit log
	body   []byte // as it came, where it is JSON
	who    Principal

	audited bool // its entry was written with what it did
	err     error
}

type requestKey struct{}

// requestOf is the request whose context this is.
func requestOf(ctx context.Context) *request {
	r, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		return &request{}
	}
	return r
}

// recorder sees what is answered.
type recorder struct {
	http.ResponseWriter
	status int
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ServeHTTP answers one request. Whatever it is, it gets an id and an answer, and
// leaves a count.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := s.now()
	req := &request{id: newID(began)}
	h := w.Header()
	h.Set("X-Request-Id", req.id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	rec := &recorder{ResponseWriter: w}
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, req))
	defer func() {
		if p := recover(); p != nil {
			s.panicked(rec, req, p)
		}
		s.metrics.answered(req.op, rec.status, s.now().Sub(began))
	}()
	if err := s.origins.Check(r); err != nil {
		s.fail(rec, r, refuse(http.StatusForbidden, "the request was sent by a page of another origin: %s", err))
		return
	}
	s.route(rec, r)
}

// Route is the pattern of what will answer a request; empty: nothing will.
func (s *Server) Route(r *http.Request) string {
	_, pattern := s.mux.Handler(r)
	return pattern
}

// route finds what answers, and answers by itself where there is nothing.
func (s *Server) route(w *recorder, r *http.Request) {
	h, pattern := s.mux.Handler(r)
	if pattern != "" {
		s.mux.ServeHTTP(w, r)
		return
	}
	none := &nothing{header: http.Header{}}
	h.ServeHTTP(none, r)
	if allow := none.header.Get("Allow"); none.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", allow)
		s.fail(w, r, refuse(none.status, "here only %s is answered", allow))
		return
	}
	s.fail(w, r, refuse(http.StatusNotFound, "there is nothing at this path; docs/api/openapi.yaml has those that there are"))
}

// nothing takes the mux' own answer, which is no problem of RFC 9457.
type nothing struct {
	header http.Header
	status int
}

func (n *nothing) Header() http.Header         { return n.header }
func (n *nothing) Write(b []byte) (int, error) { return len(b), nil }
func (n *nothing) WriteHeader(status int)      { n.status = status }

// panicked answers for a handler that could not. What happened is logged and not
// told.
func (s *Server) panicked(w *recorder, req *request, p any) {
	if p == http.ErrAbortHandler { //nolint:errorlint // it is the value that the library panics with
		panic(p)
	}
	s.log.Error("a handler panicked", "request", req.id, "operation", req.op, "panic", p, "stack", string(debug.Stack()))
	if w.status == 0 {
		writeProblem(w, req.id, &refusal{status: http.StatusInternalServerError, detail: "the server failed; its log has the request's id"})
	}
}

// fail answers with an error: a refusal as it is, a fault of ours without details.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	req := requestOf(r.Context())
	req.err = err
	re := refusalOf(err)
	if re == nil {
		re = s.fault(r.Context(), req, err)
	}
	if rec, ok := w.(*recorder); ok && rec.status != 0 {
		return // half an answer is out: the connection's end says that it is none
	}
	writeProblem(w, req.id, re)
}

// fault is the answer to an error that is not for whoever asked.
func (s *Server) fault(ctx context.Context, req *request, err error) *refusal {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return &refusal{status: http.StatusServiceUnavailable, retry: time.Second, detail: "the request ended before its answer"}
	}
	s.log.LogAttrs(ctx, slog.LevelError, "a request failed", slog.String("request", req.id), slog.String("operation", req.op), slog.String("error", foreign.Line(err.Error(), maxDetail)))
	if errors.Is(err, ErrUnavailable) {
		return &refusal{status: http.StatusServiceUnavailable, retry: 5 * time.Second, detail: "whoever knows this credential does not answer now"}
	}
	if s.unreachable(err) {
		return &refusal{status: http.StatusServiceUnavailable, retry: 5 * time.Second, detail: "the database does not answer now"}
	}
	return &refusal{status: http.StatusInternalServerError, detail: "the server failed; its log has the request's id"}
}

// extend gives an answer that takes long on purpose the time that it needs. The
// read deadline counts too: when it passes, the request counts as ended.
func extend(w http.ResponseWriter, by time.Duration) {
	c, until := http.NewResponseController(w), time.Now().Add(by) // connections know no other clock
	_ = c.SetReadDeadline(until)                                  // where it cannot be set, as in a test, there is none
	_ = c.SetWriteDeadline(until)
}

// label is a status for a metric.
func label(status int) string {
	if status == 0 {
		return "none"
	}
	return strconv.Itoa(status)
}

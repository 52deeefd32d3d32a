package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/evidence"
	"github.com/assay-bench/assay/network/store"
)

// Evidence is where runs are stored: an object storage, or a directory.
type Evidence interface {
	// Presign gives a link that one object can be uploaded by.
	Presign(context.Context, evidence.Object) (evidence.Link, error)
	// Confirm is nil when the object is there, whole. [evidence.ErrAbsent]: it is
	// not.
	Confirm(context.Context, evidence.Object) error
}

// maxEvidence bounds the files of one report together.
const maxEvidence = 8 << 30

type upload = struct {
	Expires api.Time          `json:"expires"`
	Headers map[string]string `json:"headers"`
	Method  string            `json:"method"`
	Name    string            `json:"name"`
	Sha256  api.Sha256        `json:"sha256"`
	Url     string            `json:"url"` //nolint:revive,staticcheck // as it is generated
}

// CreateReport takes the announcement of a run: every file must be one that the
// node signed, by name and hash. The answer has links for those that are not
// stored yet.
func (s *Server) CreateReport(ctx context.Context, r api.CreateReportRequestObject) (api.CreateReportResponseObject, error) {
	if s.o.Evidence == nil {
		return nil, refuse(http.StatusNotImplemented, "this server has no storage for evidence")
	}
	announced, err := s.announced(ctx, r.Node, *r.Body)
	if err != nil {
		return nil, err
	}
	kept, err := s.store.AnnounceReport(ctx, announced, store.Trail{})
	switch {
	case errors.Is(err, store.ErrTaken):
		return nil, refuse(http.StatusConflict, "the statement is another node's")
	case err != nil:
		return nil, err
	}
	up, err := s.uploads(ctx, kept)
	if err != nil {
		return nil, err
	}
	return api.CreateReport200JSONResponse{Report: kept.ID, Uploads: up}, nil
}

// announced checks an announcement against the statement that it names.
func (s *Server) announced(ctx context.Context, node string, a api.Announcement) (store.Report, error) {
	rec, err := s.store.Statement(ctx, store.Scope{All: true}, node, a.Statement)
	if err != nil {
		return store.Report{}, missing(err, "statement: deliver it before the report")
	}
	if rec.Kind != string(ledger.KindEnvelope) {
		return store.Report{}, refuse(http.StatusBadRequest, "record %s is an event, and no statement", a.Statement)
	}
	e, err := ledger.ReadEnvelope(rec.Bytes)
	if err != nil {
		return store.Report{}, fmt.Errorf("statement %s: %w", a.Statement, err)
	}
	st, _, err := ledger.ParseStatement(e.Payload)
	if err != nil {
		return store.Report{}, fmt.Errorf("statement %s: %w", a.Statement, err)
	}
	if st.PredicateType != ledger.GPUBenchmark {
		return store.Report{}, refuse(http.StatusBadRequest, "statement %s is about no run: its predicate is %s", a.Statement, foreign.Line(st.PredicateType, 200))
	}
	signed := map[string]string{}
	for _, d := range st.Subject {
		signed[d.Name] = d.Digest["sha256"]
	}
	now := s.now()
	out := store.Report{ID: newID(now), At: now, Node: node, Run: runOf(st), RunSHA256: signed["run.json"], Statement: a.Statement, Command: deref(a.Command)}
	var total int64
	seen := map[string]bool{}
	for _, f := range a.Files {
		switch {
		case signed[f.Name] == "" || signed[f.Name] != f.Sha256:
			return store.Report{}, refuse(http.StatusBadRequest, "the file %q with the hash %s is not one that statement %s signs", foreign.Line(f.Name, 100), f.Sha256, a.Statement)
		case seen[f.Name]:
			return store.Report{}, refuse(http.StatusBadRequest, "the file %q is there twice", foreign.Line(f.Name, 100))
		case f.Size > maxEvidence-total:
			return store.Report{}, refuse(http.StatusRequestEntityTooLarge, "the files have more than %d bytes", int64(maxEvidence))
		}
		seen[f.Name] = true
		total += f.Size
		out.Files = append(out.Files, store.File{Name: f.Name, SHA256: f.Sha256, Size: f.Size})
	}
	if !seen["run.json"] {
		return store.Report{}, refuse(http.StatusBadRequest, "run.json is not among the files: there is nothing to judge without it")
	}
	return out, nil
}

// runOf is the run's id, as the statement has it.
func runOf(st ledger.Statement) string {
	var p struct{ Run struct{ ID string } }
	if json.Unmarshal(st.Predicate, &p) != nil {
		return ""
	}
	return foreign.Line(p.Run.ID, 100)
}

// uploads are links for the files of a report that are not stored.
func (s *Server) uploads(ctx context.Context, r store.Report) ([]upload, error) {
	out := []upload{}
	for _, f := range r.Files {
		o := evidence.Object{SHA256: f.SHA256, Size: f.Size}
		err := s.o.Evidence.Confirm(ctx, o)
		if err == nil {
			continue
		}
		if !errors.Is(err, evidence.ErrAbsent) && !errors.Is(err, evidence.ErrDamaged) {
			return nil, s.storageAway(err)
		}
		l, err := s.o.Evidence.Presign(ctx, o)
		if err != nil {
			return nil, s.storageAway(err)
		}
		out = append(out, upload{Name: f.Name, Sha256: f.SHA256, Method: l.Method, Url: l.URL, Headers: l.Headers, Expires: l.Expires.UTC()})
	}
	return out, nil
}

func (s *Server) storageAway(err error) error {
	s.log.Error("the storage of evidence failed", "error", err)
	return refuseFor(http.StatusServiceUnavailable, 30*time.Second, "the storage of evidence does not answer now")
}

// ConfirmReport looks at each object. Once all are there the report is judged, and
// the node may delete the run.
func (s *Server) ConfirmReport(ctx context.Context, r api.ConfirmReportRequestObject) (api.ConfirmReportResponseObject, error) {
	if s.o.Evidence == nil {
		return nil, refuse(http.StatusNotImplemented, "this server has no storage for evidence")
	}
	rep, err := s.store.Report(ctx, store.Scope{All: true}, r.Node, r.Report)
	if err != nil {
		return nil, missing(err, "report")
	}
	if !rep.Confirmed.IsZero() {
		return api.ConfirmReport200JSONResponse{Report: rep.ID, Uploads: []upload{}}, nil
	}
	up, err := s.uploads(ctx, rep)
	if err != nil {
		return nil, err
	}
	if len(up) == 0 {
		if err := s.store.ConfirmReport(ctx, rep.ID, s.now(), store.Trail{}); err != nil {
			return nil, err
		}
		if s.o.Decider != nil {
			s.o.Decider.Reported()
		}
	}
	return api.ConfirmReport200JSONResponse{Report: rep.ID, Uploads: up}, nil
}

// ListReports lists the reports of a node, newest first.
func (s *Server) ListReports(ctx context.Context, r api.ListReportsRequestObject) (api.ListReportsResponseObject, error) {
	all, err := s.store.Reports(ctx, principalOf(ctx).scope(), r.Node, pageOf(r.Params.Limit, r.Params.Before))
	if err != nil {
		return nil, err
	}
	out := []api.Report{}
	for _, rep := range all {
		out = append(out, reportOf(rep))
	}
	next := older(fmt.Sprintf("/api/v1/nodes/%s/reports", r.Node), r.Params.Limit, len(out), func() string { return out[len(out)-1].Id })
	return api.ListReports200JSONResponse{Body: out, Headers: api.ListReports200ResponseHeaders{Link: next}}, nil
}

// GetReport shows one report.
func (s *Server) GetReport(ctx context.Context, r api.GetReportRequestObject) (api.GetReportResponseObject, error) {
	rep, err := s.store.Report(ctx, principalOf(ctx).scope(), r.Node, r.Report)
	if err != nil {
		return nil, missing(err, "report")
	}
	return api.GetReport200JSONResponse(reportOf(rep)), nil
}

func reportOf(r store.Report) api.Report {
	out := api.Report{
		Id: r.ID, Node: r.Node, Run: r.Run, Statement: &r.Statement, Received: r.At, Confirmed: !r.Confirmed.IsZero(),
		Verdict: api.ReportVerdict(r.Verdict), Score: r.Score, ScoreLow: r.ScoreLow, Files: []api.File{},
	}
	if !out.Verdict.Valid() {
		out.Verdict = api.ReportVerdictUnknown
	}
	if r.Because != "" {
		out.Because = &r.Because
	}
	var scored struct { // as network/server/decide wrote it
		Model  string
		Levels []api.Level
	}
	if json.Unmarshal(r.Summary, &scored) == nil && scored.Model != "" {
		out.Model, out.Levels = &scored.Model, &scored.Levels
	}
	for _, f := range r.Files {
		out.Files = append(out.Files, api.File{Name: f.Name, Sha256: f.SHA256, Size: f.Size})
	}
	return out
}

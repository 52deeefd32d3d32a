package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// MaxSummary bounds what is kept of a run beside its evidence.
const MaxSummary = 256 << 10

// File is a file of a run's evidence.
type File struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Report is a run that a node announced: first its evidence's names, then what
// the server made of it.
type Report struct {
	ID        string // a ULID
	At        time.Time
	Node      string
	Run       string // the run's id
	RunSHA256 string // of the run, as it was signed
	Statement string // the record that has the signature
	Command   string // what asked for it; empty: nobody
	Files     []File

	Confirmed time.Time // zero: the evidence is not all there
	Scored    time.Time // zero: not yet
	Peer      string    // GPU, model and engine: with whom it is compared
	Verdict   string
	Score     *float64
	ScoreLow  *float64
	Because   string
	Summary   json.RawMessage // at most MaxSummary
}

const reportNames = "id, at, node, run, run_sha256, statement, command, peer, confirmed_at, scored_at, verdict, score, score_low, because, summary, files"

// reportColumns are the names with a table's.
func reportColumns(table string) string {
	return table + "." + strings.ReplaceAll(reportNames, ", ", ", "+table+".")
}

func scanReport(r row) (v Report, err error) {
	err = r.Scan(&v.ID, at(&v.At), &v.Node, &v.Run, &v.RunSHA256, &v.Statement, &v.Command, &v.Peer, at(&v.Confirmed), at(&v.Scored), &v.Verdict, &v.Score, &v.ScoreLow, &v.Because, (*[]byte)(&v.Summary), parsed(&v.Files))
	return v, err
}

// AnnounceReport keeps a run whose evidence is to be uploaded. The same statement
// again gets the report of the first time; ErrTaken: it was another node's.
func (s *Store) AnnounceReport(ctx context.Context, r Report, t Trail) (kept Report, err error) {
	err = s.repeat(ctx, "announce report "+r.ID, func(q database.Query) error {
		res, err := q.ExecContext(ctx, "INSERT INTO report_keys (id, node, statement, at) VALUES ($1, $2, $3, $4) ON CONFLICT (statement) DO NOTHING", r.ID, r.Node, r.Statement, micros(r.At))
		switch err := changed(res, err, ErrNotFound); {
		case errors.Is(err, ErrNotFound):
			kept, err = reportBy(ctx, q, "statement", r.Statement)
			if err == nil && kept.Node != r.Node {
				err = ErrTaken
			}
			return found(err)
		case err != nil:
			return err
		}
		kept = r
		if _, err := q.ExecContext(ctx, `INSERT INTO reports (`+reportNames+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULL, NULL, 'unknown', NULL, NULL, '', '{}', $9)`,
			r.ID, micros(r.At), r.Node, r.Run, r.RunSHA256, r.Statement, r.Command, r.Peer, document(r.Files)); err != nil {
			return err
		}
		for _, f := range r.Files {
			if err := refer(ctx, q, r, f); err != nil {
				return fmt.Errorf("file %s: %w", f.Name, err)
			}
		}
		return s.leave(ctx, q, t)
	})
	return kept, err
}

// refer keeps that a report needs an object.
func refer(ctx context.Context, q database.Query, r Report, f File) error {
	if _, err := q.ExecContext(ctx, "INSERT INTO evidence (sha256, size, created_at) VALUES ($1, $2, $3) ON CONFLICT (sha256) DO NOTHING", f.SHA256, f.Size, micros(r.At)); err != nil {
		return err
	}
	_, err := q.ExecContext(ctx, "INSERT INTO evidence_refs (sha256, report, report_at, name) VALUES ($1, $2, $3, $4)", f.SHA256, r.ID, micros(r.At), f.Name)
	return err
}

// reportBy finds a report by its id or its statement, in its partition or among
// those that decisions cite.
func reportBy(ctx context.Context, q database.Query, column, value string) (Report, error) {
	r, err := scanReport(q.QueryRowContext(ctx, "SELECT "+reportColumns("r")+" FROM report_keys k JOIN reports r ON r.id = k.id AND r.at = k.at WHERE k."+column+" = $1", value))
	if errors.Is(found(err), ErrNotFound) {
		r, err = scanReport(q.QueryRowContext(ctx, "SELECT "+reportColumns("r")+" FROM cited_reports r WHERE r."+column+" = $1", value))
	}
	return r, err
}

// Report is one report of a node.
func (s *Store) Report(ctx context.Context, scope Scope, node, id string) (r Report, err error) {
	a := args{node}
	query := "SELECT 1 FROM nodes n WHERE n.id = $1 AND " + scope.where(s.db, "n.owner", &a)
	err = s.view(ctx, "report "+id, func(q database.Query) error {
		var one int
		if err := q.QueryRowContext(ctx, query, a...).Scan(&one); err != nil {
			return err
		}
		r, err = reportBy(ctx, q, "id", id)
		if err == nil && r.Node != node {
			err = ErrNotFound
		}
		return err
	})
	return r, err
}

// Reports lists the reports of a node, newest first.
func (s *Store) Reports(ctx context.Context, scope Scope, node string, p Page) (reports []Report, err error) {
	a := args{node}
	query := "SELECT " + reportColumns("r") + " FROM reports r JOIN nodes n ON n.id = r.node WHERE r.node = $1 AND " + scope.where(s.db, "n.owner", &a) + p.newest("r.id", &a)
	err = s.view(ctx, "list the reports of node "+node, func(q database.Query) error {
		reports, err = all(ctx, q, scanReport, query, a...)
		return err
	})
	return reports, err
}

// ConfirmReport says that all evidence of a report was seen in the object storage.
func (s *Store) ConfirmReport(ctx context.Context, id string, when time.Time, t Trail) error {
	return s.repeat(ctx, "confirm report "+id, func(q database.Query) error {
		r, err := q.ExecContext(ctx, `UPDATE reports SET confirmed_at = coalesce(confirmed_at, $2)
			WHERE id = $1 AND at = (SELECT k.at FROM report_keys k WHERE k.id = $1)`, id, micros(when))
		if err := changed(r, err, ErrNotFound); err != nil {
			return err
		}
		if _, err := q.ExecContext(ctx, "UPDATE evidence SET confirmed_at = $2 WHERE confirmed_at IS NULL AND sha256 IN (SELECT sha256 FROM evidence_refs WHERE report = $1)", id, micros(when)); err != nil {
			return err
		}
		return s.leave(ctx, q, t)
	})
}

// ScoreReport keeps what the server made of a confirmed report, once. ErrConflict:
// it is scored already.
func (s *Store) ScoreReport(ctx context.Context, r Report) error {
	if len(r.Summary) > MaxSummary {
		return fmt.Errorf("score report %s: its summary has %d bytes; %d are kept", r.ID, len(r.Summary), MaxSummary)
	}
	return s.tx(ctx, "score report "+r.ID, func(q database.Query) error { return scoreReport(ctx, q, r) })
}

func scoreReport(ctx context.Context, q database.Query, r Report) error {
	res, err := q.ExecContext(ctx, `UPDATE reports SET scored_at = $2, peer = $3, verdict = $4, score = $5, score_low = $6, because = $7, summary = $8
		WHERE id = $1 AND scored_at IS NULL AND confirmed_at IS NOT NULL AND at = (SELECT k.at FROM report_keys k WHERE k.id = $1)`,
		r.ID, micros(r.Scored), r.Peer, r.Verdict, r.Score, r.ScoreLow, r.Because, raw(r.Summary))
	return changed(res, err, ErrConflict)
}

// Unscored lists confirmed reports that wait to be scored, oldest first, for the
// server itself. Look no further back than retention goes.
func (s *Store) Unscored(ctx context.Context, since time.Time, limit int) (reports []Report, err error) {
	err = s.view(ctx, "list reports to score", func(q database.Query) error {
		reports, err = all(ctx, q, scanReport, "SELECT "+reportColumns("r")+" FROM reports r WHERE r.at >= $1 AND r.confirmed_at IS NOT NULL AND r.scored_at IS NULL ORDER BY r.at, r.id LIMIT $2", micros(since), limit)
		return err
	})
	return reports, err
}

// PeerReports lists the last reports of admitted nodes that are comparable, other
// than one node, for the server itself: a median is no node's secret.
func (s *Store) PeerReports(ctx context.Context, peer, without string, limit int) (reports []Report, err error) {
	err = s.view(ctx, "list reports of peers", func(q database.Query) error {
		reports, err = all(ctx, q, scanReport, "SELECT "+reportColumns("r")+` FROM nodes n JOIN reports r ON r.id = n.last_report AND r.at = n.last_report_at
			WHERE n.admission = 'admitted' AND n.intent <> 'retired' AND n.id <> $1 AND r.peer = $2 ORDER BY r.id DESC LIMIT $3`, without, peer, limit)
		return err
	})
	return reports, err
}

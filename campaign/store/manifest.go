package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/database"
)

// Manifest is a row of benchmark_manifest: one attempt to measure. Empty strings and
// zero times are NULL.
type Manifest struct {
	ID              string    `json:"id"`
	RunID           string    `json:"run_id"` // groups what belongs to one campaign
	Created         time.Time `json:"created_at"`
	GPUType         string    `json:"gpu_type"`
	Provider        string    `json:"provider"`
	Model           string    `json:"model"`
	SessionID       string    `json:"session_id,omitempty"`
	InstanceIP      string    `json:"instance_ip,omitempty"`
	SSHPort         int       `json:"ssh_port,omitempty"`
	Status          string    `json:"status"`
	Started         time.Time `json:"started_at,omitzero"`
	Completed       time.Time `json:"completed_at,omitzero"`
	BenchmarkID     string    `json:"benchmark_id,omitempty"`
	TokensPerSecond *float64  `json:"tokens_per_second,omitempty"`
	TotalRequests   *int64    `json:"total_requests,omitempty"`
	ErrorCount      *int64    `json:"error_count,omitempty"`
	FailureReason   string    `json:"failure_reason,omitempty"`
	FailureStage    string    `json:"failure_stage,omitempty"`
	ErrorMessage    string    `json:"error_message,omitempty"`
	Notes           string    `json:"notes,omitempty"`
}

// Benchmark is a result that stands behind a manifest's benchmark_id.
type Benchmark struct {
	ID              string       `json:"id"`
	RunID           string       `json:"run_id"`
	Created         time.Time    `json:"created_at"`
	GPUType         string       `json:"gpu_type"`
	GPUCount        int          `json:"gpu_count"`
	Provider        string       `json:"provider"`
	Location        string       `json:"location"`
	Model           string       `json:"model"`
	Engine          string       `json:"engine"`
	TokensPerSecond *float64     `json:"tokens_per_second"`
	PricePerHour    *assay.Money `json:"price_per_hour"`
	Directory       string       `json:"directory"` // of the run
	Summary         string       `json:"summary"`   // JSON
}

// text is a string as it is stored where NULL is meant by an empty one.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// blank reads a string that may be NULL.
func blank(to *string) sql.Scanner { return blankColumn{to} }

type blankColumn struct{ to *string }

func (b blankColumn) Scan(from any) error {
	var s sql.NullString
	err := s.Scan(from)
	*b.to = s.String
	return err
}

// PutManifest adds an attempt, or replaces the row with its id.
func (s *Store) PutManifest(ctx context.Context, m Manifest) error {
	return s.one(ctx, "write manifest "+m.ID, func(q database.Query) error { return putManifest(ctx, q, m) })
}

// PutResult writes a benchmark and the attempt that points to it, both or none.
func (s *Store) PutResult(ctx context.Context, b Benchmark, m Manifest) error {
	m.BenchmarkID = b.ID
	return s.repeat(ctx, "write benchmark "+b.ID, func(q database.Query) error {
		var price any
		if b.PricePerHour != nil {
			price = b.PricePerHour.Nano
		}
		_, err := q.ExecContext(ctx, `INSERT INTO benchmarks (id, run_id, created_at, gpu_type, gpu_count, provider, location, model, engine, tokens_per_second, price_per_hour, directory, summary)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
			ON CONFLICT (id) DO UPDATE SET run_id = excluded.run_id, gpu_type = excluded.gpu_type, gpu_count = excluded.gpu_count, provider = excluded.provider, location = excluded.location,
				model = excluded.model, engine = excluded.engine, tokens_per_second = excluded.tokens_per_second, price_per_hour = excluded.price_per_hour, directory = excluded.directory, summary = excluded.summary`,
			b.ID, b.RunID, database.Time(b.Created), b.GPUType, b.GPUCount, b.Provider, b.Location, b.Model, b.Engine, b.TokensPerSecond, price, b.Directory, b.Summary)
		if err != nil {
			return err
		}
		return putManifest(ctx, q, m)
	})
}

func putManifest(ctx context.Context, q database.Query, m Manifest) error {
	var port any
	if m.SSHPort > 0 {
		port = m.SSHPort
	}
	_, err := q.ExecContext(ctx, `INSERT INTO benchmark_manifest (id, run_id, created_at, gpu_type, provider, model, session_id, instance_ip, ssh_port, status, started_at, completed_at,
			benchmark_id, tokens_per_second, total_requests, error_count, failure_reason, failure_stage, error_message, notes)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
		ON CONFLICT (id) DO UPDATE SET run_id = excluded.run_id, gpu_type = excluded.gpu_type, provider = excluded.provider, model = excluded.model, session_id = excluded.session_id,
			instance_ip = excluded.instance_ip, ssh_port = excluded.ssh_port, status = excluded.status, started_at = excluded.started_at, completed_at = excluded.completed_at,
			benchmark_id = excluded.benchmark_id, tokens_per_second = excluded.tokens_per_second, total_requests = excluded.total_requests, error_count = excluded.error_count,
			failure_reason = excluded.failure_reason, failure_stage = excluded.failure_stage, error_message = excluded.error_message, notes = excluded.notes`,
		m.ID, m.RunID, database.Time(m.Created), m.GPUType, m.Provider, m.Model, text(m.SessionID), text(m.InstanceIP), port, m.Status, database.Time(m.Started), database.Time(m.Completed),
		text(m.BenchmarkID), m.TokensPerSecond, m.TotalRequests, m.ErrorCount, text(m.FailureReason), text(m.FailureStage), text(m.ErrorMessage), text(m.Notes))
	return err
}

const manifestColumns = `id, run_id, created_at, gpu_type, provider, model, session_id, instance_ip, coalesce(ssh_port, 0), status, started_at, completed_at,
	benchmark_id, tokens_per_second, total_requests, error_count, failure_reason, failure_stage, error_message, notes FROM benchmark_manifest`

func scanManifest(r database.Row) (m Manifest, err error) {
	return m, r.Scan(&m.ID, &m.RunID, database.At(&m.Created), &m.GPUType, &m.Provider, &m.Model, blank(&m.SessionID), blank(&m.InstanceIP), &m.SSHPort, &m.Status, database.At(&m.Started), database.At(&m.Completed),
		blank(&m.BenchmarkID), &m.TokensPerSecond, &m.TotalRequests, &m.ErrorCount, blank(&m.FailureReason), blank(&m.FailureStage), blank(&m.ErrorMessage), blank(&m.Notes))
}

// Manifests lists the attempts of a run, or of all with an empty id, oldest first.
func (s *Store) Manifests(ctx context.Context, run string) (list []Manifest, err error) {
	err = s.view(ctx, "list the manifest", func(q database.Query) error {
		list, err = database.All(ctx, q, scanManifest, "SELECT "+manifestColumns+" WHERE run_id = $1 OR $1 = '' ORDER BY created_at, id", run)
		return err
	})
	return list, err
}

// Benchmarks lists the results of a run, or of all with an empty id, oldest first.
func (s *Store) Benchmarks(ctx context.Context, run string) (list []Benchmark, err error) {
	err = s.view(ctx, "list benchmarks", func(q database.Query) error {
		list, err = database.All(ctx, q, func(r database.Row) (b Benchmark, err error) {
			var price sql.NullInt64
			err = r.Scan(&b.ID, &b.RunID, database.At(&b.Created), &b.GPUType, &b.GPUCount, &b.Provider, &b.Location, &b.Model, &b.Engine, &b.TokensPerSecond, &price, &b.Directory, &b.Summary)
			if price.Valid {
				m := usd(price.Int64)
				b.PricePerHour = &m
			}
			return b, err
		}, `SELECT id, run_id, created_at, gpu_type, gpu_count, provider, location, model, engine, tokens_per_second, price_per_hour, directory, summary
			FROM benchmarks WHERE run_id = $1 OR $1 = '' ORDER BY created_at, id`, run)
		return err
	})
	return list, err
}

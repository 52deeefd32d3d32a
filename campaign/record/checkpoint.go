package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/docs/formats/schema"
	"github.com/assay-bench/assay/internal/foreign"
)

// Bounds of a script's file: five minutes are some thousand results.
const (
	maxCheckpoint = 64 << 20
	maxTokens     = 1 << 50
)

// importedFile begins the ids of such rows.
const importedFile = "file-"

// checkpoint is benchmark_checkpoint.json as its script writes it.
type checkpoint struct {
	Status    string  `json:"status"`
	Model     string  `json:"model"`
	Timestamp string  `json:"timestamp"`
	Results   []entry `json:"results"`
	Summary   *totals `json:"summary"`
}

// entry is one request: with tokens it was answered, with error it was not.
type entry struct {
	Tokens    *int64   `json:"tokens"`
	Error     *string  `json:"error"`
	Timestamp *float64 `json:"timestamp"`
}

type totals struct {
	Total      int64   `json:"total_requests"`
	Successful int64   `json:"successful_requests"`
	Errors     int64   `json:"error_count"`
	Tokens     int64   `json:"total_tokens"`
	Seconds    float64 `json:"duration_seconds"`
	Rate       float64 `json:"tokens_per_second"`
}

// FromCheckpoint makes the rows of a file that the benchmark script left:
// benchmark_checkpoint.json, or SESSION_results.json as it was collected. Its summary
// must be that of its results.
func FromCheckpoint(r io.Reader, name string, o Origin) (Result, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxCheckpoint+1))
	if err != nil {
		return Result{}, fmt.Errorf("read %s: %w", name, err)
	}
	if len(b) > maxCheckpoint {
		return Result{}, fmt.Errorf("read %s: it is longer than %d bytes, which no results of that script are", name, maxCheckpoint)
	}
	if err := bySchema(b); err != nil {
		return Result{}, fmt.Errorf("read %s: %w", name, err)
	}
	var c checkpoint
	if err := json.Unmarshal(b, &c); err != nil {
		return Result{}, fmt.Errorf("read %s: %s", name, foreign.Line(err.Error(), maxText))
	}
	sum, err := c.totals()
	if err != nil {
		return Result{}, fmt.Errorf("read %s: %w", name, err)
	}
	hash := sha256.Sum256(b)
	id := o.ID
	if id == "" {
		id = importedFile + hex.EncodeToString(hash[:16])
	}
	if o.Session == "" {
		o.Session = session(name)
	}
	if o.Engine == "" {
		o.Engine = "ollama" // the only one that the script knows
	}
	created, err := c.when()
	if err != nil {
		return Result{}, fmt.Errorf("read %s: %w", name, err)
	}
	kept, err := json.Marshal(sum)
	if err != nil {
		return Result{}, fmt.Errorf("read %s: %w", name, err)
	}
	out := Result{
		Benchmark: store.Benchmark{
			ID: id, RunID: o.Campaign, Created: created, GPUType: o.GPU, GPUCount: max(o.Count, 1), Provider: o.Provider, Location: o.Location,
			Model: c.Model, Engine: o.Engine, PricePerHour: o.Price, Directory: name, Summary: string(kept),
		},
		Manifest: store.Manifest{
			ID: id, RunID: o.Campaign, Created: created, GPUType: o.GPU, Provider: o.Provider, Model: c.Model, SessionID: o.Session, InstanceIP: o.IP, SSHPort: o.Port,
			Status: string(c.status()), Completed: created, BenchmarkID: id, TotalRequests: &sum.Total, ErrorCount: &sum.Errors, Notes: foreign.Line(o.Notes, maxText),
		},
	}
	if sum.Successful > 0 && sum.Rate > 0 {
		out.Benchmark.TokensPerSecond, out.Manifest.TokensPerSecond = &sum.Rate, &sum.Rate
	}
	return out.checked()
}

// bySchema checks a file before anything is made of it.
func bySchema(b []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("it is no JSON: %s", foreign.Line(err.Error(), maxText))
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.BenchmarkImport))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("import", doc); err != nil {
		return err
	}
	s, err := compiler.Compile("import")
	if err != nil {
		return err
	}
	if err := s.Validate(v); err != nil {
		return fmt.Errorf("it is not what the benchmark script writes: %s", foreign.Line(err.Error(), maxText))
	}
	return nil
}

// totals counts the results anew, and compares what the file says of them.
func (c checkpoint) totals() (totals, error) {
	var t totals
	var first, last float64
	for i, e := range c.Results {
		t.Total++
		switch {
		case e.Error != nil:
			t.Errors++
		case e.Tokens != nil && *e.Tokens <= maxTokens-t.Tokens:
			t.Successful++
			t.Tokens += *e.Tokens
		default:
			return t, fmt.Errorf("results[%d] has more tokens than there can be", i)
		}
		if e.Timestamp != nil {
			if first == 0 || *e.Timestamp < first {
				first = *e.Timestamp
			}
			last = max(last, *e.Timestamp)
		}
	}
	if c.Summary == nil {
		t.Seconds = last - first
	} else {
		s := *c.Summary
		if s.Total != t.Total || s.Successful != t.Successful || s.Errors != t.Errors || s.Tokens != t.Tokens {
			return t, fmt.Errorf("its summary is not that of its results: %d requests, %d answered, %d failed and %d tokens are in it, and it says %d, %d, %d and %d",
				t.Total, t.Successful, t.Errors, t.Tokens, s.Total, s.Successful, s.Errors, s.Tokens)
		}
		t.Seconds = s.Seconds
		if rate := float64(t.Tokens) / t.Seconds; t.Seconds > 0 && math.Abs(s.Rate-rate) > 0.01*rate+1e-9 {
			return t, fmt.Errorf("its %g tokens a second are not its %d tokens in %g s", s.Rate, t.Tokens, t.Seconds)
		}
	}
	if t.Seconds > 0 {
		t.Rate = float64(t.Tokens) / t.Seconds
	}
	return t, nil
}

// status is what the script's own word means: its last checkpoint of a run that was
// interrupted says running.
func (c checkpoint) status() campaign.Status {
	if c.Status == "completed" {
		return campaign.Success
	}
	return campaign.Partial
}

// when is the file's time, which the script writes in UTC and without a zone.
func (c checkpoint) when() (time.Time, error) {
	for _, form := range []string{"2006-01-02T15:04:05.999999", time.RFC3339Nano} {
		if t, err := time.Parse(form, c.Timestamp); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("its timestamp %q is no time", foreign.Line(c.Timestamp, 60))
}

// session is that of SESSION_results.json.
func session(name string) string {
	s, ok := strings.CutSuffix(filepath.Base(name), "_results.json")
	if !ok || !foreign.Plain(s) || len(s) > maxName {
		return ""
	}
	return s
}

// IsCheckpoint reports whether a file is one of the script's, by its name.
func IsCheckpoint(name string) bool {
	base := filepath.Base(name)
	return base == "benchmark_checkpoint.json" || strings.HasSuffix(base, "_results.json")
}

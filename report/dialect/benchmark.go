package dialect

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/assay-bench/assay"
)

// BenchmarkSummary is the summary of the test design's benchmark script
// (docs/origins.md), which is also all that its run returns.
type BenchmarkSummary struct {
	TotalRequests      int     `json:"total_requests"`
	SuccessfulRequests int     `json:"successful_requests"`
	ErrorCount         int     `json:"error_count"`
	TotalTokens        int64   `json:"total_tokens"`
	DurationSeconds    float64 `json:"duration_seconds"` // from the first request to the end of the last
	TokensPerSecond    float64 `json:"tokens_per_second"`

	first, last int64
}

// benchmarkResult is one entry of results: a request that was answered has
// tokens, one that failed has error. The script tells them apart by these keys.
type benchmarkResult struct {
	Timestamp float64    `json:"timestamp"` // Unix seconds, when the request was over
	Tokens    *int64     `json:"tokens,omitempty"`
	Seconds   *float64   `json:"duration_seconds,omitempty"`
	Rate      *float64   `json:"tokens_per_second,omitempty"`
	Error     pythonText `json:"error,omitempty"`
}

// pythonText is written in ASCII, as Python does: what an engine said must not
// steer the terminal that shows it.
type pythonText string

// MarshalJSON writes every rune beyond ASCII as an escape.
func (s pythonText) MarshalJSON() ([]byte, error) { return []byte(pythonString(string(s))), nil }

// counted reports whether a request is one of the script's: it was sent, and
// came to an end of its own. Warm-ups come before the script's loop.
func counted(r *assay.Request) bool {
	return !r.Warmup && r.Sent != 0 && (r.OK() || r.Error.OfEngine())
}

func (s *BenchmarkSummary) add(r *assay.Request) benchmarkResult {
	s.TotalRequests++
	if s.first == 0 || r.Sent < s.first {
		s.first = r.Sent
	}
	s.last = max(s.last, r.End, r.Last)
	out := benchmarkResult{Timestamp: float64(max(r.End, r.Last)/1e3) / 1e6}
	if !r.OK() {
		s.ErrorCount++
		out.Error = pythonText(r.Error)
		if r.Detail != "" {
			out.Error += pythonText(": " + r.Detail)
		}
		return out
	}
	s.SuccessfulRequests++
	n := int64(tokens(r.OutputTokens))
	s.TotalTokens += n
	out.Tokens = &n
	if ns, ok := r.E2E(); ok && ns > 0 {
		seconds := float64(ns) / 1e9
		rate := float64(n) / seconds
		out.Seconds, out.Rate = &seconds, &rate
	}
	return out
}

// close makes the rates, when all requests are in.
func (s *BenchmarkSummary) close() {
	if s.DurationSeconds = float64(max(0, s.last-s.first)) / 1e9; s.DurationSeconds > 0 {
		s.TokensPerSecond = float64(s.TotalTokens) / s.DurationSeconds
	}
}

// BenchmarkResults writes the script's summary of a run: null when no request
// ended, as there.
func BenchmarkResults(w io.Writer, requests iter.Seq2[*assay.Request, error]) error {
	var s BenchmarkSummary
	for r, err := range requests {
		if err != nil {
			return fmt.Errorf("write the benchmark's results: %w", err)
		}
		if counted(r) {
			s.add(r)
		}
	}
	s.close()
	return s.write(w, "")
}

// write writes the summary, whose lines after the first begin with indent.
func (s *BenchmarkSummary) write(w io.Writer, indent string) error {
	if s.TotalRequests == 0 {
		_, err := io.WriteString(w, "null\n")
		return err
	}
	b, err := json.MarshalIndent(s, indent, "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// BenchmarkCheckpoint writes benchmark_checkpoint.json as the script leaves it:
// status, model, timestamp, a result for each request, and the summary. The
// status of a run that was interrupted is running, since the script's last
// checkpoint says that; it is started when no request ended. Memory does not
// grow with the number of requests.
func BenchmarkCheckpoint(w io.Writer, m assay.Manifest, c assay.Checkpoint, requests iter.Seq2[*assay.Request, error]) error {
	b := bufio.NewWriter(w)
	if err := benchmarkCheckpoint(b, m, c, requests); err != nil {
		return fmt.Errorf("write the benchmark's checkpoint: %w", err)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write the benchmark's checkpoint: %w", err)
	}
	return nil
}

func benchmarkCheckpoint(b *bufio.Writer, m assay.Manifest, c assay.Checkpoint, requests iter.Seq2[*assay.Request, error]) error {
	var s BenchmarkSummary
	for r, err := range requests {
		if err != nil {
			return err
		}
		if !counted(r) {
			continue
		}
		if s.TotalRequests == 0 {
			benchmarkHead(b, m, c, "running")
		} else {
			b.WriteByte(',')
		}
		line, err := json.MarshalIndent(s.add(r), "    ", "  ")
		if err != nil {
			return err
		}
		b.WriteString("\n    ")
		if _, err := b.Write(line); err != nil {
			return err
		}
	}
	end := "\n  ],\n"
	if s.TotalRequests == 0 {
		benchmarkHead(b, m, c, "started")
		end = "],\n"
	}
	s.close()
	b.WriteString(end + "  \"summary\": ")
	if err := s.write(b, "  "); err != nil {
		return err
	}
	_, err := b.WriteString("}\n")
	return err
}

// benchmarkHead writes what stands before the results; a bufio.Writer keeps its
// first error.
func benchmarkHead(b *bufio.Writer, m assay.Manifest, c assay.Checkpoint, status string) {
	if c.Status == assay.StatusComplete {
		status = "completed"
	}
	at := c.At
	if at == 0 {
		at = m.Created // no checkpoint was written yet
	}
	fmt.Fprintf(b, "{\n  \"status\": %s,\n  \"model\": %s,\n  \"timestamp\": %s,\n  \"results\": [",
		pythonString(status), pythonString(m.Engine.Model), pythonString(pythonTime(at)))
}

// pythonTime is datetime.utcnow().isoformat(): without a zone, and with
// microseconds unless they are zero.
func pythonTime(ns int64) string {
	t := time.Unix(0, ns).UTC().Truncate(time.Microsecond)
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02T15:04:05")
	}
	return t.Format("2006-01-02T15:04:05.000000")
}

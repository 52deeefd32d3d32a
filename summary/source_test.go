package summary_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/summary"
)

const (
	ms     = int64(1e6)
	second = int64(1e9)
	start  = 1_760_000_000 * second
)

// made is a run in memory, whose truth is known.
type made struct {
	manifest assay.Manifest
	requests []assay.Request
	readings []assay.Reading
	events   []assay.Event
	status   assay.Status
	torn     []string
}

func newMade() *made {
	return &made{status: assay.StatusComplete, manifest: assay.Manifest{ID: "made", Created: start, Clock: assay.ClockKernel, Node: assay.Node{Cores: 2}}}
}

func each[T any](s []T) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for i := range s {
			if !yield(&s[i], nil) {
				return
			}
		}
	}
}

func (m *made) Manifest() assay.Manifest                   { return m.manifest }
func (m *made) Requests() iter.Seq2[*assay.Request, error] { return each(m.requests) }
func (m *made) Readings() iter.Seq2[*assay.Reading, error] { return each(m.readings) }
func (m *made) Events() iter.Seq2[*assay.Event, error]     { return each(m.events) }
func (m *made) Torn() []string                             { return m.torn }
func (m *made) Checkpoint() (assay.Checkpoint, error) {
	if m.status == "" {
		return assay.Checkpoint{}, errors.New("none")
	}
	return assay.Checkpoint{Status: m.status}, nil
}

func (m *made) read(at int64, name string, v float64) {
	m.readings = append(m.readings, assay.Reading{At: at, Source: "client", Name: name, Value: &v})
}

func (m *made) event(at int64, kind assay.EventKind, stage string) {
	m.events = append(m.events, assay.Event{At: at, Kind: kind, Stage: stage})
}

// span adds the events of a stage.
func (m *made) span(plan assay.Stage, from, steady, loadEnd, ended int64) {
	m.events = append(m.events, assay.Event{At: from, Kind: assay.EventStageStarted, Stage: plan.Name, Plan: &plan})
	m.event(steady, assay.EventStageSteady, plan.Name)
	m.event(loadEnd, assay.EventStageLoadEnd, plan.Name)
	m.event(ended, assay.EventStageEnded, plan.Name)
}

// request is one that is sent at a time and answered exactly so.
func (m *made) request(stage string, sent, ttft, gap int64, tokens int) *assay.Request {
	r := assay.Request{ID: fmt.Sprint(len(m.requests)), Stage: stage, Prompt: len(m.requests), Scheduled: sent, Eligible: sent, Sent: sent,
		First: sent + ttft, Last: sent + ttft + gap*int64(tokens-1), InputTokens: 100, OutputTokens: tokens, TokensFrom: "usage", Status: 200, Reads: tokens}
	r.End = r.Last
	for range tokens - 1 {
		r.Gaps = append(r.Gaps, int32(gap/1000))
	}
	m.requests = append(m.requests, r)
	return &m.requests[len(m.requests)-1]
}

// closed adds a stage of n streams that all send again at once, starting
// spread over one request's time; what is sent before the lead is over is
// warm-up.
func (m *made) closed(name string, n int, from, length, lead, ttft, gap int64, tokens int) {
	plan := assay.Stage{Name: name, Kind: assay.LoadClosed, Concurrency: n, DurationNS: length}
	e2e := ttft + gap*int64(tokens-1)
	m.span(plan, from, from+lead, from+length, from+length+e2e)
	for k := range n {
		for at := from + int64(k)*e2e/int64(n); at < from+length; at += e2e {
			r := m.request(name, at, ttft, gap, tokens)
			r.Stream, r.Warmup = k+1, at < from+lead
		}
	}
	for at := from; at < from+length; at += second / 10 {
		m.read(at, "client_in_flight", float64(n))
	}
}

// within counts by hand what arrived in a period: tokens, and requests that
// succeeded by the share of their tokens.
func (m *made) within(stage string, from, to int64) (tokens, requests float64) {
	for i := range m.requests {
		r := &m.requests[i]
		if r.Stage != stage || r.First == 0 {
			continue
		}
		said, in := 0.0, 0.0
		at := r.First
		for k := range len(r.Gaps) + 1 {
			n := 1.0
			if r.ChunkTokens != nil {
				n = float64(r.ChunkTokens[k])
			}
			if said += n; at >= from && at < to {
				in += n
			}
			if k < len(r.Gaps) {
				us, _ := assay.Gap(r.Gaps[k])
				at += int64(us) * 1000
			}
		}
		tokens += in / said * float64(r.OutputTokens)
		if r.OK() {
			requests += in / said
		}
	}
	return tokens, requests
}

func of(t *testing.T, m summary.Source) assay.Summary {
	t.Helper()
	s, err := summary.Of(m)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := summarySchema().Validate(doc); err != nil {
		t.Fatalf("the summary does not keep its schema: %v", err)
	}
	return s
}

// Every summary that a test makes is checked against the schema.
var summarySchema = sync.OnceValue(func() *jsonschema.Schema {
	return jsonschema.NewCompiler().MustCompile("../docs/formats/schema/summary.schema.json")
})

func p(t *testing.T, d assay.Dist, level float64) float64 {
	t.Helper()
	v, ok := d.P(level)
	if !ok {
		t.Fatalf("no p%v among %d", level, len(d.Percentiles))
	}
	return v.Value
}

func warned(s assay.Summary, kind string) bool {
	for _, w := range s.Warnings {
		if w.Kind == kind {
			return true
		}
	}
	return false
}

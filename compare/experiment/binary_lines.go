package experiment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

const (
	maxLine     = 1 << 20
	maxProblems = 20
	maxDetail   = 500
	maxID       = 200
	maxTokens   = 100_000_000
	// clockSlack is how far a binary's clock may be off ours.
	clockSlack = time.Second
)

// lineReader takes a benchmark binary's standard output and gives its lines on, as
// requests, while they keep to the protocol. Nothing in them is trusted.
type lineReader struct {
	job    Job
	began  time.Time
	give   func(*assay.Request) error // nil: only to be checked
	broken chan struct{}              // closed when there is no point in going on

	mu       sync.Mutex // output may still come after the end was heard of
	buf      []byte
	raw      int // lines that came
	n        int // of them, those that were in order
	ids      map[string]bool
	seen     []bool // by number of the request
	first    int64  // when the first judged request was sent
	last     int64  // when the last one was sent
	end      int64  // when the last one had its last token
	problems []string
	more     int
	closed   bool
}

func newLines(job Job, began time.Time, give func(*assay.Request) error) *lineReader {
	return &lineReader{
		job: job, began: began, give: give, broken: make(chan struct{}),
		ids: map[string]bool{}, seen: make([]bool, job.Requests+job.Warmups),
	}
}

// Write takes a part of the output. It never fails, so that the binary can end.
func (l *lineReader) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	for len(b) > 0 && !l.closed {
		i := bytes.IndexByte(b, '\n')
		part := b
		if i >= 0 {
			part = b[:i]
		}
		if len(l.buf)+len(part) > maxLine {
			l.problem(l.raw+1, "it is longer than %d bytes", maxLine)
			l.stop()
			break
		}
		l.buf = append(l.buf, part...)
		if i < 0 {
			break
		}
		l.line(l.buf)
		l.buf = l.buf[:0]
		b = b[i+1:]
	}
	return n, nil
}

// stop says that nothing more is wanted.
func (l *lineReader) stop() {
	if !l.closed {
		l.closed = true
		close(l.broken)
	}
}

// problem notes what is wrong with a line; number 0 is for the whole. The first one
// ends the reading, unless the output is only checked: then all are wanted.
func (l *lineReader) problem(number int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if number > 0 {
		text = fmt.Sprintf("line %d: %s", number, text)
	}
	if len(l.problems) < maxProblems {
		l.problems = append(l.problems, text)
	} else {
		l.more++
	}
	if l.give != nil || l.more > 1000 {
		l.stop()
	}
}

// line takes a whole line.
func (l *lineReader) line(b []byte) {
	l.raw++
	if l.raw > len(l.seen) {
		l.problem(l.raw, "it is one more than the %d that the job asks for", len(l.seen))
		l.stop()
		return
	}
	var r assay.Request
	dec := json.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(&r); err != nil {
		l.problem(l.raw, "it is not a request line: %s", foreign.Line(err.Error(), 200))
		return
	}
	if dec.More() {
		l.problem(l.raw, "it has more than one JSON value")
		return
	}
	before := len(l.problems) + l.more
	l.identity(&r)
	l.times(&r)
	l.tokens(&r)
	if len(l.problems)+l.more > before {
		return
	}
	l.n++
	l.clean(&r)
	if !r.Warmup {
		if l.first == 0 || r.Sent < l.first {
			l.first = r.Sent
		}
		l.last, l.end = max(l.last, r.Sent), max(l.end, r.Last, r.End)
	}
	if l.give != nil {
		if err := l.give(&r); err != nil {
			l.problem(l.raw, "it cannot be recorded: %v", err)
		}
	}
}

// identity checks which request it is.
func (l *lineReader) identity(r *assay.Request) {
	switch {
	case r.ID == "" || len(r.ID) > maxID:
		l.problem(l.raw, "id must have 1 to %d bytes, and has %d", maxID, len(r.ID))
	case l.ids[r.ID]:
		l.problem(l.raw, "id %q was there before", r.ID)
	}
	l.ids[r.ID] = true
	if r.Stage != "" && r.Stage != l.job.Workload {
		l.problem(l.raw, "stage is %q, and the workload is %q", foreign.Line(r.Stage, 100), l.job.Workload)
	}
	switch {
	case r.Prompt < 0 || r.Prompt >= len(l.seen):
		l.problem(l.raw, "prompt is %d, and there are %d requests, counted from 0", r.Prompt, len(l.seen))
		return
	case l.seen[r.Prompt]:
		l.problem(l.raw, "prompt %d was there before", r.Prompt)
	case r.Warmup != (r.Prompt < l.job.Warmups):
		l.problem(l.raw, "warmup is %v for prompt %d, and the first %d are warm-ups", r.Warmup, r.Prompt, l.job.Warmups)
	}
	l.seen[r.Prompt] = true
}

// times checks the marks.
func (l *lineReader) times(r *assay.Request) {
	marks := []struct {
		name   string
		at     int64
		needed bool
	}{
		{"sent_ns", r.Sent, true}, {"first_ns", r.First, r.OK()}, {"last_ns", r.Last, r.OK()}, {"end_ns", r.End, true},
	}
	from, to := l.began.Add(-clockSlack).UnixNano(), time.Now().Add(clockSlack).UnixNano()
	name, at := "", int64(0)
	for _, m := range marks {
		switch {
		case m.at == 0 && !m.needed:
			continue
		case m.at == 0:
			l.problem(l.raw, "%s is missing", m.name)
			return
		case m.at < from:
			l.problem(l.raw, "%s lies %s before the start of the process", m.name, time.Duration(l.began.UnixNano()-m.at).Round(time.Millisecond))
			return
		case m.at > to:
			l.problem(l.raw, "%s lies in the future: times are Unix nanoseconds", m.name)
			return
		case m.at < at:
			l.problem(l.raw, "%s lies %s before %s", m.name, time.Duration(at-m.at), name)
			return
		}
		name, at = m.name, m.at
	}
	for _, at := range []int64{r.Scheduled, r.Eligible, r.Connect, r.Answer} {
		if at != 0 && (at < from || at > to) {
			l.problem(l.raw, "a time lies outside the life of the process")
			return
		}
	}
}

// tokens checks counts and gaps.
func (l *lineReader) tokens(r *assay.Request) {
	if !r.OK() {
		if !slices.Contains(assay.Failures(), r.Error) {
			l.problem(l.raw, "error is %q, which is no failure class", foreign.Line(string(r.Error), 100))
		}
		return
	}
	if r.OutputTokens < 1 || r.OutputTokens > maxTokens {
		l.problem(l.raw, "output_tokens is %d; a request that succeeded has at least 1 (error \"empty\" says that there was none)", r.OutputTokens)
		return
	}
	if r.InputTokens < 0 || r.InputTokens > maxTokens || r.CachedTokens < 0 || r.CachedTokens > maxTokens {
		l.problem(l.raw, "input_tokens is %d and cached_tokens %d", r.InputTokens, r.CachedTokens)
	}
	if r.TokensFrom != "" && r.TokensFrom != "usage" && r.TokensFrom != "chunks" {
		l.problem(l.raw, "tokens_from is %q; it is usage or chunks", foreign.Line(r.TokensFrom, 100))
	}
	if len(r.ChunkTokens) > 0 && len(r.ChunkTokens) != len(r.Gaps)+1 {
		l.problem(l.raw, "chunk_tokens has %d entries and gaps_us %d; one more is right", len(r.ChunkTokens), len(r.Gaps))
	}
	for _, n := range r.ChunkTokens {
		if n < 0 {
			l.problem(l.raw, "chunk_tokens has a negative entry")
			break
		}
	}
	if len(r.Gaps) == 0 {
		return
	}
	if len(r.Gaps) > r.OutputTokens-1 {
		l.problem(l.raw, "gaps_us has %d entries for %d tokens", len(r.Gaps), r.OutputTokens)
		return
	}
	var sum int64
	for _, g := range r.Gaps {
		us, _ := assay.Gap(g)
		sum += int64(us)
	}
	if off := (r.Last-r.First)/1000 - sum; off > int64(len(r.Gaps))+1 || -off > int64(len(r.Gaps))+1 {
		l.problem(l.raw, "gaps_us add up to %d µs, and last_ns lies %d µs after first_ns", sum, (r.Last-r.First)/1000)
	}
}

// clean takes out what is not the binary's to say: what our own client would
// certify itself by.
func (l *lineReader) clean(r *assay.Request) {
	r.Stage = l.job.Workload
	r.Detail = foreign.Line(r.Detail, maxDetail)
	r.Reads, r.MergedReads, r.FirstMerged, r.FirstLag, r.MaxLag, r.ClockStep = 0, 0, false, 0, 0, false
	r.Other, r.OtherUS, r.Status = "", nil, 0
	if !l.job.KeepText {
		r.Text = ""
	}
	if r.OK() && r.TokensFrom == "" {
		r.TokensFrom = "usage"
	}
}

// finish gives all problems, when the output has ended. Nothing is taken after it.
func (l *lineReader) finish() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buf) > 0 && !l.closed {
		l.problem(l.raw+1, "the last line has no newline")
	}
	if len(l.problems) == 0 && l.n < len(l.seen) {
		l.problem(0, "it wrote %d lines, and the job asks for %d (%d warm-ups and %d requests)", l.raw, len(l.seen), l.job.Warmups, l.job.Requests)
	}
	l.stop()
	out := slices.Clone(l.problems)
	if l.more > 0 {
		out = append(out, fmt.Sprintf("and %d more", l.more))
	}
	return out
}

// window is the steady window: from the first judged request to the last one sent.
// Where one request is all there is, it ends with that.
func (l *lineReader) window() (from, to int64) {
	if l.last > l.first {
		return l.first, l.last
	}
	return l.first, l.end
}

package inference

import (
	"bytes"
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/assay-bench/assay"
)

// Bounds on what an engine can make us keep for one request.
const (
	maxHead    = 64 << 10
	maxInterim = 16         // 1xx replies before the real one
	maxErrBody = 64 << 10   // of a refusal's body that is read at all
	maxText    = 1 << 20    // of the answer's text
	lingerNS   = int64(1e9) // patience for the body's end once the answer is complete
)

var errEvents = errors.New("far more events than tokens were asked for")

// stream is one request under way: a push parser from bytes to marks. It is
// used again for later requests, so that the read path allocates nothing.
type stream struct {
	c     *Client
	lags  *[lagBuckets]atomic.Int64
	watch watched

	r     *assay.Request
	multi int // answers expected in this one stream

	// The read whose bytes are being fed.
	now    int64 // when our code had it
	at     int64 // when it arrived
	lagUS  int64
	seq    uint64
	reads  uint32 // of this request, the present one included
	prevAt int64  // when the read before it arrived, or the request was sent
	inRead int    // chunks in it so far that may be tokens
	from   int    // its first mark

	arrived int64 // chunks that may be tokens, of this and all earlier requests

	part  bodyPart
	frame framing
	left  int64 // bytes left of a body with a length
	chunk chunked
	lines lines

	head    []byte
	interim int
	status  int
	keep    bool // the connection may serve again
	maxIdle int64
	note    string // what a refusal's header said

	errBody  []byte
	errBytes int

	ev       event
	marks    []mark
	maxMarks int
	begun    bool  // a chunk came that may be a token
	answerAt int64 // arrival of the answer's first visible text
	events   int
	finished int
	done     bool // [DONE], done:true
	complete bool // the body was read to its end
	progress bool // this feed held an event
	letters  []byte
	text     []byte

	usage              bool // the engine's count of the whole request came
	summed             bool // in an event of its own
	choices            int  // that were seen
	asked              int  // tokens that were asked for; 0: the engine decides
	prompt, completion int64
	cached             int64
	counts             []int64 // completion tokens by choice, as told up to now
	saw                Habits
	engine             assay.EngineTimings
	timed              bool

	err     error // what is wrong with the stream
	readErr error // what ended the connection
	steps   int64
}

type bodyPart uint8

const (
	partHead bodyPart = iota
	partBody
	partRefusal // the body of a reply that is no stream
	partEnd
)

type framing uint8

const (
	frameChunked framing = iota
	frameLength
	frameClose
)

// watched is what the watchdog looks at while the request is under way.
type watched struct {
	due    atomic.Int64 // when the present limit ends
	phase  atomic.Int32
	quiet  atomic.Int64 // when the last read emptied the socket; 0: nothing to look after
	heard  atomic.Int64 // when an event last came, of this or an earlier request
	came   atomic.Int64 // tokens of this and all earlier requests, as far as chunks tell
	killed atomic.Int32

	mu     sync.Mutex // held for acting on conn, and for taking it away
	conn   *conn
	gen    uint64
	kicked bool

	sent, totalDue int64
}

func newStream(c *Client, n int) *stream {
	s := &stream{c: c, lags: c.lag.shards[n%len(c.lag.shards)]}
	s.lines.emit = s.event
	s.watch.due.Store(math.MaxInt64)
	return s
}

// reset makes the stream ready for a request.
func (s *stream) reset(r *assay.Request, job *Job) {
	s.r, s.multi = r, max(1, len(job.Prompts))
	s.now, s.at, s.lagUS, s.seq = 0, 0, 0, 0
	s.reads, s.prevAt, s.inRead, s.from = 0, 0, 0, 0
	s.part, s.frame, s.left, s.chunk = partHead, frameChunked, 0, chunked{}
	s.lines.reset(s.c.backend.sse())
	s.head, s.interim, s.status, s.keep, s.note = trim(s.head), 0, 0, false, ""
	s.maxIdle = int64(defaultIdle)
	s.errBody, s.errBytes = trim(s.errBody), 0
	s.begun, s.answerAt, s.events, s.finished = false, 0, 0, 0
	s.done, s.complete, s.progress = false, false, false
	s.text = trim(s.text)
	s.usage, s.prompt, s.completion, s.cached = false, 0, 0, 0
	s.summed, s.choices = false, 0
	s.counts, s.saw = s.counts[:0], Habits{}
	s.engine, s.timed = assay.EngineTimings{}, false
	s.err, s.readErr = nil, nil
	s.steps = s.c.clock.Steps()

	r.Connect, r.Sent, r.First, r.Answer, r.Last, r.End = 0, 0, 0, 0, 0, 0
	r.NoAnswer, r.Address = false, ""
	r.ChunkTokens, r.Engine, r.Text = nil, nil, ""
	r.InputTokens, r.OutputTokens, r.CachedTokens, r.TokensFrom = 0, 0, 0, ""
	r.Error, r.Detail, r.Status = "", "", 0
	r.Reads, r.MergedReads, r.BurstReads, r.BurstChunks = 0, 0, 0, 0
	r.Unplaced = 0
	r.FirstMerged, r.FirstLag, r.MaxLag, r.ClockStep = false, 0, 0, false

	asked := max(0, job.MaxTokens) * s.multi
	s.asked = asked
	s.maxMarks = maxMarks + 4*asked
	if want := min(asked+16, keepMarks); cap(s.marks) < want || cap(s.marks) > keepMarks {
		s.marks = make([]mark, 0, want)
	}
	s.marks = s.marks[:0]
	if want := min(max(asked, 16), 1<<16); cap(r.Gaps) < want {
		r.Gaps = make([]int32, 0, want)
	}
	r.Gaps = r.Gaps[:0]
	if r.OtherUS == nil {
		r.OtherUS = make([]int32, 0, 4)
	}
	r.OtherUS = r.OtherUS[:0]
}

// read begins a read: all bytes fed until the next call came by it. A read with
// the number of the last one goes on with it.
func (s *stream) read(seq uint64, now, stamp int64) {
	if seq == s.seq {
		return
	}
	if s.prevAt = s.at; s.reads == 0 {
		s.prevAt = s.watch.sent
	}
	s.reads++
	s.inRead, s.from = 0, len(s.marks)
	s.seq, s.now, s.at, s.lagUS = seq, now, now, 0
	if stamp == 0 {
		return
	}
	at := s.c.clock.FromWall(stamp)
	lag := now - at
	if lag < -stepSlack || at < s.watch.sent-stepSlack {
		// What we read came after now or before it was asked for: the wall
		// clock was stepped, and the offset is not measured anew yet.
		s.r.ClockStep = true
		return
	}
	lag = max(lag, 0)
	s.lagUS = lag / 1000
	s.lags[lagBucket(s.lagUS)].Add(1)
	s.r.MaxLag = max(s.r.MaxLag, s.lagUS)
	if s.c.source == assay.ClockKernel {
		s.at = now - lag
	}
}

// stepSlack is how much a stamp may contradict our clock by noise alone.
const stepSlack = int64(200e3)

// blame settles whose fault it is that a read held several chunks. Only of the
// last one the arrival is known then if it is the client's. single says that
// they came in one segment.
func (s *stream) blame(single bool) {
	late := !single && s.c.sentinel.worst(s.prevAt, s.now) > clearedBy(s.at-s.prevAt)
	for i := s.from; i < len(s.marks); i++ {
		s.marks[i].late = late
	}
}

// feed takes bytes of the reply. It reports whether the request is over.
func (s *stream) feed(p []byte) (over bool) {
	s.progress = false
	over = s.push(p)
	s.lines.keep()
	if s.progress {
		s.watch.heard.Store(s.now)
		s.watch.came.Store(s.arrived)
		switch {
		case s.done:
			s.limit(phaseLinger, s.now+lingerNS)
		case s.begun:
			s.limit(phaseGap, s.now+s.c.gapNS)
		}
	}
	return over
}

// limit sets the time by which the next progress must come.
func (s *stream) limit(phase int32, due int64) {
	if s.watch.phase.Load() != phase {
		s.watch.phase.Store(phase)
	}
	s.watch.due.Store(min(due, s.watch.totalDue))
}

func (s *stream) push(p []byte) (over bool) {
	for {
		switch s.part {
		case partHead:
			rest, ok, err := s.takeHead(p)
			if err != nil {
				s.err = err
				return true
			}
			if !ok {
				return false
			}
			p = rest
			if s.part == partEnd {
				s.complete = true
				s.keep = s.keep && len(p) == 0
				return true
			}
		case partEnd:
			return true
		default:
			if len(p) == 0 {
				return false
			}
			var data []byte
			var err error
			switch s.frame {
			case frameChunked:
				if data, p, err = s.chunk.next(p); err != nil {
					s.err = err
					return true
				}
			case frameLength:
				n := min(s.left, int64(len(p)))
				data, p = p[:n], p[n:]
				s.left -= n
			case frameClose:
				data, p = p, nil
			}
			if len(data) > 0 && !s.payload(data) {
				return true
			}
			if s.frame == frameChunked && s.chunk.state == chunkDone || s.frame == frameLength && s.left == 0 {
				s.finish()
				s.keep = s.keep && len(p) == 0 // what follows was not asked for
				return true
			}
		}
	}
}

// payload takes bytes of the body. It reports whether to go on.
func (s *stream) payload(p []byte) bool {
	if s.part == partRefusal {
		if room := maxDetail + 1 - len(s.errBody); room > 0 {
			s.errBody = append(s.errBody, first(p, room)...)
		}
		s.errBytes += len(p)
		return s.errBytes <= maxErrBody
	}
	more, err := s.lines.feed(p)
	if err != nil {
		s.err = err
	}
	return more
}

// finish is the body's end, by its framing.
func (s *stream) finish() {
	s.complete = true
	if s.part == partBody {
		if err := s.lines.end(); err != nil {
			s.err = err
		}
	}
	s.part = partEnd
}

// eof is the connection's end.
func (s *stream) eof() {
	if s.frame == frameClose && (s.part == partBody || s.part == partRefusal) {
		s.finish()
	}
}

// event takes one event of the stream. It reports whether to go on.
func (s *stream) event(data []byte) bool {
	if s.done || len(data) == 0 || string(data) == "null" {
		return true // llama.cpp begins so when it has several prompts
	}
	s.progress = true
	s.events++
	if len(data) == 6 && string(data) == "[DONE]" {
		s.done = true
		return s.mark(kindDone, 0)
	}
	var text *[]byte
	if s.c.keepText && len(s.text) < maxText {
		text = &s.text
	}
	e := &s.ev
	if !scanEvent(data, e, text) {
		s.err = &streamError{what: "an event that is not a JSON object", body: bytes.Clone(first(data, maxDetail+1))}
		return false
	}
	if e.failed {
		s.err = &streamError{what: "the engine sent an error", body: bytes.Clone(first(data[e.from:e.to], maxDetail+1))}
		return false
	}
	s.choices = max(s.choices, e.index+1)
	if e.usage {
		s.total(e)
	}
	if e.timings {
		s.timings(e)
	}
	s.finished += e.finished
	if e.done {
		s.done = true
	}
	rise := s.count(e)
	s.learn(e, rise)
	k := e.kind()
	if k&kindVisible != 0 || k&kindChoice != 0 && k&kindRole == 0 {
		if !s.begun {
			s.begun = true
			s.r.FirstLag = s.lagUS
		}
	}
	if s.answerAt == 0 && (e.content || e.tool) {
		s.answerAt = s.at
	}
	return s.mark(k, rise)
}

// total takes a count of the whole answer. With several choices a count beside
// one of them is that choice's alone, and so are counts that come one for each
// choice after them.
func (s *stream) total(e *event) {
	several := s.multi > 1 || s.choices > 1
	switch {
	case several && e.choices:
		return
	case several && s.summed:
		s.completion += e.completion
		s.prompt += e.prompt
		s.cached += e.cached
	default:
		s.prompt, s.completion, s.cached = e.prompt, e.completion, e.cached
	}
	s.usage, s.summed = true, !e.choices
}

// kind says what the event is. Ollama's lines have no choices, and each of them
// is one but for the last, which has the counts.
func (e *event) kind() (k kind) {
	if e.choices || e.line {
		k |= kindChoice
	}
	if e.content || e.reasoning || e.tool {
		k |= kindVisible
	}
	if e.role && !e.line { // each of Ollama's lines has one
		k |= kindRole
	}
	if e.finished > 0 || e.done {
		k |= kindFinish
	}
	if e.usage && k&kindChoice == 0 {
		k |= kindUsage
	}
	return k
}

// timings keeps the engine's own figures.
func (s *stream) timings(e *event) {
	s.timed = true
	t := &s.engine
	t.Total, t.Load, t.Prompt, t.Eval = e.total, e.load, e.promptNS, e.evalNS
	t.FirstToken, t.Generation, t.Queued = e.firstNS, e.generationNS, e.queuedNS
	t.PromptTokens, t.EvalTokens = int(e.promptN), int(e.evalN)
	if e.done {
		t.PromptTokens, t.EvalTokens = int(e.prompt), int(e.completion)
	}
	// Both engines start the clock of decoding when the first token is there.
	t.EvalIntervals = max(0, t.EvalTokens-1)
}

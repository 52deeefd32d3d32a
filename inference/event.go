package inference

// event is what one SSE or NDJSON event says of what we measure. Everything
// else in it is checked to be JSON and passed over.
type event struct {
	content   bool // a piece of the answer that is not empty
	reasoning bool // likewise of the reasoning
	tool      bool // a tool call, or a piece of one
	role      bool
	choices   bool // at least one choice
	line      bool // one of Ollama's, with a piece of an answer or room for one
	details   bool // kinds of completion tokens are told
	done      bool // Ollama's last line
	usage     bool // prompt and completion hold what the engine counted
	timings   bool
	failed    bool // an error; from and to delimit it

	finished int // choices that have a finish_reason
	index    int // of the first choice

	prompt, completion, cached int64

	total, load, promptNS, evalNS int64 // the engine's own timings in nanoseconds
	promptN, evalN                int64

	firstNS, generationNS, queuedNS int64

	from, to int
}

// scanEvent reads one event of either dialect: their names do not collide. It
// appends the answer's text to *text unless that is nil. It reports whether b
// is one JSON object and nothing else.
func scanEvent(b []byte, e *event, text *[]byte) bool {
	*e = event{}
	s := scanner{b: b}
	if s.space() != '{' {
		return false
	}
	for key, ok := s.object(); ok; key, ok = s.member() {
		e.member(&s, key, text)
	}
	s.space()
	return !s.bad && s.i == len(b)
}

func (e *event) member(s *scanner, key []byte, text *[]byte) {
	switch string(key) {
	// OpenAI
	case "choices":
		e.readChoices(s, text)
	case "usage":
		e.readUsage(s)
	case "timings":
		e.readTimings(s)
	case "metrics":
		e.readMetrics(s)
	case "error":
		e.readError(s)
	// Ollama
	case "response":
		e.line = true
		piece(s, &e.content, text)
	case "thinking":
		piece(s, &e.reasoning, nil)
	case "message":
		e.line = true
		e.readMessage(s, text)
	case "done":
		e.done = s.flag()
	case "total_duration":
		count(s, &e.total, &e.timings)
	case "load_duration":
		count(s, &e.load, &e.timings)
	case "prompt_eval_duration":
		count(s, &e.promptNS, &e.timings)
	case "eval_duration":
		count(s, &e.evalNS, &e.timings)
	case "prompt_eval_count":
		count(s, &e.prompt, nil)
	case "eval_count":
		count(s, &e.completion, &e.usage)
	default:
		s.skip()
	}
}

// piece reads a string and sets *seen when it is not empty.
func piece(s *scanner, seen *bool, text *[]byte) {
	raw, escaped := s.text()
	if len(raw) == 0 {
		return
	}
	*seen = true
	if text == nil {
		return
	}
	if escaped {
		*text = appendUnescaped(*text, raw)
	} else {
		*text = append(*text, raw...)
	}
}

// count reads a count into *dst, and sets *seen, if any, when there was one.
func count(s *scanner, dst *int64, seen *bool) {
	v, ok := s.whole()
	if !ok {
		return
	}
	*dst = v
	if seen != nil {
		*seen = true
	}
}

func (e *event) readChoices(s *scanner, text *[]byte) {
	if s.space() != '[' {
		s.skip()
		return
	}
	if !s.open(']') {
		return
	}
	for {
		one := !e.choices
		e.choices = true
		e.readChoice(s, text, one)
		if !s.more(']') {
			return
		}
	}
}

func (e *event) readChoice(s *scanner, text *[]byte, first bool) {
	for key, ok := s.object(); ok; key, ok = s.member() {
		switch string(key) {
		case "delta":
			e.readMessage(s, text)
		case "text":
			piece(s, &e.content, text)
		case "index":
			if v, ok := s.whole(); ok && first {
				e.index = int(min(v, maxChoices))
			}
		case "finish_reason":
			if raw, _ := s.text(); len(raw) > 0 {
				e.finished++
			}
		default:
			s.skip()
		}
	}
}

// readMessage reads OpenAI's delta and Ollama's message, whose members agree.
func (e *event) readMessage(s *scanner, text *[]byte) {
	for key, ok := s.object(); ok; key, ok = s.member() {
		switch string(key) {
		case "content":
			piece(s, &e.content, text)
		case "reasoning_content", "reasoning", "thinking":
			piece(s, &e.reasoning, nil)
		case "tool_calls":
			if s.space() == '[' {
				from := s.i
				s.skip()
				// More than brackets and space: there is a call in it.
				for _, c := range s.b[from+1 : max(from+1, s.i-1)] {
					if c > ' ' {
						e.tool = true
						break
					}
				}
			} else {
				s.skip()
			}
		case "role":
			piece(s, &e.role, nil)
		default:
			s.skip()
		}
	}
}

func (e *event) readUsage(s *scanner) {
	for key, ok := s.object(); ok; key, ok = s.member() {
		switch string(key) {
		case "prompt_tokens":
			count(s, &e.prompt, nil)
		case "completion_tokens":
			count(s, &e.completion, &e.usage)
		case "prompt_tokens_details":
			e.readDetails(s)
		case "completion_tokens_details":
			e.details = s.space() == '{'
			s.skip()
		default:
			s.skip()
		}
	}
}

func (e *event) readDetails(s *scanner) {
	for key, ok := s.object(); ok; key, ok = s.member() {
		if string(key) == "cached_tokens" {
			count(s, &e.cached, nil)
		} else {
			s.skip()
		}
	}
}

// readTimings reads llama.cpp's own figures.
func (e *event) readTimings(s *scanner) {
	for key, ok := s.object(); ok; key, ok = s.member() {
		switch string(key) {
		case "prompt_n":
			count(s, &e.promptN, nil)
		case "prompt_ms":
			millis(s, &e.promptNS, nil)
		case "predicted_n":
			count(s, &e.evalN, nil)
		case "predicted_ms":
			millis(s, &e.evalNS, &e.timings)
		default:
			s.skip()
		}
	}
}

// readMetrics reads vLLM's own figures of the request.
func (e *event) readMetrics(s *scanner) {
	for key, ok := s.object(); ok; key, ok = s.member() {
		switch string(key) {
		case "time_to_first_token_ms":
			millis(s, &e.firstNS, &e.timings)
		case "generation_time_ms":
			millis(s, &e.generationNS, &e.timings)
		case "queue_time_ms":
			millis(s, &e.queuedNS, nil)
		default:
			s.skip()
		}
	}
}

func millis(s *scanner, dst *int64, seen *bool) {
	v, ok := s.float()
	if !ok || !(v >= 0 && v*1e6 <= maxCount) {
		return
	}
	*dst = int64(v * 1e6)
	if seen != nil {
		*seen = true
	}
}

// readError notes where the error lies; null is none.
func (e *event) readError(s *scanner) {
	null := s.space() == 'n'
	from := s.i
	s.skip()
	if !null && !s.bad {
		e.failed, e.from, e.to = true, from, s.i
	}
}

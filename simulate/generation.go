package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ask is a generation request of either API, as far as it matters here.
type ask struct {
	Model    string          `json:"model"`
	Prompt   json.RawMessage `json:"prompt"`
	System   string          `json:"system"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Stream        *bool `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
		Continuous   bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	MaxTokens           *int `json:"max_tokens"`
	MaxCompletionTokens *int `json:"max_completion_tokens"`
	N                   *int `json:"n"`
	IgnoreEOS           bool `json:"ignore_eos"`
	TimingsPerToken     bool `json:"timings_per_token"`
	Raw                 bool `json:"raw"`
	Options             struct {
		NumPredict *int `json:"num_predict"`
	} `json:"options"`
}

// chatOr is the place of an API's habits: 0 of chat, 1 of completions.
func chatOr(chat bool) int {
	if chat {
		return 0
	}
	return 1
}

// prompt is one text to answer: its length, and the text itself if it is one.
type prompt struct {
	tokens int
	text   string
}

func (e *Engine) generation(req *http.Request, body []byte, at time.Time) (*reply, plain) {
	path := req.URL.Path
	number := e.count.Add(1)
	var a ask
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, failure(path, http.StatusBadRequest, "the request is not valid: %v", err)
	}
	chat := strings.HasPrefix(path, "/v1/chat") || path == "/api/chat"
	h := e.habits()[chatOr(chat)]
	if p, refused := h.refuse(path, body); refused {
		return nil, p
	}
	if a.Model != "" && a.Model != e.cfg.Model && a.Model != e.tag() {
		if strings.HasPrefix(path, "/api/") {
			return nil, failure(path, http.StatusNotFound, "model '%s' not found", a.Model)
		}
		return nil, failure(path, http.StatusNotFound, "The model `%s` does not exist.", a.Model)
	}
	r := &reply{
		id:       req.Header.Get("X-Request-Id"),
		created:  at.Unix(),
		read:     int64(at.Sub(e.created)),
		readWall: at.UnixNano(),
		words:    int((e.cfg.Seed*31 + number*7) % uint64(len(words))),
		ollama:   strings.HasPrefix(path, "/api/"),
		chat:     chat,
		h:        h,
	}
	prompts, err := a.prompts(chat, r.ollama)
	if err != nil {
		return nil, failure(path, http.StatusBadRequest, "%v", err)
	}
	if path == "/api/generate" && prompts[0].tokens == 0 {
		return nil, e.loaded()
	}
	output, err := e.length(a, r)
	if err != nil {
		return nil, failure(path, http.StatusBadRequest, "%v", err)
	}
	copies := 1
	if a.N != nil && !r.ollama {
		copies = *a.N
	}
	if copies < 1 || len(prompts) > maxSequences || copies > maxSequences/len(prompts) {
		return nil, failure(path, http.StatusBadRequest, "%d prompts and n = %d: want 1 to %d answers", len(prompts), copies, maxSequences)
	}
	for _, p := range prompts {
		if p.tokens+output > e.cfg.MaxModelLen {
			return nil, failure(path, http.StatusBadRequest,
				"This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the messages, %d in the completion).",
				e.cfg.MaxModelLen, p.tokens+output, p.tokens, output)
		}
	}
	r.output = output * len(prompts) * copies
	if r.output > 4*maxOutput {
		return nil, failure(path, http.StatusBadRequest, "%d tokens in one answer: want at most %d", r.output, 4*maxOutput)
	}
	r.plan = e.dice.roll(number, r.output)
	if r.plan.kind == faultStatus {
		return nil, failure(path, r.plan.status, "%s", simulatedError)
	}
	if r.plan.kind == faultEmpty {
		r.plan.at = 0
	}
	e.dress(r, a, chat, number)
	e.fill(r, prompts, copies, output)
	e.stats.prompts.Add(int64(r.input))
	return r, plain{}
}

// dress decides how the reply is spoken.
func (e *Engine) dress(r *reply, a ask, chat bool, number uint64) {
	if r.id == "" || len(r.id) > 256 {
		r.id = fmt.Sprintf("sim-%x-%d", e.created.UnixNano(), number)
	}
	r.quotedID = quoted(r.id)
	r.stream = r.ollama
	if a.Stream != nil {
		r.stream = *a.Stream
	}
	if a.StreamOptions != nil {
		r.usage = a.StreamOptions.IncludeUsage
		r.running = r.usage && a.StreamOptions.Continuous
	}
	r.speculative = r.h.Speculative
	if r.custom = r.stream && e.odd[chatOr(chat)]; r.custom && r.h.outlet() {
		r.out = new(outlet)
	}
	if r.ollama {
		model := a.Model
		if model == "" {
			model = e.tag()
		}
		r.voice = &ollama{e: e, h: r.h, chat: chat, raw: a.Raw, model: quoted(model)}
		return
	}
	r.timings = a.TimingsPerToken
	v := &openAI{e: e, h: r.h, shape: e.shapes[chatOr(chat)], chat: chat, model: quoted(e.cfg.Model)}
	if r.stream {
		v.token = v.shape.token.fill(r.quotedID, strconv.FormatInt(r.created, 10), v.model)
	}
	r.voice = v
}

// fill makes the sequences that the law will schedule.
func (e *Engine) fill(r *reply, prompts []prompt, copies, output int) {
	if e.cfg.Faults.ColdStart > 0 && e.cold.CompareAndSwap(true, false) {
		r.load = int64(e.cfg.Faults.ColdStart)
	}
	if r.chat && !r.ollama && e.cfg.ToolCall && output > e.cfg.Reasoning+r.h.ToolHead {
		r.finish = "tool_calls" // a call that was cut off before its name is none
	}
	all := make([]sequence, len(prompts)*copies)
	r.sequences = make([]*sequence, len(all))
	for i := range all {
		p := prompts[i/copies]
		q := &all[i]
		*q = sequence{reply: r, index: i, input: p.tokens, output: output, arrived: r.read, extra: r.load, pos: -1}
		if e.prefix != nil && p.text != "" {
			q.cached = e.prefix.look(p.text)
		}
		if i%copies == 0 { // the copies share their prompt
			r.input += q.input
			r.cached += q.cached
		}
		r.sequences[i] = q
	}
	switch {
	case e.truth == nil:
	case r.custom:
		r.marks = make([]mark, 0, r.output)
	default:
		r.written = make([]int64, 0, r.output)
	}
}

// length is how many tokens the answer will have: as many as the request
// allows, or the engine's own length. It sets the finish reason with it.
func (e *Engine) length(a ask, r *reply) (int, error) {
	n, limit := e.cfg.OutputTokens, a.MaxTokens
	switch {
	case r.ollama:
		limit = a.Options.NumPredict
		if limit != nil && *limit < 0 {
			limit = nil // as long as the model likes
		}
	case a.MaxCompletionTokens != nil:
		limit = a.MaxCompletionTokens
	}
	r.finish = "stop"
	if limit == nil {
		return r.h.length(n, a.IgnoreEOS, r), nil
	}
	if *limit < 1 || *limit > maxOutput {
		return 0, fmt.Errorf("max_tokens must be between 1 and %d, got %d", maxOutput, *limit)
	}
	r.finish = "length"
	return r.h.length(*limit, a.IgnoreEOS, r), nil
}

// prompts reads what is to be answered. A token is a word; a chat has the
// template's tokens besides.
func (a *ask) prompts(chat, ollama bool) ([]prompt, error) {
	if chat {
		if len(a.Messages) == 0 {
			return nil, errors.New("messages: at least one is needed")
		}
		p := prompt{tokens: ChatOverhead}
		var text strings.Builder
		for _, m := range a.Messages {
			if err := appendContent(&text, m.Content); err != nil {
				return nil, err
			}
			text.WriteByte('\n')
		}
		p.text = text.String()
		p.tokens += countWords(p.text)
		return []prompt{p}, nil
	}
	raw := bytes.TrimSpace(a.Prompt)
	if ollama {
		var s string
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &s); err != nil {
				return nil, errors.New("prompt: want a string")
			}
		}
		s = strings.TrimSpace(a.System + "\n" + s)
		return []prompt{{countWords(s), s}}, nil
	}
	return parsePrompts(raw)
}

// parsePrompts reads the four forms of a completion prompt: a string, strings,
// token ids, and lists of token ids.
func parsePrompts(raw []byte) ([]prompt, error) {
	var one string
	var many []string
	var ids []int
	var lists [][]int
	switch {
	case len(raw) == 0:
		return nil, errors.New("prompt: missing")
	case raw[0] == '"' && json.Unmarshal(raw, &one) == nil:
		many = []string{one}
	case json.Unmarshal(raw, &many) == nil && len(many) > 0:
	case json.Unmarshal(raw, &ids) == nil && len(ids) > 0:
		return []prompt{{tokens: len(ids)}}, nil
	case json.Unmarshal(raw, &lists) == nil && len(lists) > 0:
		all := make([]prompt, len(lists))
		for i, l := range lists {
			all[i].tokens = len(l)
		}
		return all, nil
	default:
		return nil, errors.New("prompt: want a string, a list of strings, or token ids")
	}
	all := make([]prompt, len(many))
	for i, s := range many {
		all[i] = prompt{countWords(s), s}
	}
	return all, nil
}

// appendContent reads a message's content: a string, null, or parts of which
// only text has tokens.
func appendContent(dst *strings.Builder, raw json.RawMessage) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return fmt.Errorf("content: %w", err)
		}
		dst.WriteString(s)
		return nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return errors.New("content: want a string or a list of parts")
	}
	for _, p := range parts {
		dst.WriteString(p.Text)
		dst.WriteByte(' ')
	}
	return nil
}

// loaded answers an empty prompt, by which Ollama's users load a model.
func (e *Engine) loaded() plain {
	b := []byte(`{"model":` + strconv.Quote(e.tag()) + `,"created_at":"`)
	b = time.Now().UTC().AppendFormat(b, time.RFC3339Nano)
	return plain{http.StatusOK, "application/json", "", append(b, `","response":"","done":true,"done_reason":"load"}`...)}
}

// quoted is s as it stands between the quotes of a JSON string.
func quoted(s string) string {
	b, _ := json.Marshal(s) // a string always marshals
	return string(b[1 : len(b)-1])
}

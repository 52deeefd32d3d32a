package ask

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// Bounds of an answer.
const (
	maxAnswer = 8 << 20
	maxLine   = 1 << 20
	maxError  = 4 << 10
)

// Completion is what to ask for.
type Completion struct {
	Prompt    string
	MaxTokens int
}

// Answer is what came of it, and when. Times are those of our clock.
type Answer struct {
	Sent  time.Time
	First time.Time // of the first text; zero: none came
	Last  time.Time // of the last text
	// Chunks is how many events with text came: at least one token each.
	Chunks int
	// Tokens is what the engine counted, or Chunks where it did not say.
	Tokens int
	// Whole is whether the answer came to its end.
	Whole bool
}

// TTFT is the time to the first text; ok is false where none came.
func (a Answer) TTFT() (d time.Duration, ok bool) {
	return a.First.Sub(a.Sent), !a.First.IsZero()
}

// TPOT is the mean time of a token after the first; ok is false where too few came
// to say.
func (a Answer) TPOT() (d time.Duration, ok bool) {
	n := a.Chunks
	if a.Whole && a.Tokens > n {
		n = a.Tokens // several tokens came in one event
	}
	if n < 8 || !a.Last.After(a.First) {
		return 0, false
	}
	return a.Last.Sub(a.First) / time.Duration(n-1), true
}

// StatusError is an answer that is none.
type StatusError struct {
	Status int
	Text   string // bounded, one line
}

// Error says what was answered.
func (e *StatusError) Error() string {
	return fmt.Sprintf("the answer has the status %d: %s", e.Status, e.Text)
}

// Complete asks for a streamed chat completion. Where ctx ends or the stream breaks
// in the middle, what came so far is given beside the error.
func (w *Way) Complete(ctx context.Context, t Target, c Completion) (Answer, error) {
	body, err := json.Marshal(map[string]any{
		"model": t.Model, "messages": []map[string]string{{"role": "user", "content": c.Prompt}}, "max_tokens": c.MaxTokens,
		"stream": true, "stream_options": map[string]bool{"include_usage": true},
	})
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Sent: time.Now()}
	r, err := w.Do(ctx, t, "/v1/chat/completions", body)
	if err != nil {
		return a, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(r.Body, maxError)) // what came says enough
		return a, &StatusError{r.StatusCode, foreign.Line(string(b), 200)}
	}
	err = a.read(io.LimitReader(r.Body, maxAnswer))
	a.Tokens = max(a.Tokens, a.Chunks)
	return a, err
}

// read follows a stream of events to its end.
func (a *Answer) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		now := time.Now()
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			a.Whole = true
			return nil
		}
		text, usage, err := event(data)
		if err != nil {
			return err
		}
		if usage > 0 {
			a.Tokens = usage
		}
		if !text {
			continue
		}
		if a.First.IsZero() {
			a.First = now
		}
		a.Last = now
		a.Chunks++
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the stream broke off: %w", err)
	}
	return fmt.Errorf("the stream broke off: %w", io.ErrUnexpectedEOF)
}

// maxTokens bounds what an engine may say that it counted.
const maxTokens = 1 << 20

// event reads one event: whether it has text, and what the engine counted.
func event(data []byte) (text bool, usage int, err error) {
	var e struct {
		Choices []struct {
			Delta struct {
				Content   string `json:"content"`
				Reasoning string `json:"reasoning_content"`
				Thinking  string `json:"reasoning"`
			} `json:"delta"`
		} `json:"choices"`
		Usage *struct {
			Completion int `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return false, 0, fmt.Errorf("an event of the stream is no JSON: %s", foreign.Line(string(data), 100))
	}
	for _, c := range e.Choices {
		text = text || c.Delta.Content != "" || c.Delta.Reasoning != "" || c.Delta.Thinking != ""
	}
	if e.Usage != nil && e.Usage.Completion > 0 && e.Usage.Completion <= maxTokens {
		usage = e.Usage.Completion
	}
	return text, usage, nil
}

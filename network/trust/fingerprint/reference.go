package fingerprint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// Format names the format of a reference's file (docs/formats/reference.md).
const Format = "assay/model-reference/v1"

// Bounds of a reference.
const (
	MinRuns    = 5 // of one source: with fewer nothing is known about its noise
	MinPrompts = 8 // of one check
	MaxPrompts = 4096
	MaxTokens  = 64 // of a prompt that are compared: its last ones, which have the most context
	maxSources = 64
	maxRuns    = 64
	maxFile    = 256 << 20
	maxName    = 200
)

// Reference is what a model's log-probabilities are. It is secret: who has it knows
// the prompts.
type Reference struct {
	Format  string    `json:"format"`
	Model   string    `json:"model"` // as engines name it
	Created time.Time `json:"created"`
	Prompts []Prompt  `json:"prompts"`
	Sources []Source  `json:"sources"`
}

// Prompt is a prompt and the tokens of it that are compared, as the engine spells
// them.
type Prompt struct {
	Text   string   `json:"text"`
	Tokens []string `json:"tokens"`
}

// Source is a deployment that is trusted to serve the model.
type Source struct {
	Name    string    `json:"name"`
	Engine  string    `json:"engine"` // self-reported
	Created time.Time `json:"created"`
	Runs    []Run     `json:"runs"`
}

// Run is one pass over all prompts.
type Run struct {
	Concurrency int `json:"concurrency"` // requests at once: how batches were filled
	// LogProbs are those of each prompt's tokens.
	LogProbs [][]float32 `json:"logprobs"`
}

// Read reads a reference and checks it.
func Read(r io.Reader) (*Reference, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("it is longer than %d bytes, which no reference is", maxFile)
	}
	var ref Reference
	if err := json.Unmarshal(b, &ref); err != nil {
		return nil, fmt.Errorf("it is no reference: %w", err)
	}
	if err := ref.check(); err != nil {
		return nil, err
	}
	return &ref, nil
}

// check says what is wrong with a reference; nil: nothing.
func (r *Reference) check() error {
	switch {
	case r.Format != Format:
		return fmt.Errorf("its format is %q and not %s", foreign.Line(r.Format, 40), Format)
	case !named(r.Model):
		return errors.New("it names no model")
	case len(r.Prompts) < MinPrompts || len(r.Prompts) > MaxPrompts:
		return fmt.Errorf("it has %d prompts, and from %d to %d are needed", len(r.Prompts), MinPrompts, MaxPrompts)
	case len(r.Sources) == 0 || len(r.Sources) > maxSources:
		return fmt.Errorf("it has %d sources, and from 1 to %d are needed", len(r.Sources), maxSources)
	}
	for i, p := range r.Prompts {
		if p.Text == "" || len(p.Tokens) == 0 || len(p.Tokens) > MaxTokens {
			return fmt.Errorf("prompt %d has no text, or not from 1 to %d tokens", i, MaxTokens)
		}
	}
	for i := range r.Sources {
		if err := r.checkSource(&r.Sources[i]); err != nil {
			return err
		}
	}
	return nil
}

func named(s string) bool { return s != "" && len(s) <= maxName && foreign.Plain(s) }

func (r *Reference) checkSource(s *Source) error {
	if !named(s.Name) || s.Engine != "" && !named(s.Engine) {
		return errors.New("a source has no name, or one that cannot be printed")
	}
	if len(s.Runs) < MinRuns || len(s.Runs) > maxRuns {
		return fmt.Errorf("source %s has %d runs, and from %d to %d are needed", s.Name, len(s.Runs), MinRuns, maxRuns)
	}
	for i, run := range s.Runs {
		if len(run.LogProbs) != len(r.Prompts) {
			return fmt.Errorf("source %s: run %d has %d prompts and not %d", s.Name, i, len(run.LogProbs), len(r.Prompts))
		}
		for p, values := range run.LogProbs {
			if len(values) != len(r.Prompts[p].Tokens) || !all(values) {
				return fmt.Errorf("source %s: run %d has not one log-probability for each token of prompt %d", s.Name, i, p)
			}
		}
	}
	return nil
}

// all says whether these are log-probabilities.
func all(values []float32) bool {
	for _, v := range values {
		if !(v <= 0) || math.IsInf(float64(v), 0) {
			return false
		}
	}
	return true
}

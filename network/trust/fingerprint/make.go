package fingerprint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// New begins a reference for a model, without sources.
func New(model string, prompts []string, now time.Time) *Reference {
	r := &Reference{Format: Format, Model: model, Created: now.UTC().Truncate(time.Second)}
	for _, text := range prompts {
		r.Prompts = append(r.Prompts, Prompt{Text: text})
	}
	return r
}

// batches are how many requests are under way at once in one run after the other: a
// batch of another size is summed up in another order.
var batches = []int{1, 8, 2, 16, 4, 32}

// Record adds a deployment that is trusted: it is asked for every prompt in each of
// several runs.
func (r *Reference) Record(ctx context.Context, e *Engine, name string, runs int, now time.Time, progress func(run int)) error {
	if runs < MinRuns || runs > maxRuns {
		return fmt.Errorf("%d runs: from %d to %d are needed to know the noise", runs, MinRuns, maxRuns)
	}
	if len(r.Sources) >= maxSources {
		return fmt.Errorf("there are %d sources already", maxSources)
	}
	if slices.ContainsFunc(r.Sources, func(s Source) bool { return s.Name == name }) {
		return fmt.Errorf("there is a source %s already: give another name", name)
	}
	texts := make([]string, len(r.Prompts))
	for i, p := range r.Prompts {
		texts[i] = p.Text
	}
	s := Source{Name: name, Engine: e.Version(ctx), Created: now.UTC().Truncate(time.Second)}
	for i := range runs {
		run := Run{Concurrency: batches[i%len(batches)]}
		answers, err := e.ask(ctx, texts, run.Concurrency)
		if err != nil {
			return err
		}
		if err := r.add(&run, answers); err != nil {
			return err
		}
		s.Runs = append(s.Runs, run)
		progress(i + 1)
	}
	r.Sources = append(r.Sources, s)
	return r.check()
}

// add puts answers into a run. The first run says what the tokens are.
func (r *Reference) add(run *Run, answers []Answer) error {
	for i, a := range answers {
		p := &r.Prompts[i]
		if p.Tokens == nil {
			p.Tokens = a.Tokens
		}
		if !slices.Equal(p.Tokens, a.Tokens) {
			return errors.New("the engine makes other tokens of a prompt than before: it is not the same model")
		}
		run.LogProbs = append(run.LogProbs, a.LogProbs)
	}
	return nil
}

// DefaultPrompts is how many prompts a check draws: an engine that answers one request
// in ten with another model is then missed once in thirty checks.
const DefaultPrompts = 32

// Check asks an engine for n prompts, drawn anew each time, and judges the answers.
// An error says that the engine could not be asked; one without log-probabilities
// was asked, and is unknown.
func Check(ctx context.Context, r *Reference, e *Engine, n, concurrency int) (Finding, error) {
	n = min(max(n, MinPrompts), len(r.Prompts))
	drawn := rand.Perm(len(r.Prompts))[:n]
	texts := make([]string, n)
	for i, at := range drawn {
		texts[i] = r.Prompts[at].Text
	}
	answers, err := e.ask(ctx, texts, concurrency)
	if errors.Is(err, ErrNone) {
		return unknown("%s", err), nil
	}
	if err != nil {
		return Finding{}, err
	}
	for i := range answers {
		answers[i].Prompt = drawn[i]
	}
	return Judge(r, answers), nil
}

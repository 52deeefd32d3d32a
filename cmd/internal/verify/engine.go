package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/native"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/verify"
)

// Tokens that an answer may have: to the prompt of ours, to one's own, and of a
// request that only makes load.
const (
	answerTokens    = 32
	ownAnswerTokens = 128
	loadTokens      = 64
)

// ownPrompt says what is wrong with --prompt, if something is.
func (f *verifyFlags) ownPrompt(given bool) error {
	switch {
	case !given:
		return nil
	case f.baseURL == "":
		return errors.New("--prompt goes with --base-url: an engine answers it")
	case strings.TrimSpace(f.prompt) == "":
		return errors.New("--prompt is empty: give the words that the model is to answer")
	}
	return nil
}

// engine looks where an engine's model runs: a short load beside readings of
// the GPUs, and one prompt asked twice. With a prompt of the user's own the load
// asks that, too.
func (v *verified) engine(ctx context.Context, f *verifyFlags, p *cli.Progress) error {
	dir, err := os.MkdirTemp("", "assay-verify")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := hammer.DefaultConfig()
	c.URL, c.Model, c.ReloadModel = strings.TrimRight(f.baseURL, "/"), f.model, f.reload
	c.APIKey = os.Getenv("OPENAI_API_KEY")
	c.Load = hammer.Load{Mode: hammer.ModeClosed, Concurrency: 4, Duration: assay.Duration(8 * time.Second), Grace: assay.Duration(5 * time.Second)}
	prompt, tokens := "Count from one to ten.", answerTokens
	if f.prompt != "" {
		prompt, tokens = f.prompt, ownAnswerTokens
		if c.Data, err = promptData(dir, prompt); err != nil {
			return err
		}
		c.Sampling.IgnoreEOS = false // as long as the answer is
	}
	if err := hammer.Resolve(ctx, &c); err != nil {
		return err
	}
	p.Say("asking %s at %s, to see whether a GPU works", c.Model, c.URL)
	if err := v.execution(ctx, c, filepath.Join(dir, "run"), p); err != nil {
		return err
	}
	v.Checks = append(v.Checks, verify.SameAnswers(prompt, v.answers(ctx, c, prompt, tokens), time.Now()))
	return nil
}

// promptData is a dataset of one prompt.
func promptData(dir, prompt string) (hammer.Data, error) {
	line, err := json.Marshal(map[string]any{"prompt": prompt})
	if err != nil {
		return hammer.Data{}, err
	}
	path := filepath.Join(dir, "prompt.jsonl")
	if err := os.WriteFile(path, append(line, '\n'), 0o600); err != nil {
		return hammer.Data{}, err
	}
	return hammer.Data{Kind: "custom", Path: path, OutputTokens: loadTokens, Oversample: true}, nil
}

// execution makes the load, and takes over what the readings beside it say.
func (v *verified) execution(ctx context.Context, c hammer.Config, run string, p *cli.Progress) error {
	opt := hammer.Options{Version: cli.Version(), Progress: p.Show}
	var err error
	if opt.NVML, err = native.Command("nvml"); err != nil {
		return err
	}
	if _, err := hammer.Run(ctx, c, run, opt); err != nil {
		return fmt.Errorf("ask the engine: %w", err)
	}
	rd, err := journal.Open(run)
	if err != nil {
		return err
	}
	checks, err := hammer.Checks(rd)
	if err != nil {
		return err
	}
	if len(checks) == 0 {
		v.Notes = append(v.Notes, "model execution: no readings of a GPU on the engine's machine, so nothing can be said of it")
	}
	v.Checks = append(v.Checks, checks...)
	return nil
}

// answers asks the prompt twice, and records each time as an operation whose
// input is the prompt's bytes.
func (v *verified) answers(ctx context.Context, c hammer.Config, prompt string, tokens int) []string {
	log := verify.OperationLog{
		Device: "Engine(" + foreign.Line(c.Model, 100) + ")",
		Record: func(op assay.Operation) { v.Operations = append(v.Operations, op) },
	}
	var answers []string
	for range 2 {
		_, err := verify.LogOperation(log, "model_execution", []int{len(prompt)}, func() error {
			a, err := hammer.Ask(ctx, c, prompt, tokens)
			if err == nil {
				answers = append(answers, a)
			}
			return err
		})
		if err != nil {
			v.Notes = append(v.Notes, "determinism: "+err.Error())
			break
		}
	}
	return answers
}

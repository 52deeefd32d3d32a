package hammer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/inference"
)

var errNoUsage = errors.New("the engine does not say how many tokens a prompt had")

// Fields of a request that an engine may refuse and the run can do without.
const (
	fieldIgnoreEOS = "ignore_eos"
	fieldEach      = "continuous_usage_stats"
	fieldTimings   = "timings_per_token"
	fieldUsage     = "stream_options"
)

// optional are these fields in the order in which they are dropped when the
// engine's words name none of them: what is known least widely first.
var optional = []string{fieldEach, fieldTimings, fieldUsage, fieldIgnoreEOS}

// calibration is what a few requests before the load told of the engine.
type calibration struct {
	ruler  ruler
	habits inference.Habits
	timed  bool // it sends timings as llama.cpp does
	// What the second prompt is asked with, learned from the first.
	timings, fresh bool
	tuning         inference.Tuning // of the load

	asked                   int // requests that were sent
	requests, input, output int // that were answered, and their tokens
}

// learn calibrates, and sets the client to the engine's habits.
func (r *run) learn(ctx context.Context) (ruler, error) {
	c, err := r.calibrate(ctx)
	data := map[string]float64{
		"requests": float64(c.requests), "input_tokens": float64(c.input), "output_tokens": float64(c.output),
		"counts_each_chunk": 0,
	}
	counts := "it does not count in each chunk: tokens without text are placed by its final count"
	if c.tuning.Counting {
		data["counts_each_chunk"] = 1
		counts = "it counts in each chunk"
	}
	switch {
	case errors.Is(err, errNoUsage):
		r.event(assay.EventWarning, "", fmt.Sprintf("%v; prompt lengths are a guess of %.1f tokens a word", err, guess.perWord), nil)
		r.event(assay.EventCalibrated, "", "the engine counts nothing: visible chunks are taken for tokens", data)
		c.ruler = guess
	case err != nil:
		return ruler{}, err
	default:
		data["tokens_per_word"], data["overhead_tokens"] = c.ruler.perWord, c.ruler.overhead
		r.event(assay.EventCalibrated, "", fmt.Sprintf("%.3f tokens a word, %.0f beside; %s", c.ruler.perWord, c.ruler.overhead, counts), data)
	}
	return c.ruler, nil
}

// calibrateShort and calibrateLong are the words of the two calibrating prompts.
// The long one is the short one twice: so what a prompt has beside its words is
// known exactly, and only tokens a word is a sample.
const calibrateShort, calibrateLong = 128, 2 * calibrateShort

// calibrationText is the calibrating prompt of so many words.
func (r *run) calibrationText(words int) string {
	once := newRandom(Data{InputTokens: calibrateShort, OutputTokens: 1}, ruler{perWord: 1}, r.cfg.Seed, r.id+"/calibrate").at(0).text
	return strings.TrimSuffix(strings.Repeat(once+" ", words/calibrateShort), " ")
}

// calibrate asks the engine how many tokens two prompts of known length are,
// with the load's own body, and looks how it counts its answers.
func (r *run) calibrate(ctx context.Context) (c calibration, err error) {
	if r.dropped == nil {
		r.dropped = map[string]bool{}
	}
	a, err := r.count(ctx, &c, calibrateShort)
	if err != nil {
		return c, err
	}
	if r.cfg.Connection == ConnectionKeep && !r.client.Keeps(ctx, keepWatch) {
		c.fresh = true
		r.event(assay.EventNote, "", "the engine closes connections that it promised to keep: a new one is made for each request", nil)
	}
	// llama.cpp counts in each chunk when it is asked in its own way.
	c.timings = c.timed && !c.habits.CountsEach
	b, err := r.count(ctx, &c, calibrateLong)
	if err != nil {
		return c, err
	}
	r.tune(&c)
	if a <= 0 || b <= a {
		return c, errNoUsage
	}
	per := float64(b-a) / (calibrateLong - calibrateShort)
	c.ruler = ruler{perWord: per, overhead: float64(a) - per*calibrateShort}
	return c, nil
}

// keepWatch is how long a kept connection is watched before the load.
const keepWatch = 150 * time.Millisecond

// asking is how counts are asked for while the engine is learned: in every way
// that it has not refused.
func (r *run) asking(c *calibration) inference.Tuning {
	t := inference.Tuning{Usage: inference.UsageEach, Fresh: c.fresh, TimingsPerToken: c.timings && !r.dropped[fieldTimings]}
	switch {
	case r.dropped[fieldUsage]:
		t.Usage = inference.UsageNever
	case r.dropped[fieldEach]:
		t.Usage = inference.UsageOnce
	}
	return t
}

// tune sets how counts are asked for in the load.
func (r *run) tune(c *calibration) {
	c.tuning = r.asking(c)
	switch {
	case c.habits.CountsEach && !c.habits.Details:
		c.tuning.Counting = true
	default:
		// Counts in each chunk that are of no use, or cost the engine too much,
		// are not asked for.
		c.tuning.TimingsPerToken = false
		if c.tuning.Usage == inference.UsageEach {
			c.tuning.Usage = inference.UsageOnce
		}
	}
	r.client.Tune(c.tuning)
}

// tries is how often a calibrating request is sent before the engine counts as
// unusable: an engine that fails now and then is still worth measuring. One that
// takes longer than patient to fail, as by a stream without an end, is asked
// once.
const (
	tries   = 5
	patient = 30 * time.Second
)

// calibrateTokens is how long the answers of calibration are: as long as the
// load's, and at least long enough to see a count rise more than once. A parser
// swallows the first tokens of a tool call: of vLLM's, 28 and then 15.
func (c *Config) calibrateTokens() int { return min(max(24, c.Data.OutputTokens), 64) }

// count asks the engine for the tokens of a prompt of so many words. A field
// that the engine refuses is dropped, and said.
func (r *run) count(ctx context.Context, c *calibration, words int) (int, error) {
	text := r.calibrationText(words)
	var failed *assay.Request // the one whose words are told
	var guessed []string      // fields dropped without being named
	for try := 0; try < tries; try++ {
		req, habits := r.ask(ctx, c, text)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if req.OK() || req.Error == assay.FailEmpty {
			c.add(req, habits, r.cfg.Backend)
			if len(guessed) > 0 {
				r.sayDropped(failed, r.restore(ctx, c, text, guessed)...)
			}
			return req.InputTokens, nil
		}
		field, named := "", false
		if req.Status == http.StatusBadRequest || req.Status == http.StatusUnprocessableEntity {
			field, named = r.refusedField(c, req.Detail)
		}
		if len(guessed) == 0 {
			failed = req
		}
		switch {
		case named:
			r.dropped[field] = true
			r.sayDropped(req, field)
			try-- // what it refused is not asked again, so this ends
			continue
		case field != "":
			r.dropped[field] = true
			guessed = append(guessed, field)
			try--
			continue
		}
		r.event(assay.EventWarning, "", fmt.Sprintf("a calibrating request failed: %s: %s", failed.Error, failed.Detail), nil)
		if req.Error == assay.FailRefused || req.Error == assay.FailHTTP4xx || time.Duration(req.End-req.Scheduled) > patient {
			break // it will not get better
		}
	}
	status := ""
	if failed.Status != 0 {
		status = fmt.Sprintf(" (HTTP %d)", failed.Status)
	}
	return 0, fmt.Errorf("%w: the first request to %s failed: %s%s: %s", ErrNothingMeasured, r.cfg.URL, failed.Error, status, failed.Detail)
}

// ask sends one calibrating request, with the load's own body.
func (r *run) ask(ctx context.Context, c *calibration, text string) (*assay.Request, inference.Habits) {
	c.asked++
	req := &assay.Request{ID: fmt.Sprintf("%scalibrate-%d", r.cfg.RequestIDs, c.asked), Scheduled: r.clock.Now()}
	r.client.Tune(r.asking(c))
	habits := r.client.Learn(ctx, &inference.Job{
		Prompt: text, MaxTokens: r.cfg.calibrateTokens(), Extra: r.body,
		IgnoreEOS: r.cfg.Sampling.IgnoreEOS && !r.dropped[fieldIgnoreEOS],
	}, req)
	return req, habits
}

// restore gives back the fields that were dropped on the way to the one that the
// engine refuses, the last of them, and returns those that stay dropped.
func (r *run) restore(ctx context.Context, c *calibration, text string, guessed []string) (dropped []string) {
	last := len(guessed) - 1
	dropped = []string{guessed[last]}
	for _, field := range slices.Backward(guessed[:last]) {
		delete(r.dropped, field)
		req, habits := r.ask(ctx, c, text)
		if req.OK() {
			c.add(req, habits, r.cfg.Backend)
			continue
		}
		r.dropped[field] = true
		dropped = append(dropped, field)
	}
	return dropped
}

// add takes what one answer told.
func (c *calibration) add(req *assay.Request, h inference.Habits, backend string) {
	c.requests++
	c.input += req.InputTokens
	c.output += req.OutputTokens
	c.habits.CountsEach = c.habits.CountsEach || h.CountsEach
	c.habits.Details = c.habits.Details || h.Details
	c.timed = c.timed || req.Engine != nil && req.Engine.EvalTokens > 0 && !isOllama(backend)
}

func isOllama(backend string) bool { return strings.HasPrefix(backend, "ollama") }

// refusedField is the optional field that a refusal names, or, not named, the
// next one to try without; empty when there is none left.
func (r *run) refusedField(c *calibration, words string) (field string, named bool) {
	asked, ollama := r.asking(c), isOllama(r.cfg.Backend)
	sent := map[string]bool{
		fieldIgnoreEOS: r.cfg.Sampling.IgnoreEOS && !ollama && !r.dropped[fieldIgnoreEOS],
		fieldTimings:   asked.TimingsPerToken,
		fieldEach:      asked.Usage == inference.UsageEach && !ollama,
		fieldUsage:     asked.Usage != inference.UsageNever && !ollama,
	}
	for _, f := range optional {
		switch {
		case !sent[f]:
		case strings.Contains(words, f):
			return f, true
		case field == "":
			field = f
		}
	}
	return field, false
}

func (r *run) sayDropped(req *assay.Request, fields ...string) {
	r.event(assay.EventWarning, "", fmt.Sprintf("the engine refused a request (HTTP %d: %s); it takes one without %s, which is left out from now on",
		req.Status, req.Detail, strings.Join(fields, " and ")), nil)
}

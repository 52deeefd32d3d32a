package hammer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/inference"
	"github.com/assay-bench/assay/internal/foreign"
)

// Bounds on a dataset: it is a local file, but not therefore a sane one.
const (
	maxDatasetBytes = 2 << 30
	maxPromptBytes  = 8 << 20
)

// How much of the data is counted to learn its tokens a character.
const (
	sampleTexts    = 64      // by /tokenize
	sampleRequests = 12      // by requests, where there is none
	sampleBytes    = 2 << 10 // of each such request
)

// vLLM's limits on what it takes of ShareGPT, in tokens.
const (
	shareGPTLeast, shareGPTPrompt, shareGPTBoth = 4, 1024, 2048

	// A text with more bytes than this for each token of a limit is beyond it.
	maxTokenBytes = 64
)

// row is what a dataset's file holds of one prompt.
type row struct {
	text   string
	output int    // tokens to ask for; 0: as many as the answer has
	answer string // where the length of the answer is the data's
}

// readRows reads a dataset's file, in the order that the seed decides.
func readRows(d Data, seed uint64) ([]row, error) {
	f, err := os.Open(d.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	read := readCustom
	if d.Kind == "sharegpt" {
		read = readShareGPT
	}
	rows, err := read(io.LimitReader(f, maxDatasetBytes), d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Path, err)
	}
	if d.Shuffle {
		rng := rand.New(rand.NewPCG(seed, 0))
		rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	}
	return rows, nil
}

// readCustom reads JSON lines with a "prompt", and optionally "output_tokens".
func readCustom(in io.Reader, d Data) ([]row, error) {
	var all []row
	s := bufio.NewScanner(in)
	s.Buffer(nil, maxPromptBytes)
	for n := 1; s.Scan(); n++ {
		if len(strings.TrimSpace(s.Text())) == 0 {
			continue
		}
		var line struct {
			Prompt string `json:"prompt"`
			Output int    `json:"output_tokens"`
		}
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if line.Prompt == "" {
			return nil, fmt.Errorf("line %d has no \"prompt\"", n)
		}
		out := d.OutputTokens
		if out < 1 {
			out = line.Output
		}
		if out < 1 {
			return nil, fmt.Errorf("line %d has no \"output_tokens\", and no length was given: use --output-len", n)
		}
		all = append(all, row{text: line.Prompt, output: out})
	}
	return all, s.Err()
}

// readShareGPT reads ShareGPT's array of conversations: the first turn is the
// prompt, the second one's length is that of the answer.
func readShareGPT(in io.Reader, d Data) ([]row, error) {
	dec := json.NewDecoder(in)
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return nil, fmt.Errorf("not a JSON array of conversations")
	}
	var all []row
	for n := 1; dec.More(); n++ {
		var line struct {
			Conversations []struct {
				Value string `json:"value"`
			} `json:"conversations"`
		}
		if err := dec.Decode(&line); err != nil {
			return nil, fmt.Errorf("conversation %d: %w", n, err)
		}
		if len(line.Conversations) < 2 {
			continue
		}
		r := row{text: line.Conversations[0].Value, output: d.OutputTokens}
		if r.output < 1 {
			r.answer = line.Conversations[1].Value
		}
		if r.text == "" || len(r.text) > shareGPTPrompt*maxTokenBytes || len(r.answer) > shareGPTBoth*maxTokenBytes {
			continue
		}
		all = append(all, r)
	}
	return all, nil
}

// fits reports whether the prompt is within the limits of its kind of data.
func (p prompt) fits(kind string, ownOutput bool) bool {
	if kind != "sharegpt" {
		return true
	}
	if ownOutput && p.output < shareGPTLeast {
		return false
	}
	return p.input >= shareGPTLeast && p.input <= shareGPTPrompt && p.input+p.output <= shareGPTBoth
}

// dataset reads the prompts of the file, with their lengths in the engine's
// tokens.
func (r *run) dataset(ctx context.Context, words ruler) (listed, error) {
	rows, err := readRows(r.cfg.Data, r.cfg.Seed)
	if err != nil {
		return listed{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, tokenizeTime)
	defer cancel()
	m, err := r.measureData(ctx, rows, words)
	if err != nil {
		return listed{}, err
	}
	if m.tok != nil {
		defer m.tok.close()
	}
	var l listed
	least, most := math.MaxInt, 0
	for _, row := range rows {
		p := prompt{text: row.text, input: m.scale.prompt(row.text), output: row.output}
		if p.output < 1 {
			p.output = m.scale.text(row.answer)
		}
		least, most = min(least, p.input), max(most, p.input)
		if p.fits(r.cfg.Data.Kind, row.output < 1) {
			l.all = append(l.all, p)
		}
	}
	if len(l.all) == 0 {
		if len(rows) == 0 {
			return listed{}, fmt.Errorf("%s: it holds no prompt", r.cfg.Data.Path)
		}
		return listed{}, fmt.Errorf("%s: none of its %d prompts can be used: they have %d to %d tokens, and are taken with %d to %d, at most %d with their answers",
			r.cfg.Data.Path, len(rows), least, most, shareGPTLeast, shareGPTPrompt, shareGPTBoth)
	}
	exact := r.countExactly(ctx, &l, m)
	r.sayLengths(m, len(l.all), exact)
	return l, nil
}

// dataLengths is how the data's lengths are known.
type dataLengths struct {
	scale scale
	tok   *tokenizer // nil: the engine has none
	how   string
	data  map[string]float64
}

// measureData learns the data's tokens a character from the engine: by its
// /tokenize, else by requests with a sample of the data.
func (r *run) measureData(ctx context.Context, rows []row, words ruler) (dataLengths, error) {
	tok, overhead, why := r.tokenizer(ctx, words)
	m := dataLengths{tok: tok, data: map[string]float64{}}
	var sample []counted
	var err error
	if tok != nil {
		sample, err = sampleBy(ctx, tok, rows)
		m.how = fmt.Sprintf("counted by the engine's /tokenize in a sample of %d texts of the data", len(sample))
		m.data["sampled_texts"] = float64(len(sample))
		if err != nil {
			why = err.Error()
			tok.close()
			m.tok, sample = nil, nil
		}
	}
	if m.tok == nil {
		overhead = max(0, words.overhead)
		sample, err = r.sampleByRequests(ctx, rows, overhead, m.data)
		if err != nil {
			return m, err
		}
		m.how = fmt.Sprintf("learned from the engine's usage for %d prompts of the data (%s)", len(sample), why)
	}
	var ok bool
	if m.scale, ok = fit(sample, overhead); !ok {
		m.scale = guessScale
		m.how = "a guess: the engine counts neither in usage nor by /tokenize"
	}
	return m, nil
}

// tokenizer opens the engine's, and finds what a prompt has beside its text: the
// difference between what it counts for a calibrating prompt and what usage said.
func (r *run) tokenizer(ctx context.Context, words ruler) (t *tokenizer, overhead float64, why string) {
	short, long := r.calibrationText(calibrateShort), r.calibrationText(calibrateLong)
	differ := 0.0
	if words != guess {
		differ = words.perWord * (calibrateLong - calibrateShort)
	}
	t, err := r.cfg.openTokenizer(ctx, short, long, differ)
	if err != nil {
		return nil, 0, err.Error()
	}
	if words == guess {
		return t, 0, ""
	}
	n, err := t.count(ctx, short)
	if err != nil {
		t.close()
		return nil, 0, err.Error()
	}
	return t, math.Round(words.overhead + words.perWord*calibrateShort - float64(n)), ""
}

// sampleBy has texts of the data counted, prompts and answers.
func sampleBy(ctx context.Context, t *tokenizer, rows []row) ([]counted, error) {
	var texts []string
	for _, i := range spreadOver(len(rows), sampleTexts) {
		texts = append(texts, rows[i].text)
		if a := rows[i].answer; a != "" {
			texts = append(texts, a)
		}
	}
	var out []counted
	err := t.each(ctx, texts, func(i, tokens int) {
		out = append(out, counted{lettersOf(texts[i]), float64(tokens)})
	})
	return out, err
}

// sampleByRequests sends prompts of the data, and takes what the engine says
// that they had. The first words are left out: what a prefix cache keeps of
// them must not be found by the load.
func (r *run) sampleByRequests(ctx context.Context, rows []row, overhead float64, data map[string]float64) ([]counted, error) {
	var texts []string
	for _, i := range spreadOver(len(rows), sampleRequests) {
		texts = append(texts, middle(rows[i].text, sampleBytes))
	}
	// A slow engine may have time for the short ones only.
	slices.SortFunc(texts, func(a, b string) int { return len(a) - len(b) })
	var out []counted
	for n, text := range texts {
		req := &assay.Request{ID: fmt.Sprintf("%scalibrate-data-%d", r.cfg.RequestIDs, n), Scheduled: r.clock.Now()}
		r.client.Do(ctx, &inference.Job{Prompt: text, MaxTokens: 1, Extra: r.body}, req)
		if ctx.Err() != nil {
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				break // what there is must do
			}
			return nil, ctx.Err()
		}
		if !req.OK() && req.Error != assay.FailEmpty {
			continue // too long for this engine, for example
		}
		data["requests"]++
		data["input_tokens"] += float64(req.InputTokens)
		data["output_tokens"] += float64(req.OutputTokens)
		if req.InputTokens > 0 {
			out = append(out, counted{lettersOf(text), max(1, float64(req.InputTokens)-overhead)})
		}
	}
	return out, nil
}

// middle leaves a text's beginning out, if it is long enough, and what is beyond
// so many bytes.
func middle(text string, most int) string {
	const skip = 16
	chars := []rune(text[:min(len(text), 2*most)])
	if len(chars) > 4*skip {
		chars = chars[skip:]
	}
	return foreign.Cut(string(chars), most)
}

// countExactly has the prompts counted that the run will use first, as many as
// may be asked about, and leaves out those that turn out not to fit.
func (r *run) countExactly(ctx context.Context, l *listed, m dataLengths) (exact int) {
	if m.tok == nil {
		return 0
	}
	first := l.all[:min(len(l.all), r.cfg.needs(), maxTokenizeCalls)]
	texts := make([]string, len(first))
	for i, p := range first {
		texts[i] = p.text
	}
	// What was not counted keeps its estimate.
	err := m.tok.each(ctx, texts, func(i, tokens int) {
		first[i].input = max(1, tokens+int(m.scale.overhead))
		exact++
	})
	if err != nil {
		r.event(assay.EventNote, "", fmt.Sprintf("after %d prompts the engine's /tokenize was not asked any more: %v", exact, err), nil)
	}
	kept := l.all[:0]
	for i, p := range l.all {
		if i >= len(first) || p.fits(r.cfg.Data.Kind, false) {
			kept = append(kept, p)
		}
	}
	if len(kept) > 0 { // else the estimates were better than nothing
		l.all = kept
	}
	return exact
}

// needs is how many prompts the run will use, as far as it can be known.
func (c *Config) needs() int {
	if c.Load.Requests < 1 || c.stageCount() < 1 {
		return maxTokenizeCalls
	}
	return c.stageCount() * (c.Load.Requests + c.Load.Warmups)
}

// sayLengths records how the lengths of the data are known.
func (r *run) sayLengths(m dataLengths, all, exact int) {
	text := fmt.Sprintf("tokens of the data: %.3f an ASCII character, %.3f another one, %.0f beside, %s", m.scale.ascii, m.scale.wide, m.scale.overhead, m.how)
	if exact > 0 {
		text = fmt.Sprintf("%d of %d prompts were counted one by one by the engine's /tokenize; ", exact, all) + text
	}
	m.data["tokens_per_ascii_character"], m.data["tokens_per_other_character"] = m.scale.ascii, m.scale.wide
	m.data["overhead_tokens"] = m.scale.overhead
	m.data["counted_prompts"], m.data["prompts"] = float64(exact), float64(all)
	r.event(assay.EventCalibrated, "", text, m.data)
}

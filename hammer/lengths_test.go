package hammer

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
)

// counter is an engine whose tokens are known: four ASCII characters or one
// other character make a token, and a prompt has seven more.
type counter struct {
	silent   bool             // it never says usage
	tokenize http.HandlerFunc // nil: it has none

	tokenized, asked atomic.Int64
}

const framing = 7

func tokensOf(text string) int {
	l := lettersOf(text)
	return int(math.Ceil(l.ascii/4) + l.wide)
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/models":
		fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
	case "/tokenize":
		c.tokenized.Add(1)
		if c.tokenize == nil {
			http.NotFound(w, r)
			return
		}
		c.tokenize(w, r)
	case "/v1/completions":
		c.asked.Add(1)
		var body struct {
			Prompt    string
			MaxTokens int `json:"max_tokens"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range body.MaxTokens {
			finish := "null"
			if i == body.MaxTokens-1 {
				finish = `"length"`
			}
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"text\":\" a\",\"finish_reason\":%s}]}\n\n", finish)
		}
		if !c.silent {
			n := tokensOf(body.Prompt) + framing
			fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\n", n, body.MaxTokens, n+body.MaxTokens)
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	default:
		http.NotFound(w, r)
	}
}

// vllmTokenize and llamaTokenize answer as those engines do.
func vllmTokenize(w http.ResponseWriter, r *http.Request) {
	var body struct{ Model, Prompt string }
	if json.NewDecoder(r.Body).Decode(&body) != nil || body.Prompt == "" {
		http.Error(w, `{"error":{"code":400}}`, http.StatusBadRequest)
		return
	}
	n := tokensOf(body.Prompt)
	fmt.Fprintf(w, `{"count":%d,"max_model_len":4096,"tokens":%s,"token_strs":null}`, n, list(n))
}

func llamaTokenize(w http.ResponseWriter, r *http.Request) {
	var body struct{ Content string }
	_ = json.NewDecoder(r.Body).Decode(&body) // nothing in it: no tokens
	fmt.Fprintf(w, `{"tokens":%s}`, list(tokensOf(body.Content)))
}

func list(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }

// mixture writes a dataset of Chinese, code and English, which words do not
// measure: Chinese has none, and code few.
func mixture(t *testing.T, kind string, n int) string {
	t.Helper()
	texts := []string{
		strings.Repeat("人工智能正在改变我们的生活方式", 4),
		strings.Repeat("for(i=0;i<n;i++){s+=a[i]*b[i];}", 5),
		strings.Repeat("the quick brown fox jumps over the lazy dog ", 6),
	}
	var b strings.Builder
	for i := range n {
		text := texts[i%3][:len(texts[i%3])-len("方式")*(i%5)] // whole characters in each
		if i%3 == 0 {
			text = texts[0][:len(texts[0])-len("方式")*(i%5)]
		}
		line, err := json.Marshal(map[string]any{"prompt": text, "output_tokens": 3})
		if kind == "sharegpt" {
			line, err = json.Marshal(map[string]any{"conversations": []map[string]string{{"value": text}, {"value": texts[(i+1)%3]}}})
		}
		if err != nil {
			t.Fatal(err)
		}
		if kind == "sharegpt" && i > 0 {
			b.WriteByte(',')
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	text := b.String()
	if kind == "sharegpt" {
		text = "[" + text + "]"
	}
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// dataRun measures the counting engine with a dataset.
func dataRun(t *testing.T, c *counter, kind, path string, requests int) (assay.Summary, []*assay.Request) {
	t.Helper()
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	cfg := short(s.URL, "openai")
	cfg.Model, cfg.Telemetry.Interval, cfg.Priority = "m", 0, ""
	cfg.Data = Data{Kind: kind, Path: path, Oversample: true}
	cfg.Sampling.IgnoreEOS = false
	cfg.Load = Load{Mode: ModeClosed, Concurrency: 2, Requests: requests, Grace: assay.Duration(5 * time.Second)}
	dir := filepath.Join(t.TempDir(), "run")
	sum, err := Run(t.Context(), cfg, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	rd, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []*assay.Request
	for q, err := range rd.Requests() {
		if err != nil {
			t.Fatal(err)
		}
		r := *q
		out = append(out, &r)
	}
	return sum, out
}

// Lengths of a dataset are the engine's own: by its /tokenize to the token, else
// by tokens a character that it counted in this very data. Neither Chinese nor
// code is refused, and the run says who counted and how far off it is.
func TestDataIsCountedByTheEngine(t *testing.T) {
	for _, c := range []struct {
		name   string
		engine *counter
		from   assay.LengthsFrom
		exact  bool
		off    float64 // that a prompt may be
	}{
		{"vLLM", &counter{tokenize: vllmTokenize}, assay.LengthsCounted, true, 0},
		{"llama.cpp", &counter{tokenize: llamaTokenize}, assay.LengthsCounted, true, 0},
		{"vLLM without usage", &counter{tokenize: vllmTokenize, silent: true}, assay.LengthsCounted, false, 0},
		{"usage only", &counter{}, assay.LengthsUsage, false, 0.05},
		{"nothing", &counter{silent: true}, assay.LengthsGuess, false, 1},
	} {
		for _, kind := range []string{"custom", "sharegpt"} {
			t.Run(c.name+" "+kind, func(t *testing.T) {
				c.engine.tokenized.Store(0)
				sum, requests := dataRun(t, c.engine, kind, mixture(t, kind, 90), 60)
				l := sum.Lengths
				if l == nil || l.From != c.from || l.Prompts != 90 {
					t.Fatalf("lengths %+v", l)
				}
				if c.exact && (l.Counted != 60 || l.Off != 0) {
					t.Errorf("lengths %+v", l)
				}
				if !(math.Abs(l.Off) <= c.off) {
					t.Errorf("asked and real lengths differ by %.1f %%", 100*l.Off)
				}
				for _, q := range requests {
					if c.exact && q.AskedInput != q.InputTokens {
						t.Errorf("a prompt of %d tokens was taken for %d", q.InputTokens, q.AskedInput)
					}
					// What is beside the text is known to a few tokens by usage.
					if q.InputTokens > 0 && !(math.Abs(float64(q.AskedInput-q.InputTokens)) <= c.off*float64(q.InputTokens)+4) {
						t.Errorf("a prompt of %d tokens was taken for %d", q.InputTokens, q.AskedInput)
					}
				}
				if n := c.engine.tokenized.Load(); n > 4+2*sampleTexts+60 {
					t.Errorf("%d texts were tokenized", n)
				}
			})
		}
	}
}

// A large dataset is not asked about prompt by prompt.
func TestTokenizeIsAskedWithinBounds(t *testing.T) {
	e := &counter{tokenize: vllmTokenize}
	sum, _ := dataRun(t, e, "custom", mixture(t, "custom", 20000), 1500)
	if n := e.tokenized.Load(); n > maxTokenizeCalls {
		t.Errorf("%d calls", n)
	}
	if l := sum.Lengths; l.Counted == 0 || l.Counted >= 1024 || l.Prompts != 20000 || !(math.Abs(l.Off) <= 0.01) {
		t.Errorf("lengths %+v", sum.Lengths)
	}
}

// What a /tokenize answers is believed only if it can be true.
func TestHostileTokenizeIsNotUsed(t *testing.T) {
	say := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	for name, h := range map[string]http.HandlerFunc{
		"count and list differ": say(`{"count":9,"tokens":[1,2]}`),
		"more than bytes":       say(`{"count":1000000000}`),
		"negative":              say(`{"count":-5}`),
		"the same for all":      say(`{"count":3,"tokens":[1,2,3]}`),
		"no JSON":               say(`<html>`),
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			for range 2 * maxTokenizeAnswer / 1024 {
				if _, err := w.Write([]byte(strings.Repeat(" ", 1024))); err != nil {
					return
				}
			}
		},
		"another model": func(w http.ResponseWriter, r *http.Request) {
			var body struct{ Prompt string }
			_ = json.NewDecoder(r.Body).Decode(&body)
			fmt.Fprintf(w, `{"count":%d}`, 2*tokensOf(body.Prompt))
		},
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery == "" {
				http.Redirect(w, r, "/tokenize?moved", http.StatusTemporaryRedirect)
				return
			}
			vllmTokenize(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			sum, _ := dataRun(t, &counter{tokenize: h}, "custom", mixture(t, "custom", 30), 10)
			if l := sum.Lengths; l == nil || l.From != assay.LengthsUsage || !(math.Abs(l.Off) <= 0.05) {
				t.Errorf("lengths %+v", l)
			}
		})
	}
}

// The scale tells kinds of characters apart where the data has both, and stays
// sane where it cannot.
func TestScaleOfCharacters(t *testing.T) {
	text := func(ascii, wide int) counted {
		return counted{letters{float64(ascii), float64(wide)}, float64(ascii)*0.25 + float64(wide)*0.9}
	}
	for name, c := range map[string]struct {
		sample      []counted
		ascii, wide float64
	}{
		"both":         {[]counted{text(100, 0), text(0, 50), text(40, 60)}, 0.25, 0.9},
		"ASCII alone":  {[]counted{text(100, 0), text(400, 0)}, 0.25, 0.25},
		"others alone": {[]counted{text(0, 100), text(0, 30)}, 0.9, 0.9},
		"one mixture":  {[]counted{text(50, 50), text(100, 100)}, 0.575, 0.575},
		"one text":     {[]counted{text(100, 100)}, 0.575, 0.575},
	} {
		s, ok := fit(c.sample, 5)
		if !ok || !(math.Abs(s.ascii-c.ascii) <= 1e-9) || !(math.Abs(s.wide-c.wide) <= 1e-9) || s.overhead != 5 {
			t.Errorf("%s: %+v %t", name, s, ok)
		}
	}
	if _, ok := fit(nil, 0); ok {
		t.Error("nothing has a scale")
	}
	if got := lettersOf("aé你\xff"); got != (letters{1, 3}) {
		t.Errorf("%+v", got)
	}
}

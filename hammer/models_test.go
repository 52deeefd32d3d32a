package hammer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

// lister is an engine that answers only what it is and serves.
func lister(t *testing.T, ollama bool, models ...string) string {
	t.Helper()
	mux := http.NewServeMux()
	var list []string
	for _, m := range models {
		list = append(list, fmt.Sprintf(`{"id":%q,"name":%q}`, m, m))
	}
	all := strings.Join(list, ",")
	if ollama {
		mux.HandleFunc("/api/version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"version":"0.9"}`) })
		mux.HandleFunc("/api/tags", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"models":[%s]}`, all) })
	}
	mux.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"data":[%s]}`, all) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// A model that the engine does not list is refused before anything is sent or
// written, with the names that it does serve.
func TestNoSuchModelNamesWhatIsServed(t *testing.T) {
	many := make([]string, 30)
	for i := range many {
		many[i] = fmt.Sprintf("m%02d", i)
	}
	full := make([]string, 1000)
	for i := range full {
		full[i] = fmt.Sprintf("m%d", i)
	}
	for _, c := range []struct {
		name   string
		ollama bool
		models []string
		model  string
		backed string
		want   []string // in the error; none: served
	}{
		{name: "vllm", models: []string{"base", "lora-a"}, model: "nosuch", want: []string{`"nosuch"`, "base, lora-a"}},
		{name: "an adapter", models: []string{"base", "lora-a"}, model: "lora-a"},
		{name: "another tag is another model", models: []string{"base:latest"}, model: "base", want: []string{"base:latest"}},
		{name: "ollama adds latest", ollama: true, models: []string{"tiny:latest"}, model: "tiny"},
		{name: "ollama leaves it out", ollama: true, models: []string{"tiny"}, model: "tiny:latest"},
		{name: "ollama, spoken to as openai", ollama: true, models: []string{"tiny:latest"}, model: "tiny", backed: "openai"},
		{name: "ollama's other tag", ollama: true, models: []string{"tiny:latest"}, model: "tiny:7b", want: []string{"tiny:latest"}},
		{name: "a long list", models: many, model: "nosuch", want: []string{"m19 and 10 more"}},
		{name: "a list that was cut", models: full, model: "nosuch"},
		{name: "an empty list", model: "anything"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{URL: lister(t, c.ollama, c.models...), Model: c.model, Backend: c.backed}
			err := Resolve(context.Background(), &cfg)
			if (err != nil) != (len(c.want) > 0) || err != nil && !errors.Is(err, ErrNoModel) {
				t.Fatalf("error %v", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q is not in %q", w, err)
				}
			}
			if cfg.Model != c.model {
				t.Errorf("the model became %q", cfg.Model)
			}
		})
	}
}

// A run whose engine was found, and not named, gets no key when it is resumed.
func TestResumeSendsNoKeyToAFoundEngine(t *testing.T) {
	for _, found := range []bool{false, true} {
		c := short("http://127.0.0.1:1", "openai")
		c.Found = found
		m := manifestOf(t, c)
		got, err := ConfigOf(m, Secrets{APIKey: "k"})
		if err != nil {
			t.Fatal(err)
		}
		if (got.APIKey == "") != found {
			t.Errorf("found %t: key %q", found, got.APIKey)
		}
	}
}

func manifestOf(t *testing.T, c Config) assay.Manifest {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return assay.Manifest{ID: "x", Config: b}
}

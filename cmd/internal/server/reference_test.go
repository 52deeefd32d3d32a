package server

import (
	"encoding/json"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/server/decide"
	"github.com/assay-bench/assay/network/trust/fingerprint"
)

// answers starts an engine of a model that is made of a word.
func answers(t *testing.T, word string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Model, Prompt string }
		if json.NewDecoder(r.Body).Decode(&q) != nil || q.Model != "made-up" || r.Header.Get("Authorization") != "Bearer sesame" {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		tokens := strings.Split(q.Prompt, " ")
		probs := make([]*float64, len(tokens))
		for i, token := range tokens[1:] {
			h := fnv.New32a()
			h.Write([]byte(token + word))
			v := -float64(h.Sum32()%1000) / 100
			probs[i+1] = &v
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"choices": []any{map[string]any{"logprobs": map[string]any{"tokens": tokens, "token_logprobs": probs}}}, "usage": map[string]any{"prompt_tokens": len(tokens)},
		})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestReference(t *testing.T) {
	dir := t.TempDir()
	file, key := filepath.Join(dir, "made-up.reference"), filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	honest, other := answers(t, "a"), answers(t, "b")
	call := func(code int, says string, args ...string) string {
		t.Helper()
		got, stdout, stderr := run(t, append([]string{"server", "reference"}, append(args, "--api-key-file", key)...)...)
		if got != code || !strings.Contains(stdout+stderr, says) {
			t.Fatalf("%q: exit %d: %s%s", args, got, stdout, stderr)
		}
		return stdout
	}
	call(0, "keep it secret", "make", "--url", honest, "--model", "made-up", "--out", file, "--prompts", "12", "--runs", "5")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", err, info)
	}
	call(0, "pass: ", "check", "--url", honest, file)
	call(2, "look at it", "check", "--url", other, file)
	var f fingerprint.Finding
	if err := json.Unmarshal([]byte(call(2, "", "check", "--url", other, file, "--format", "json")), &f); err != nil || !f.Differs {
		t.Errorf("%v, %+v", err, f)
	}
	call(2, "no log-probabilities", "check", "--url", honest, "--model", "another", file)
	call(2, "ask http", "check", "--url", "http://127.0.0.1:1", file)
	call(0, "second", "make", "--url", other, "--name", "second", "--runs", "5", "--add", file)
	call(0, "pass: ", "check", "--url", other, file)

	call(1, "there already", "make", "--url", honest, "--model", "made-up", "--out", file)
	call(1, "--out FILE", "make", "--url", honest, "--model", "made-up")
	call(1, "--model NAME", "make", "--url", honest, "--out", file+"2")
	call(1, "has its model", "make", "--url", honest, "--model", "x", "--add", file)
	call(1, "--url URL", "check", file)
	call(1, "no reference", "check", "--url", honest, key)
	for _, c := range []struct {
		files []string
		every time.Duration
		says  string
	}{
		{[]string{file}, time.Hour, ""},
		{[]string{file, file}, time.Hour, "are both of the model"},
		{[]string{file}, 0, "at least a second"},
		{[]string{key}, time.Hour, "--reference"},
	} {
		f := workFlags{references: c.files, compareEvery: c.every}
		var o decide.Options
		switch err := f.models(&o); {
		case c.says == "" && (err != nil || len(o.Models.References) != 1 || o.Models.Client == nil):
			t.Errorf("%v, %+v", err, o.Models)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%q: %v", c.says, err)
		}
	}
}

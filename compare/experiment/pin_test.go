package experiment

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHashPath(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	hash := func(path string) string {
		h, err := hashPath(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	put("m/a", "abc")
	// The SHA-256 of "abc", as FIPS 180 has it.
	if got := hash(filepath.Join(dir, "m/a")); got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Error(got)
	}
	one := hash(filepath.Join(dir, "m"))
	put("m/sub/b", "x")
	two := hash(filepath.Join(dir, "m"))
	put("m/sub/b", "y")
	three := hash(filepath.Join(dir, "m"))
	if err := os.Rename(filepath.Join(dir, "m/sub/b"), filepath.Join(dir, "m/sub/c")); err != nil {
		t.Fatal(err)
	}
	four := hash(filepath.Join(dir, "m"))
	if one == two || two == three || three == four {
		t.Error(one, two, three, four)
	}
}

func TestDiffers(t *testing.T) {
	must := map[string]string{"kind": "serve", "command": "a --fast", "version": "1", "env": "X=1"}
	with := func(k, v string) map[string]string {
		m := maps.Clone(must)
		delete(m, "version") // not known before it answers
		if v == "" {
			delete(m, k)
		} else {
			m[k] = v
		}
		return m
	}
	for _, tt := range []struct {
		is   map[string]string
		want string
	}{
		{with("kind", "serve"), ""},
		{with("command", "a --slow"), `command is "a --slow" and must be "a --fast"`},
		{with("env", ""), `env is gone and must be "X=1"`},
		{with("model_sha256", "new"), ""}, // nobody knew it then
		{map[string]string{"version": "2"}, `version is "2" and must be "1"`},
		{map[string]string{"version": "1", "backend": "openai"}, ""},
	} {
		err := differs("e", must, tt.is)
		if (err == nil) != (tt.want == "") || err != nil && (!errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v: %v, want %q", tt.is, err, tt.want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	gpu := 1
	x := &trial{
		cfg: Config{System: SystemConfig{GPUDevice: &gpu}, Benchmark: BenchmarkConfig{ModelPath: "m.gguf"}},
		opt: Options{Environ: []string{"PATH=/bin", "HOME=/home/x", "SECRET=s", "TOKEN=t"}},
	}
	e := EngineConfig{PassEnv: []string{"TOKEN", "NONE"}, Env: map[string]string{"A": "1"}, Serve: &ServeConfig{Env: map[string]string{"PORT": "{port}", "M": "{model_path}"}}}
	got := strings.Join(x.environment(e, x.fills(e, 81)), " ")
	if want := "A=1 CUDA_VISIBLE_DEVICES=1 HOME=/home/x M=m.gguf PATH=/bin PORT=81 TOKEN=t"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

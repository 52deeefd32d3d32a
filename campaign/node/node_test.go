package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestKeysDeriveFromMasterAndLabel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "master")
	m, err := OpenMaster(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := OpenMaster(path)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := m.PublicKey("i1-c1-1")
	b, _ := again.PublicKey("i1-c1-1")
	other, _ := m.PublicKey("i1-c1-2")
	if a != b || a == other || !strings.HasPrefix(a, "ssh-ed25519 ") {
		t.Errorf("%q, read again %q, of another label %q", a, b, other)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenMaster(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others read: %v", err)
	}
	if err := errors.Join(os.WriteFile(path, []byte("abc"), 0o600), os.Chmod(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenMaster(path); err == nil || !strings.Contains(err.Error(), "no master key") {
		t.Errorf("a file without a key: %v", err)
	}
}

// Workers that begin at once have one secret, and none meets half of a file.
func TestWorkersThatBeginAtOnceHaveOneSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master")
	var mu sync.Mutex
	keys := map[string]bool{}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			m, err := OpenMaster(path)
			if err != nil {
				t.Error(err)
				return
			}
			key, err := m.PublicKey("i1-c1-1")
			mu.Lock()
			defer mu.Unlock()
			if keys[key] = true; err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	files, err := os.ReadDir(filepath.Dir(path))
	if len(keys) != 1 || err != nil || len(files) != 1 {
		t.Errorf("%d keys, %d files, %v", len(keys), len(files), err)
	}
}

// A fixed secret gives a fixed key: a worker of the next release must find the
// machines of this one.
func TestKeyOfALabelStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master")
	if err := os.WriteFile(path, []byte(strings.Repeat("07", masterBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := OpenMaster(path)
	if err != nil {
		t.Fatal(err)
	}
	const want = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIyVvww/2ROhOR1VdqYOlOSVBH+YMZU6zPcgkkNZSuPf"
	if got, _ := m.PublicKey("i1-c1-1"); got != want {
		t.Errorf("%s", got)
	}
}

func TestGPUsAreParsed(t *testing.T) {
	got, err := parseGPUs([]byte("NVIDIA GeForce RTX 4090, GPU-1, 550.54.15, 24564, 24000\nNVIDIA GeForce RTX 4090, GPU-2, 550.54.15, 24564, 564\n"))
	if err != nil || len(got) != 2 || got[0].Name != "NVIDIA GeForce RTX 4090" || got[1].FreeMiB != 564 {
		t.Fatalf("%+v, %v", got, err)
	}
	m := Machine{GPUs: got}
	if m.FreeMiB() != 24564 || m.UsedMiB() != 24564 {
		t.Errorf("free %d, used %d", m.FreeMiB(), m.UsedMiB())
	}
	for text, want := range map[string]error{
		"":                             ErrNoGPU,
		"No devices were found\n":      ErrHostile,
		"RTX\x1b[2J, GPU-1, 1, 10, 5":  ErrHostile,
		"RTX, GPU-1, 1, [N/A], [N/A]":  ErrNoGPU,
		"RTX, GPU-1, 1, 10, 11":        ErrNoGPU,
		"RTX\u202e, GPU-1, 1, 10, 5\n": ErrHostile,
		strings.Repeat("RTX, GPU-1, 1, 10, 5\n", 65):         ErrNoGPU,
		strings.Repeat("x", 121) + ", GPU-1, 1, 10, 5":       ErrHostile,
		"RTX, GPU-1, 1, 99999999999999999999, 5":             ErrNoGPU,
		"RTX, GPU-1, 1, 10, 5\n\"RTX, GPU-1, 1, 10, 5\n\n\n": ErrHostile,
	} {
		if _, err := parseGPUs([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%.40q: %v, want %v", text, err, want)
		}
	}
}

func TestSizesAreOfARun(t *testing.T) {
	l := Limits{File: 100, Total: 150}
	got, err := parseSizes([]byte("90 regular file|run.json\n0 regular empty file|checks.jsonl\n"), l)
	if err != nil || len(got) != 2 || got[0] != (File{Name: "run.json", Size: 90}) {
		t.Fatalf("%+v, %v", got, err)
	}
	for text, why := range map[string]string{
		"1 regular file|../run.json":                               "no file of a run",
		"1 regular file|run.json\n1 regular file|/etc/passwd":      "no file of a run",
		"1 symbolic link|run.json":                                 "is a symbolic link",
		"1 fifo|run.json":                                          "is a fifo",
		"101 regular file|run.json":                                "at most 100",
		"90 regular file|run.json\n90 regular file|requests.jsonl": "at most 100 and 150",
		"-1 regular file|run.json":                                 "no file with its size",
		"9223372036854775808 regular file|run.json":                "no file with its size",
		"1 regular file|run.json\n1 regular file|run.json":         "listed twice",
		"1 regular file|\x1b]0;x\x07.json":                         "no file of a run",
		"run.json":                                                 "no file with its size",
		"1 regular file|requests.jsonl":                            "run.json is missing",
		"":                                                         "run.json is missing",
		"100 regular file|run.json\n50 regular file|events.jsonl\nx|y":  "no file with its size",
		"1 regular file|run.json\n1 regular file|node":                  "no file of a run",
		"1 directory|run.json":                                          "is a directory",
		"1 regular file|run.json\r":                                     "no file of a run",
		"9223372036854775807 regular file|run.json\n":                   "at most",
		"1 regular file|run.json\n9223372036854775807 regular file|run": "no file of a run",
	} {
		if _, err := parseSizes([]byte(text), l); err == nil || !strings.Contains(err.Error(), why) || strings.ContainsAny(err.Error(), "\x1b\x07\r") {
			t.Errorf("%q: %v, want %q", text, err, why)
		}
	}
}

func TestWatchdog(t *testing.T) {
	begin := time.Unix(1e9, 0)
	look := func(w *Watchdog, from, to int, rate float64, waiting bool) error {
		for s := from; s <= to; s += 10 {
			if err := w.See(begin.Add(time.Duration(s)*time.Second), rate, waiting); err != nil {
				return err
			}
		}
		return nil
	}
	steady := &Watchdog{}
	if err := look(steady, 0, 300, 100, true); err != nil || steady.Baseline != 100 {
		t.Errorf("a steady engine: %v, baseline %v", err, steady.Baseline)
	}
	if err := look(steady, 310, 360, 19, true); err != nil {
		t.Errorf("slow for less than a minute: %v", err)
	}
	if err := look(steady, 370, 380, 19, true); !errors.Is(err, ErrStuck) {
		t.Errorf("slow for a minute: %v", err)
	}
	again := &Watchdog{Baseline: 100} // a worker that goes on
	if err := look(again, 0, 50, 0, true); err != nil {
		t.Error(err)
	}
	if err := look(again, 60, 60, 0, true); !errors.Is(err, ErrStuck) {
		t.Errorf("what was learned before does not count: %v", err)
	}
	if err := look(&Watchdog{Baseline: 100}, 0, 600, 0, false); err != nil {
		t.Errorf("nothing was asked for: %v", err)
	}
	dips := &Watchdog{Baseline: 100}
	for s := 0; s < 600; s += 20 {
		if err := errors.Join(look(dips, s, s, 1, true), look(dips, s+10, s+10, 50, true)); err != nil {
			t.Fatalf("each dip is short: %v", err)
		}
	}
	if err := look(&Watchdog{}, 0, 110, 0, true); err != nil {
		t.Error(err)
	}
	if err := look(&Watchdog{}, 0, 120, 0, true); !errors.Is(err, ErrStuck) {
		t.Errorf("no token at all: %v", err)
	}
}

func TestLooksAreParsed(t *testing.T) {
	l, err := parseLook([]byte("running\n{\"t_ns\":5,\"output_tokens_per_second\":7}\n"))
	if err != nil || l.Ended || l.Checkpoint.At != 5 || l.Checkpoint.TokenRate != 7 {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := parseLook([]byte("3\n")); err != nil || !l.Ended || l.Exit != 3 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, bad := range []string{"", "0 0", "-1", "256", "running\n{", "running\n[]", "\x1b[0m"} {
		if _, err := parseLook([]byte(bad)); !errors.Is(err, ErrHostile) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestListed(t *testing.T) {
	ollama := []byte("NAME           ID     SIZE   MODIFIED\nqwen2:7b       abc    4 GB   now\nllama3:latest  def    4 GB   now\n")
	for model, want := range map[string]bool{"qwen2:7b": true, "llama3": true, "qwen2": false, "qwen2:72b": false, "NAME": false} {
		if got := listed(Ollama, ollama, model); got != want {
			t.Errorf("%s: %v", model, got)
		}
	}
	if !listed(VLLM, []byte(`{"data":[{"id":"a/b"}]}`), "a/b") || listed(VLLM, []byte(`{"data":[{"id":"a/b"}]}`), "b") || listed(VLLM, []byte("{"), "b") {
		t.Error("vLLM's list is read wrongly")
	}
}

func TestDeadManNeedsAnEnd(t *testing.T) {
	if got := DeadMan("", time.Minute); got != "" {
		t.Errorf("a script that ends nothing:\n%s", got)
	}
	if got := DeadMan("destroy me", time.Minute); !strings.Contains(got, "-lt 60 ] || { destroy me") || !strings.Contains(got, "while sleep 10;") {
		t.Error(got)
	}
}

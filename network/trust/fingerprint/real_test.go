package fingerprint

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/parttest"
)

var (
	update = flag.Bool("update", false, "write what TestRealNetworkFingerprintTableVLLM records into testdata")
	into   = flag.String("into", "", "a `file` that keeps what it records: what is in it is not recorded again")
)

// recorded is what TestRealNetworkFingerprintTableVLLM -update has left of its
// conditions: a few prompts and runs of each, as sources of one reference, with the
// model of .ci/parts/vllm-model.py on vLLM 0.32.
var recorded = filepath.Join("testdata", "tiny.reference.json")

func load(t *testing.T, path string) *Reference {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// only is a reference with some of its sources.
func (r *Reference) only(names ...string) *Reference {
	out := *r
	out.Sources = nil
	for _, name := range names {
		for _, s := range r.Sources {
			if s.Name == name {
				out.Sources = append(out.Sources, s)
			}
		}
	}
	return &out
}

// The vLLM that runs serves the model whose log-probabilities were recorded from
// another start of it, on another machine; and it is none of the models whose were
// recorded beside: other weights, fewer bits, a layer less.
func TestRealNetworkFingerprintVLLM(t *testing.T) {
	url := os.Getenv("ASSAY_VLLM_URL")
	if url == "" {
		parttest.Need(t, "ASSAY_VLLM_URL is not set: no vLLM runs")
	}
	e := &Engine{Client: &http.Client{Timeout: 5 * time.Minute}, URL: url, Model: "tiny"}
	all := load(t, recorded)
	for _, c := range []struct {
		source string
		pass   bool
	}{{same, true}, {"seed", false}, {"int4", false}, {"int8", false}, {"truncated", false}} {
		ref := all.only(c.source)
		if len(ref.Sources) != 1 {
			t.Fatalf("%s was not recorded", c.source)
		}
		f, err := Check(t.Context(), ref, e, len(ref.Prompts), 4)
		if err != nil {
			t.Fatal(err)
		}
		if (f.Verdict == assay.Pass) != c.pass || f.Differs == c.pass {
			t.Errorf("against %s: %s", c.source, f.Text)
		}
		t.Log(f.Verdict, f.Text)
	}
	// A reference that is made of it here has it pass too, whatever machine this is.
	own := New("tiny", Prompts([32]byte{48}, 16), time.Now())
	if err := own.Record(t.Context(), e, "here", MinRuns, time.Now(), func(int) {}); err != nil {
		t.Fatal(err)
	}
	f, err := Check(t.Context(), own, e, 16, 3)
	if err != nil || f.Verdict != assay.Pass {
		t.Errorf("%v, against its own: %s", err, f.Text)
	}
}

// same is the condition that the reference of the table is made of.
const same = "same"

// conditions are what is served in the table: honest deployments of one model, and
// what might be served in its place.
var conditions = []struct {
	name, variant string
	flags         []string
	honest        bool
}{
	{name: same, honest: true},
	{name: "restarted", honest: true},
	{name: "four at once", honest: true, flags: []string{"--max-num-seqs", "4"}},
	{name: "small chunks", honest: true, flags: []string{"--max-num-batched-tokens", "128", "--max-num-seqs", "64"}},
	{name: bfloat, honest: true, flags: []string{"--dtype", "bfloat16"}},
	{name: "bfloat16 restarted", honest: true, flags: []string{"--dtype", "bfloat16", "--max-num-seqs", "8"}},
	{name: "seed", variant: "seed"},
	{name: "truncated", variant: "truncated"},
	{name: "int4", variant: "int4"},
	{name: "int8", variant: "int8"},
	{name: "noise 1e-2", variant: "noise-1e-2"},
	{name: "noise 1e-3", variant: "noise-1e-3"},
	{name: "int8 in bfloat16", variant: "int8", flags: []string{"--dtype", "bfloat16"}},
	{name: "int4 in bfloat16", variant: "int4", flags: []string{"--dtype", "bfloat16"}},
}

const bfloat = "bfloat16"

// Table of docs/benchmarks.md: each condition is served by a vLLM of its own and
// recorded, and checks are drawn from that. It starts an engine fourteen times.
func TestRealNetworkFingerprintTableVLLM(t *testing.T) {
	if os.Getenv("ASSAY_LONG") != "1" {
		t.Skip("it starts vLLM fourteen times: ASSAY_LONG=1")
	}
	all := measured(t)
	if *update {
		keep(t, all)
	}
	for _, refs := range [][]string{{same}, {same, bfloat}} {
		ref := all.only(refs...)
		for _, c := range conditions {
			row := judged(ref, all.only(c.name).Sources[0])
			parttest.Figure(t, "reference %v, served %s (honest: %t): distance %.2g to %.2g, limit %.2g to %.2g, %d of %d checks differ, %d runs of %d do always",
				refs, c.name, c.honest, row.near, row.far, row.least, row.most, row.differ, row.checks, row.always, row.runs)
			recorded := len(refs) > 1 || !slices.Contains(c.flags, bfloat) // as a deployment of this kind
			if c.honest && recorded && row.differ > 0 {
				t.Errorf("%s is honest, and called different", c.name)
			}
			if slices.Contains([]string{"seed", "truncated", "int4"}, c.variant) && row.differ < row.checks {
				t.Errorf("%s is missed", c.name)
			}
		}
	}
}

type row struct {
	near, far, least, most       float64
	checks, differ, runs, always int
}

// draws is how many checks are drawn from one recorded run. They share its noise, and
// differ in their prompts.
const draws = 25

// judged draws checks from a condition's runs. A run that the reference has itself is
// judged by the reference without it.
func judged(ref *Reference, served Source) row {
	rng := rand.New(rand.NewPCG(48, 48))
	out := row{near: 1e9, least: 1e9}
	for i := range served.Runs {
		against := *ref
		against.Sources = nil
		for _, s := range ref.Sources {
			if s.Name == served.Name {
				s.Runs = append(append([]Run{}, s.Runs[:i]...), s.Runs[i+1:]...)
			}
			against.Sources = append(against.Sources, s)
		}
		differ := 0
		for range draws {
			var answers []Answer
			for _, p := range rng.Perm(len(ref.Prompts))[:min(DefaultPrompts, len(ref.Prompts))] {
				answers = append(answers, Answer{Prompt: p, Tokens: ref.Prompts[p].Tokens, LogProbs: served.Runs[i].LogProbs[p]})
			}
			f := Judge(&against, answers)
			if f.Differs {
				differ++
			}
			out.near, out.far = min(out.near, f.Distance.Est), max(out.far, f.Distance.Est)
			out.least, out.most = min(out.least, f.Limit), max(out.most, f.Limit)
		}
		out.runs, out.checks, out.differ = out.runs+1, out.checks+draws, out.differ+differ
		if differ == draws {
			out.always++
		}
	}
	return out
}

// measured serves each condition and records it.
func measured(t *testing.T) *Reference {
	t.Helper()
	path := *into
	all := New("tiny", Prompts([32]byte{4, 8}, 48), time.Now())
	if _, err := os.Stat(path); err == nil {
		all = load(t, path)
	}
	for _, c := range conditions {
		if len(all.only(c.name).Sources) == 1 {
			continue
		}
		vllm := parttest.Install(t, "vllm")
		began := time.Now()
		record(t, all, vllm, c.name, c.variant, c.flags)
		t.Logf("%s was recorded in %s", c.name, time.Since(began).Round(time.Second))
		if path != "" {
			save(t, path, all)
		}
	}
	return all
}

func record(t *testing.T, all *Reference, vllm, name, variant string, flags []string) {
	t.Helper()
	dir := t.TempDir()
	serve := filepath.Join(parttest.Scripts(t), "vllm-serve")
	args := []string{"start", filepath.Join(dir, "server"), "0"}
	if variant != "" {
		model := filepath.Join(dir, "model")
		parttest.Run(t, nil, filepath.Join(vllm, "bin", "python"), filepath.Join(parttest.Scripts(t), "vllm-variant.py"), filepath.Join(vllm, "model")+"/", model, variant)
		args = append(args, "--model", model)
	}
	defer parttest.Run(t, nil, serve, "stop", filepath.Join(dir, "server"))
	url := parttest.Run(t, nil, serve, append(args, flags...)...)
	e := &Engine{Client: &http.Client{Timeout: 5 * time.Minute}, URL: url, Model: "tiny"}
	if err := all.Record(t.Context(), e, name, 6, time.Now(), func(int) {}); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", name, err))
	}
}

// keep leaves a little of what was recorded for the tests of every run.
func keep(t *testing.T, all *Reference) {
	t.Helper()
	const prompts, runs = 12, 5
	out := all.only(same, bfloat, "seed", "truncated", "int4", "int8")
	out.Prompts = out.Prompts[:prompts]
	for i := range out.Sources {
		s := &out.Sources[i]
		s.Runs = append([]Run{}, s.Runs[:runs]...)
		for j := range s.Runs {
			s.Runs[j].LogProbs = s.Runs[j].LogProbs[:prompts]
		}
	}
	save(t, recorded, out)
}

func save(t *testing.T, path string, r *Reference) {
	t.Helper()
	b, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(path, append(b, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/internal/foreign"
)

// SamplesFormat names the format of raw_data/<engine>.json.
const SamplesFormat = "assay/samples/v1"

// The files that an experiment's evidence is in.
const (
	ExperimentFile = "experiment.json"
	RawDir         = "raw_data"
)

// What a reader takes at most. An experiment of five engines, two workloads and
// twenty rounds has two hundred samples.
const (
	maxEngines   = 64
	maxWorkloads = 64
	maxPairs     = 2_000 // of engines, over all workloads
	maxSamples   = 20_000
	maxRounds    = 1_000
	maxName      = 200
	maxFile      = 256 << 20
	maxPackages  = 10_000
)

// ErrExperiment is a directory whose evidence is not of the format. What is
// wrong with which file is in the error that wraps it.
var ErrExperiment = errors.New("not an experiment that can be read")

type rawFile struct {
	Format  string   `json:"format"`
	Engine  string   `json:"engine"`
	Samples []Sample `json:"samples"`
}

// WriteExperiment writes experiment.json and raw_data, each file replaced as a
// whole, the samples first: an experiment that is read in between has runs that
// it has heard of, at most one too many.
func WriteExperiment(dir string, e Experiment) error {
	if e.Format == "" {
		e.Format = ExperimentFormat
	}
	if _, err := directory(dir, RawDir); err != nil {
		return err
	}
	for i, name := range fileNames(e.Engines) {
		f := rawFile{Format: SamplesFormat, Engine: e.Engines[i].Name, Samples: []Sample{}}
		for _, s := range e.Samples {
			if s.Engine == f.Engine {
				f.Samples = append(f.Samples, s)
			}
		}
		if err := replaceJSON(filepath.Join(dir, RawDir, name+".json"), f); err != nil {
			return err
		}
	}
	return replaceJSON(filepath.Join(dir, ExperimentFile), e)
}

// ReadExperiment reads what WriteExperiment writes. It trusts none of it: sizes
// are bounded, figures are finite, and every sample is of a named engine and
// workload.
func ReadExperiment(dir string) (Experiment, error) {
	var e Experiment
	if err := readJSON(filepath.Join(dir, ExperimentFile), &e); err != nil {
		return e, err
	}
	if e.Format != ExperimentFormat {
		return e, fmt.Errorf("%w: %s has the format %q, and this version reads %s", ErrExperiment, ExperimentFile, clipName(e.Format), ExperimentFormat)
	}
	for i, name := range fileNames(e.Engines) {
		if i == maxEngines {
			break // refused below
		}
		path := filepath.Join(dir, RawDir, name+".json")
		var f rawFile
		err := readJSON(path, &f)
		if errors.Is(err, os.ErrNotExist) {
			continue // interrupted before its first run
		}
		if err != nil {
			return e, err
		}
		if f.Format != SamplesFormat || f.Engine != e.Engines[i].Name {
			return e, fmt.Errorf("%w: %s is not the samples of %q in the format %s", ErrExperiment, path, clipName(e.Engines[i].Name), SamplesFormat)
		}
		for _, s := range f.Samples {
			if s.Engine != f.Engine {
				return e, fmt.Errorf("%w: %s has a sample of %q", ErrExperiment, path, clipName(s.Engine))
			}
		}
		e.Samples = append(e.Samples, f.Samples...)
	}
	if err := e.check(); err != nil {
		return e, fmt.Errorf("%w: %w", ErrExperiment, err)
	}
	return e, nil
}

// ReadLocks gives the locks of the engines of an earlier experiment, by name, from
// its experiment.json.
func ReadLocks(file string) (map[string]map[string]string, error) {
	var e struct {
		Format  string
		Engines []Engine
	}
	if err := readJSON(file, &e); err != nil {
		return nil, fmt.Errorf("the locked experiment: %w", err)
	}
	if e.Format != ExperimentFormat {
		return nil, fmt.Errorf("the locked experiment %s: its format is %q, not %s", file, clipName(e.Format), ExperimentFormat)
	}
	locks := map[string]map[string]string{}
	for _, x := range e.Engines {
		locks[x.Name] = x.Lock
	}
	return locks, nil
}

// check refuses what an analysis cannot be made of.
func (e *Experiment) check() error {
	if n := len(e.Engines); n == 0 || n > maxEngines {
		return fmt.Errorf("%d engines; 1 to %d can be read", n, maxEngines)
	}
	if n := len(e.Workloads); n == 0 || n > maxWorkloads {
		return fmt.Errorf("%d workloads; 1 to %d can be read", n, maxWorkloads)
	}
	if n := len(e.Engines); n*(n-1)/2*len(e.Workloads) > maxPairs {
		return fmt.Errorf("%d engines on %d workloads are more than %d pairs to compare", n, len(e.Workloads), maxPairs)
	}
	if n := len(e.Samples); n > maxSamples {
		return fmt.Errorf("%d samples; at most %d can be read", n, maxSamples)
	}
	var engines []string
	for _, x := range e.Engines {
		engines = append(engines, x.Name)
	}
	for _, list := range [][]string{engines, e.Workloads} {
		for i, name := range list {
			if name == "" || len(name) > maxName || slices.Contains(list[:i], name) {
				return fmt.Errorf("the name %q is empty, too long or there twice", clipName(name))
			}
		}
	}
	if len(e.Loads) > maxWorkloads || slices.ContainsFunc(e.Loads, func(l Load) bool { return !slices.Contains(e.Workloads, l.Workload) }) {
		return errors.New("loads of workloads that are not there")
	}
	if slices.ContainsFunc(e.Engines, func(x Engine) bool { return len(x.Packages) > maxPackages }) {
		return fmt.Errorf("an engine with over %d packages", maxPackages)
	}
	if e.Plan.Rounds < 0 || e.Plan.Rounds > 1_000_000 || e.Plan.Looks < 0 || e.Plan.Looks > 100 {
		return fmt.Errorf("a plan of %d rounds with %d looks", e.Plan.Rounds, e.Plan.Looks)
	}
	type place struct {
		engine, workload string
		round, order     int
	}
	seen := map[place]bool{}
	for _, s := range e.Samples {
		at := place{s.Engine, s.Workload, s.Round, 0}
		if s.Round == 0 {
			at.order = s.Order // a pilot may pass several times
		}
		switch {
		case !slices.Contains(engines, s.Engine) || !slices.Contains(e.Workloads, s.Workload):
			return fmt.Errorf("a sample of %q on %q, of which one is not in %s", clipName(s.Engine), clipName(s.Workload), ExperimentFile)
		case s.Round < 0 || s.Round > maxRounds:
			return fmt.Errorf("round %d; 0 to %d can be read", s.Round, maxRounds)
		case seen[at]:
			return fmt.Errorf("%s on %s has two samples of round %d", s.Engine, s.Workload, s.Round)
		case s.Requests < 0 || s.OK < 0 || s.OK > s.Requests || s.Cases < 0:
			return fmt.Errorf("%s on %s, round %d: %d of %d requests succeeded", s.Engine, s.Workload, s.Round, s.OK, s.Requests)
		case !(s.OutputTokens >= 0) || !(s.InputTokens >= 0) || math.IsInf(s.OutputTokens+s.InputTokens, 0):
			return fmt.Errorf("%s on %s, round %d: token counts that are none", s.Engine, s.Workload, s.Round)
		}
		seen[at] = true
		for name, v := range s.Metrics {
			// JSON has no infinities, but a sample may come from elsewhere.
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				return fmt.Errorf("%s on %s, round %d: %s is %v", s.Engine, s.Workload, s.Round, clipName(name), v)
			}
		}
		if err := s.checkExtras(); err != nil {
			return fmt.Errorf("%s on %s, round %d: %w", s.Engine, s.Workload, s.Round, err)
		}
	}
	return nil
}

// fileNames are the names of engines made fit for files, in their order.
func fileNames(engines []Engine) []string {
	seen := map[string]bool{}
	out := make([]string, len(engines))
	for i, e := range engines {
		base := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
				return r
			}
			return '_'
		}, clipName(e.Name))
		if base == "" || base[0] == '.' {
			base = "_" + strings.TrimPrefix(base, ".")
		}
		name := base
		// Some file systems do not tell A from a.
		for n := 2; seen[strings.ToLower(name)]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		seen[strings.ToLower(name)] = true
		out[i] = name
	}
	return out
}

// maxShownName bounds a name that is not ours, in bytes.
const maxShownName = 100

func clipName(s string) string { return foreign.Line(s, maxShownName) }

func readJSON(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the experiment: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return fmt.Errorf("read the experiment: %w", err)
	}
	if len(b) > maxFile {
		return fmt.Errorf("%w: %s is larger than %d MiB", ErrExperiment, path, maxFile>>20)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrExperiment, path, err)
	}
	return nil
}

// encode writes JSON as people read it, one value and a newline, without
// escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func replaceJSON(path string, v any) error {
	b, err := encode(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	return replace(path, b)
}

// replace writes a file so that it is there as a whole or as it was.
func replace(path string, b []byte) error {
	return disk.Replace(path, 0o644, disk.Bytes(b))
}

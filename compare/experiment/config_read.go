package experiment

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/internal/yamltext"
)

// maxConfig bounds the file.
const maxConfig = 4 << 20

// ReadConfig reads an experiment's YAML and fills in what is not said. Everything
// that is wrong with it is told at once, each with its line and column.
func ReadConfig(r io.Reader, name string) (Config, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err != nil {
		return Config{}, fmt.Errorf("read %s: %w", name, err)
	}
	if len(b) > maxConfig {
		return Config{}, fmt.Errorf("read %s: it is longer than %d bytes", name, maxConfig)
	}
	var c Config
	file, err := yamltext.Decode(b, &c)
	if err != nil {
		return Config{}, fmt.Errorf("read %s: %w", name, err)
	}
	var errs []error
	for _, f := range c.faults() {
		if line, column, ok := position(file, f.path); ok {
			errs = append(errs, fmt.Errorf("%s:%d:%d: %s", name, line, column, f.text))
		} else {
			errs = append(errs, fmt.Errorf("%s: %s", name, f.text))
		}
	}
	if len(errs) > 0 {
		return Config{}, errors.Join(errs...)
	}
	c.fill()
	return c, nil
}

// position finds where a path such as engines[1].name stands; where it does not,
// its parent's place is given.
func position(file *ast.File, path string) (line, column int, ok bool) {
	for ; path != ""; path = parentPath(path) {
		p, err := yaml.PathString("$." + path)
		if err != nil {
			continue
		}
		node, err := p.FilterFile(file)
		if err != nil || node == nil {
			continue
		}
		at := node.GetToken()
		if m, isMap := node.(*ast.MappingNode); isMap && len(m.Values) > 0 {
			at = m.Values[0].Key.GetToken()
		}
		if at == nil || at.Position == nil {
			continue
		}
		return at.Position.Line, at.Position.Column, true
	}
	return 0, 0, false
}

func parentPath(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// fill puts in what is not said. It keeps what is.
func (c *Config) fill() {
	if c.Benchmark.Name == "" {
		c.Benchmark.Name = "comparison"
	}
	for i := range c.Engines {
		e := &c.Engines[i]
		orTrue(&e.Enabled)
		if s := e.Serve; s != nil {
			orDuration(&s.ReadyTimeout, 5*time.Minute)
			orDuration(&s.Grace, 10*time.Second)
		}
	}
	for i := range c.Workloads {
		w := &c.Workloads[i]
		orTrue(&w.IgnoreEOS)
		or(&w.Connection, string(hammer.ConnectionKeep))
		orDuration(&w.Timeout, 30*time.Minute)
		if w.Concurrency == 0 && w.RequestRate == 0 {
			w.Concurrency = 1
		}
	}
	a := &c.Analysis
	byTable := func(key string) string { return compare.AnalysisKeyOf(key).Default }
	if level, err := strconv.ParseFloat(byTable("confidence_level"), 64); err == nil { // tested
		or(&a.ConfidenceLevel, level)
	}
	or(&a.SignificanceTest, byTable("significance_test"))
	or(&a.Adjust, byTable("adjust"))
	orBool(&a.GeneratePlots, byTable("generate_plots") == "true")
	orBool(&a.ExportRawData, byTable("export_raw_data") == "true")
	if len(a.Prices) > 0 {
		or(&a.Currency, byTable("currency"))
	}
	s := &c.System
	if s.CoolDownSeconds == nil {
		s.CoolDownSeconds = new(float64)
		*s.CoolDownSeconds = 5
	}
	or(&s.CoolDownTolerance, 5)
	or(&s.CoolDownLoad, 0.1)
	orDuration(&s.CoolDownTimeout, 2*time.Minute)
	or(&c.Monitoring.SampleIntervalMS, 100)
	orTrue(&c.Monitoring.GPUMetrics)
	orTrue(&c.Monitoring.MemoryTracking)
	orTrue(&c.Monitoring.PowerMonitoring)
	orTrue(&c.Monitoring.HardwareCounters)
	x := &c.Experiment
	or(&x.MaxRounds, max(100, x.Rounds))
	if x.Pilot == nil {
		x.Pilot = new(int)
		*x.Pilot = 3
	}
	or(&x.Effect, 0.05)
	or(&x.Level, round9(1-a.ConfidenceLevel))
	or(&x.Power, 0.9)
	or(&x.PrimaryMetric, "e2e_ms_mean")
	or(&x.Seed, 1)
	or(&x.Looks, 1)
}

// round9 takes away what 1 − 0.95 leaves in the last binary places.
func round9(f float64) float64 { return float64(int64(f*1e9+0.5)) / 1e9 }

func or[T comparable](v *T, instead T) {
	var zero T
	if *v == zero {
		*v = instead
	}
}

func orTrue(v **bool) { orBool(v, true) }

func orBool(v **bool, instead bool) {
	if *v == nil {
		*v = &instead
	}
}

func orDuration(v *assay.Duration, instead time.Duration) { or(v, assay.Duration(instead)) }

// Pick keeps the engines that are named and turns the others off; a name that is
// not there is an error. An engine that the file turns off is turned on by name.
func (c *Config) Pick(names []string) error {
	for _, n := range names {
		if !slices.ContainsFunc(c.Engines, func(e EngineConfig) bool { return e.Name == n }) {
			var known []string
			for _, e := range c.Engines {
				known = append(known, e.Name)
			}
			return fmt.Errorf("there is no engine %q; the file has %s", n, strings.Join(known, ", "))
		}
	}
	engines := slices.Clone(c.Engines)
	for i := range engines {
		on := slices.Contains(names, engines[i].Name)
		engines[i].Enabled = &on
	}
	c.Engines = engines
	return nil
}

// enabled are the engines that take part.
func (c Config) enabled() []EngineConfig {
	return slices.DeleteFunc(slices.Clone(c.Engines), func(e EngineConfig) bool { return !e.On() })
}

// clone is a configuration that shares nothing with the caller's.
func (c Config) clone() (Config, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return c, fmt.Errorf("encode the configuration: %w", err)
	}
	var out Config
	if err := json.Unmarshal(b, &out); err != nil {
		return c, fmt.Errorf("decode the configuration: %w", err)
	}
	return out, nil
}

// encoded is the resolved configuration as experiment.json keeps it, for people
// without escapes for HTML, and the hash of its JSON, which has them.
func (c Config) encoded() (text []byte, hash string, err error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, "", fmt.Errorf("encode the configuration: %w", err)
	}
	sum := sha256.Sum256(b)
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(c); err != nil {
		return nil, "", fmt.Errorf("encode the configuration: %w", err)
	}
	return plain.Bytes(), hex.EncodeToString(sum[:]), nil
}

// ask is what the analysis is told.
func (c Config) ask() (compare.AnalysisAsk, error) {
	a := c.Analysis
	out := compare.AnalysisAsk{
		Confidence: a.ConfidenceLevel, RemoveOutliers: a.RemoveOutliers, Threshold: a.OutlierThreshold,
		Test: a.SignificanceTest, Plots: *a.GeneratePlots, Raw: *a.ExportRawData,
	}
	for engine, price := range a.Prices {
		m, err := assay.ParseMoney(price, a.Currency)
		if err != nil {
			return out, fmt.Errorf("price of %s: %w", engine, err)
		}
		if out.Prices == nil {
			out.Prices = map[string]assay.Money{}
		}
		if engine == "default" {
			engine = ""
		}
		out.Prices[engine] = m
	}
	for _, s := range a.SLO {
		o, err := assay.ParseObjective(s)
		if err != nil {
			return out, err
		}
		out.SLO = append(out.SLO, o)
	}
	return out, nil
}

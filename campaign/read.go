package campaign

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/internal/yamltext"
)

// Bounds of a matrix.
const (
	maxMatrixBytes = 1 << 20
	maxGroups      = 1000
	maxList        = 1000 // names in one list
	maxCells       = 10_000
	maxName        = 200
	maxModels      = 1000
	maxFaults      = 20
	maxGPUs        = 16
	maxDuration    = 24 * time.Hour
	maxDiskGB      = 10_000
	maxAttempts    = 20
	maxContext     = 10_000_000
	maxParallel    = 10_000
)

// amount is money as it is written: it must not become a float on the way.
type amount string

// UnmarshalYAML takes the text of a number.
func (a *amount) UnmarshalYAML(b []byte) error {
	var s string
	if err := yaml.Unmarshal(b, &s); err != nil {
		return err
	}
	*a = amount(s)
	return nil
}

// matrixFile is the file as it is written.
type matrixFile struct {
	Format   string `yaml:"format"`
	Name     string `yaml:"name"`
	Currency string `yaml:"currency"`
	Budget   struct {
		Campaign amount `yaml:"campaign"`
		Cell     amount `yaml:"cell"`
		Day      amount `yaml:"day"`
	} `yaml:"budget"`
	Context  *int           `yaml:"context"`
	Parallel *int           `yaml:"parallel"`
	KVCache  string         `yaml:"kv_cache"`
	Duration assay.Duration `yaml:"duration"`
	DiskGB   *int           `yaml:"disk_gb"`
	Attempts *int           `yaml:"attempts"`
	MaxHour  amount         `yaml:"max_price_per_hour"`
	Limits   limitsFile     `yaml:"limits"`
	Expect   limitsFile     `yaml:"expect"`
	Cells    []groupFile    `yaml:"cells"`
	Models   []modelFile    `yaml:"models"`
}

type limitsFile struct {
	Provision assay.Duration `yaml:"provision"`
	Setup     assay.Duration `yaml:"setup"`
	Load      assay.Duration `yaml:"load"`
	Benchmark assay.Duration `yaml:"benchmark"`
	Collect   assay.Duration `yaml:"collect"`
	End       assay.Duration `yaml:"end"`
}

type groupFile struct {
	GPUs      []string `yaml:"gpus"`
	Providers []string `yaml:"providers"`
	Models    []string `yaml:"models"`
	Engines   []string `yaml:"engines"`
	Count     *int     `yaml:"gpu_count"`
	VRAM      float64  `yaml:"vram_gib"`
}

type modelFile struct {
	Name         string  `yaml:"name"`
	Parameters   float64 `yaml:"parameters"`
	Quantization string  `yaml:"quantization"`
	Layers       int     `yaml:"layers"`
	KVHeads      int     `yaml:"kv_heads"`
	HeadDim      int     `yaml:"head_dim"`
	Hidden       int     `yaml:"hidden"`
	Vocab        int     `yaml:"vocab"`
	Tied         bool    `yaml:"tied"`
}

// ReadMatrix reads a matrix. Everything that is wrong with it is told at once, each
// fault as FILE:LINE:COLUMN with the line and a caret.
func ReadMatrix(r io.Reader, name string) (Matrix, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxMatrixBytes+1))
	if err != nil {
		return Matrix{}, fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > maxMatrixBytes {
		return Matrix{}, fmt.Errorf("read %s: it is longer than %d bytes, which no matrix is", name, maxMatrixBytes)
	}
	var in matrixFile
	tree, err := yamltext.Decode(text, &in)
	if err != nil {
		return Matrix{}, fmt.Errorf("read %s: %w", name, err)
	}
	c := &reading{name: name, text: text, tree: tree}
	m := Matrix{Name: in.Name, Currency: in.Currency}
	if m.Name == "" {
		m.Name = strings.TrimSuffix(path.Base(name), path.Ext(name))
	}
	if m.Currency == "" {
		m.Currency = "USD"
	}
	c.check("format", in.Format == MatrixFormat, "it must be %s", MatrixFormat)
	c.check("name", named(m.Name), "a name has 1 to %d bytes without control characters", maxName)
	c.check("currency", currency.MatchString(m.Currency), "write three capital letters, as USD")
	c.settings(&m, in)
	c.groups(&m, in.Cells)
	c.models(&m, in.Models)
	if err := c.err(); err != nil {
		return Matrix{}, err
	}
	cells := 0
	for _, g := range m.Groups {
		cells += len(g.GPUs) * len(g.Providers) * len(g.Models) * len(g.Engines)
	}
	c.check("cells", cells <= maxCells, "it expands to %d cells; %d are the most", cells, maxCells)
	if c.err() == nil {
		c.twice(m)
	}
	return m, c.err()
}

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

func named(s string) bool {
	return s != "" && len(s) <= maxName && foreign.Plain(s) && strings.TrimSpace(s) == s
}

// reading is a file under way to a matrix.
type reading struct {
	name   string
	text   []byte
	tree   *ast.File
	faults []error
}

func (c *reading) check(path string, ok bool, format string, args ...any) {
	if ok || len(c.faults) >= maxFaults {
		return
	}
	text := fmt.Sprintf(format, args...)
	line, column := yamltext.Position(c.tree, path)
	if line == 0 {
		c.faults = append(c.faults, fmt.Errorf("%s: %s: %s", c.name, path, text))
		return
	}
	c.faults = append(c.faults, fmt.Errorf("%s:%d:%d: %s: %s\n%s", c.name, line, column, path, text, yamltext.Caret(c.text, line, column)))
}

func (c *reading) err() error { return errors.Join(c.faults...) }

// money reads an amount that may be missing.
func (c *reading) money(path string, a amount, currency string) *assay.Money {
	if a == "" {
		return nil
	}
	m, err := assay.ParseMoney(string(a), currency)
	c.check(path, err == nil, "%v", err)
	c.check(path, err != nil || m.Nano > 0, "an amount above 0 is needed")
	return &m
}

// count reads a number that may be missing.
func (c *reading) count(path string, given *int, or, least, most int) int {
	if given == nil {
		return or
	}
	c.check(path, *given >= least && *given <= most, "write a number from %d to %d", least, most)
	return *given
}

func (c *reading) settings(m *Matrix, in matrixFile) {
	m.Budget = Budget{
		Campaign: c.money("budget.campaign", in.Budget.Campaign, m.Currency),
		Cell:     c.money("budget.cell", in.Budget.Cell, m.Currency),
		Day:      c.money("budget.day", in.Budget.Day, m.Currency),
	}
	s := Settings{
		Serving:  Serving{Context: c.count("context", in.Context, 4096, 1, maxContext), Parallel: c.count("parallel", in.Parallel, 1, 1, maxParallel), Cache: in.KVCache},
		Duration: time.Duration(in.Duration),
		DiskGB:   c.count("disk_gb", in.DiskGB, 100, 1, maxDiskGB),
		Attempts: c.count("attempts", in.Attempts, 3, 1, maxAttempts),
		HourCap:  c.money("max_price_per_hour", in.MaxHour, m.Currency),
	}
	if s.Cache == "" {
		s.Cache = "f16"
	}
	if s.Duration == 0 {
		s.Duration = 5 * time.Minute
	}
	_, known := cacheBytes[s.Cache]
	c.check("kv_cache", known, "known are f16, q8_0, fp8, q4_0")
	c.check("duration", s.Duration >= time.Second && s.Duration <= maxDuration, "write a time from 1s to 24h")
	m.Engine = s
	m.Limits = c.limits("limits", in.Limits)
	m.Expect = c.limits("expect", in.Expect)
}

func (c *reading) limits(path string, in limitsFile) Limits {
	one := func(name string, d assay.Duration) time.Duration {
		c.check(path+"."+name, d >= 0 && time.Duration(d) <= maxDuration, "write a time of at most 24h")
		return time.Duration(d)
	}
	return Limits{
		Provision: one("provision", in.Provision), Setup: one("setup", in.Setup), Load: one("load", in.Load),
		Benchmark: one("benchmark", in.Benchmark), Collect: one("collect", in.Collect), End: one("end", in.End),
	}
}

func (c *reading) groups(m *Matrix, in []groupFile) {
	c.check("cells", len(in) > 0 && len(in) <= maxGroups, "write 1 to %d groups of cells", maxGroups)
	if len(in) > maxGroups {
		return
	}
	for i, g := range in {
		at := fmt.Sprintf("cells[%d]", i)
		if len(g.Engines) == 0 {
			g.Engines = []string{"ollama"}
		}
		c.names(at+".gpus", g.GPUs)
		c.names(at+".providers", g.Providers)
		c.names(at+".models", g.Models)
		c.names(at+".engines", g.Engines)
		for j, e := range g.Engines {
			_, ok := EngineOf(e)
			c.check(fmt.Sprintf("%s.engines[%d]", at, j), ok, "engine %q is not known; known are ollama, vllm", foreign.Line(e, 60))
		}
		for j, p := range g.Providers {
			c.check(fmt.Sprintf("%s.providers[%d]", at, j), providerName.MatchString(p), "a provider's name has small letters, digits and hyphens, as vast")
		}
		c.check(at+".vram_gib", g.VRAM >= 0 && g.VRAM <= 10_000 && !math.IsNaN(g.VRAM), "write the GPU's memory in GiB")
		m.Groups = append(m.Groups, Group{
			GPUs: g.GPUs, Providers: g.Providers, Models: g.Models, Engines: g.Engines,
			Count: c.count(at+".gpu_count", g.Count, 1, 1, maxGPUs), Memory: int64(g.VRAM * gibi),
		})
	}
}

var providerName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

func (c *reading) names(path string, list []string) {
	c.check(path, len(list) > 0 && len(list) <= maxList, "write a list of 1 to %d", maxList)
	for i, s := range list[:min(len(list), maxList)] {
		c.check(fmt.Sprintf("%s[%d]", path, i), named(s), "a name has 1 to %d bytes without control characters", maxName)
	}
}

func (c *reading) models(m *Matrix, in []modelFile) {
	c.check("models", len(in) <= maxModels, "%d are the most", maxModels)
	for i, f := range in[:min(len(in), maxModels)] {
		at := fmt.Sprintf("models[%d]", i)
		one := Model(f)
		c.check(at+".name", named(f.Name), "a name has 1 to %d bytes without control characters", maxName)
		c.check(at+".parameters", f.Parameters >= 1e6 && f.Parameters <= 1e14, "write how many parameters it has, as 7.6e9")
		for _, n := range []struct {
			key   string
			value int
			least int
		}{{"layers", f.Layers, 1}, {"kv_heads", f.KVHeads, 1}, {"head_dim", f.HeadDim, 1}, {"hidden", f.Hidden, 0}, {"vocab", f.Vocab, 0}} {
			c.check(at+"."+n.key, n.value >= n.least && n.value <= 10_000_000, "write a whole number from %d", n.least)
		}
		if _, err := one.WeightBytes(); f.Parameters > 0 && err != nil {
			c.check(at+".quantization", false, "%v", err)
		}
		m.Models = append(m.Models, one)
	}
}

// twice refuses a cell that two groups have: it would be rented twice.
func (c *reading) twice(m Matrix) {
	seen := map[string]int{}
	for _, p := range m.expand() {
		key := p.Key()
		if first, ok := seen[key]; ok {
			c.check(fmt.Sprintf("cells[%d]", p.group), false, "cells[%d] has %s already", first, key)
			continue
		}
		seen[key] = p.group
	}
}

// member is a cell with the group that it comes from.
type member struct {
	Cell
	group int
}

// expand makes the cells, in the order of the file. GPUs of a count above one are
// named by it: 2x RTX 3090.
func (m Matrix) expand() []member {
	var out []member
	for i, g := range m.Groups {
		for _, gpu := range g.GPUs {
			if g.Count > 1 {
				gpu = fmt.Sprintf("%dx %s", g.Count, gpu)
			}
			for _, provider := range g.Providers {
				for _, model := range g.Models {
					for _, engine := range g.Engines {
						out = append(out, member{Cell{GPU: gpu, Provider: provider, Model: model, Engine: engine}, i})
					}
				}
			}
		}
	}
	return out
}

package place

import (
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/internal/yamltext"
)

// Bounds of what is read.
const (
	maxDemandBytes = 1 << 20
	maxNodesBytes  = 16 << 20
	maxDemands     = 200
	maxNodes       = 10_000
	maxCosts       = 10_000
	maxModels      = 200
	maxLevels      = 100
	maxName        = 300
	maxGPUs        = 64
	maxHorizon     = 8760 * time.Hour
	maxLoad        = 24 * time.Hour
	maxAmount      = 1e12
)

// Cost is what nodes cost an hour: one by its id, or each GPU of a name.
type Cost struct {
	Node    string `yaml:"node"`
	GPU     string `yaml:"gpu"`
	PerHour amount `yaml:"per_hour"`
}

// amount is money as it is written: it must not become a float on the way.
type amount string

func (a *amount) UnmarshalYAML(b []byte) error {
	var s string
	if err := yaml.Unmarshal(b, &s); err != nil {
		return err
	}
	*a = amount(s)
	return nil
}

// File is a demand as it was read.
type File struct {
	Request Request
	costs   []Cost
}

type demandFile struct {
	Format    string         `yaml:"format"`
	Currency  string         `yaml:"currency"`
	Horizon   assay.Duration `yaml:"horizon"`
	Estimates string         `yaml:"estimates"`
	Costs     []Cost         `yaml:"costs"`
	Demands   []struct {
		Model      string         `yaml:"model"`
		Name       string         `yaml:"name"`
		Requests   *float64       `yaml:"requests_per_second"`
		Tokens     *float64       `yaml:"tokens_per_second"`
		TTFT       assay.Duration `yaml:"ttft_p99"`
		TPOT       assay.Duration `yaml:"tpot_p99"`
		Redundancy int            `yaml:"redundancy"`
		MemoryGiB  float64        `yaml:"memory_gib"`
		Load       assay.Duration `yaml:"load_time"`
	} `yaml:"demands"`
}

// ReadDemand reads a demand. Everything that is wrong is told at once, each fault
// as FILE:LINE:COLUMN where it has a place.
func ReadDemand(r io.Reader, name string) (File, error) {
	var in demandFile
	c, err := decode(r, name, maxDemandBytes, &in)
	if err != nil {
		return File{}, err
	}
	out := File{costs: in.Costs, Request: Request{Currency: in.Currency, Horizon: time.Duration(in.Horizon), Estimates: in.Estimates != "refuse"}}
	if c.at("$.horizon") == "" {
		out.Request.Horizon = 24 * time.Hour
	}
	c.check("$.format", in.Format == "assay/demand/v1", "it must be assay/demand/v1")
	c.check("$.currency", currency.MatchString(in.Currency), "write three capital letters, as USD")
	c.check("$.horizon", out.Request.Horizon >= time.Minute && out.Request.Horizon <= maxHorizon, "write a time from 1m to 8760h")
	c.check("$.estimates", in.Estimates == "" || in.Estimates == "allow" || in.Estimates == "refuse", "it is allow or refuse")
	c.check("$.costs", len(in.Costs) <= maxCosts, "it has more than %d entries", maxCosts)
	c.check("$.demands", len(in.Demands) > 0 && len(in.Demands) <= maxDemands, "write 1 to %d", maxDemands)
	if err := c.err(); err != nil {
		return File{}, err // and not thousands about what is in them
	}
	c.costs(in)
	for i, d := range in.Demands {
		at := fmt.Sprintf("$.demands[%d]", i)
		one := Demand{
			Name: d.Name, Model: d.Model, Redundancy: d.Redundancy, MemoryGiB: d.MemoryGiB, Load: time.Duration(d.Load),
			TTFT: milliseconds(d.TTFT), TPOT: milliseconds(d.TPOT),
		}
		if one.Name == "" {
			one.Name = d.Model
		}
		switch {
		case d.Requests != nil && d.Tokens == nil:
			one.Unit, one.Amount = Requests, *d.Requests
		case d.Tokens != nil && d.Requests == nil:
			one.Unit, one.Amount = Tokens, *d.Tokens
		default:
			c.check(at, false, "give one of requests_per_second and tokens_per_second")
			one.Amount = 1
		}
		c.check(at+".ttft_p99", d.TTFT >= 0, "a limit is no time before now")
		c.check(at+".tpot_p99", d.TPOT >= 0, "a limit is no time before now")
		if err := one.check(); err != nil {
			c.check(at, false, "%v", err)
		}
		c.check(at, !slices.ContainsFunc(out.Request.Demands, func(o Demand) bool { return o.Name == one.Name }), "there are two %q: give them names of their own", foreign.Line(one.Name, 60))
		out.Request.Demands = append(out.Request.Demands, one)
	}
	return out, c.err()
}

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

func milliseconds(d assay.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (c *checker) costs(in demandFile) {
	for i, e := range in.Costs {
		at := fmt.Sprintf("$.costs[%d]", i)
		c.check(at, (e.Node == "") != (e.GPU == ""), "name one of node and gpu")
		_, err := assay.ParseMoney(string(e.PerHour), in.Currency)
		c.check(at, err == nil, "per_hour: %v", err)
	}
}

// Priced gives nodes the costs of the file, where they have none of their own.
func (f File) Priced(nodes []Node) []Node {
	byNode, byGPU := map[string]assay.Money{}, map[string]assay.Money{}
	for _, c := range f.costs {
		if m, err := assay.ParseMoney(string(c.PerHour), f.Request.Currency); err == nil {
			if c.Node != "" {
				byNode[c.Node] = m
			} else {
				byGPU[c.GPU] = m
			}
		}
	}
	out := slices.Clone(nodes)
	for i, n := range out {
		if n.Cost != nil {
			continue
		}
		if m, ok := byNode[n.ID]; ok {
			out[i].Cost = &m
		} else if m, ok := byGPU[n.GPU]; ok && n.GPU != "" {
			if all, err := m.Times(float64(n.GPUs)); err == nil {
				out[i].Cost = &all
			}
		}
	}
	return out
}

type checker struct {
	name   string
	tree   *ast.File
	faults []error
}

// maxFaults is how many faults are told of one file.
const maxFaults = 20

func (c *checker) check(path string, ok bool, format string, args ...any) {
	if ok || len(c.faults) >= maxFaults {
		return
	}
	where := c.at(path)
	if where == "" {
		where = c.name
	}
	c.faults = append(c.faults, fmt.Errorf("%s: %s: %s", where, path[2:], fmt.Sprintf(format, args...)))
}

func (c *checker) err() error { return errors.Join(c.faults...) }

// at is where a member stands; empty: nowhere.
func (c *checker) at(path string) string {
	p, err := yaml.PathString(path)
	if err != nil {
		return ""
	}
	node, err := p.FilterFile(c.tree)
	if err != nil || node == nil || node.GetToken() == nil {
		return ""
	}
	at := node.GetToken().Position
	return fmt.Sprintf("%s:%d:%d", c.name, at.Line, at.Column)
}

func decode(r io.Reader, name string, most int, into any) (*checker, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(b) > most {
		return nil, fmt.Errorf("read %s: it is longer than %d bytes", name, most)
	}
	tree, err := yamltext.Decode(b, into)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return &checker{name: name, tree: tree}, nil
}

func finite(v, most float64) bool { return v >= 0 && v <= most && !math.IsNaN(v) }

func named(s string) bool { return s != "" && len(s) <= maxName && foreign.Plain(s) }

// check says what is wrong with a demand.
func (d Demand) check() error {
	switch {
	case !named(d.Model) || !named(d.Name):
		return fmt.Errorf("a model and a name of at most %d bytes without control characters are needed", maxName)
	case !finite(d.Amount, maxAmount) || d.Amount == 0:
		return errors.New("ask for more than 0 a second")
	case !finite(d.MemoryGiB, maxAmount), !finite(d.TTFT, maxAmount), !finite(d.TPOT, maxAmount):
		return errors.New("memory_gib, ttft_p99 and tpot_p99 are not negative")
	case d.Redundancy < 0 || d.Redundancy > maxSpare:
		return fmt.Errorf("redundancy is from 0 to %d", maxSpare)
	case d.Load < 0 || d.Load > maxLoad:
		return fmt.Errorf("load_time is at most %s", maxLoad)
	}
	return nil
}

// check says what is wrong with a request, for callers who made it themselves.
func (r Request) check(nodes []Node) error {
	if r.Horizon <= 0 {
		return errors.New("the horizon must be above 0")
	}
	for _, d := range r.Demands {
		if err := d.check(); err != nil {
			return fmt.Errorf("demand %q: %w", foreign.Line(d.Name, 60), err)
		}
	}
	seen := map[string]bool{}
	for _, n := range nodes {
		switch {
		case seen[n.ID]:
			return fmt.Errorf("there are two nodes %q", foreign.Line(n.ID, 60))
		case n.Cost != nil && (n.Cost.Nano < 0 || n.Cost.Currency != r.Currency):
			return fmt.Errorf("node %q costs %s, and the demand counts in %s", foreign.Line(n.ID, 60), n.Cost, r.Currency)
		}
		seen[n.ID] = true
	}
	return nil
}

// Models are those that are asked for.
func (f File) Models() (out []string) {
	for _, d := range f.Request.Demands {
		if !slices.Contains(out, d.Model) {
			out = append(out, d.Model)
		}
	}
	return out
}

package claims

import (
	"context"
	"strings"
	"time"

	"github.com/assay-bench/assay"
)

// declared is a command that the file makes a probe of, under the name
// command/NAME.
type declared struct {
	Name    string         `yaml:"name"`
	Command []string       `yaml:"command"` // a program and its arguments; no shell
	Unit    string         `yaml:"unit"`    // of what it prints: ms, MB/s, %, or any word
	Better  string         `yaml:"better"`  // lower, higher or neither
	Parse   string         `yaml:"parse"`   // number (the default), or json:FIELD
	Timeout assay.Duration `yaml:"timeout"`
	Help    string         `yaml:"help"`
}

// probe runs the command. What it prints in milliseconds is measured in
// seconds, as everything else, so that a promise may be in any unit of time.
func (d declared) probe() Probe {
	better := assay.Neither
	switch d.Better {
	case "lower":
		better = assay.Lower
	case "higher":
		better = assay.Higher
	}
	field, _ := strings.CutPrefix(d.Parse, "json:")
	if d.Parse == "number" {
		field = ""
	}
	p := CommandProbe(CommandSpec{
		Name: "command/" + d.Name, Help: d.Help, Command: d.Command, Unit: d.Unit, Better: better,
		Field: field, Timeout: time.Duration(d.Timeout),
	})
	u, known := writtenUnits()[d.Unit]
	if !known {
		return p
	}
	p.Unit = u.kind
	start := p.Start
	p.Start = func(ctx context.Context, env Env) (Runner, error) {
		r, err := start(ctx, env)
		if err != nil {
			return nil, err
		}
		return scaled{r, u.of}, nil
	}
	return p
}

// scaled is a runner whose values are in another unit.
type scaled struct {
	Runner
	by float64
}

func (s scaled) Sample(ctx context.Context) (Measurement, error) {
	m, err := s.Runner.Sample(ctx)
	m.Value *= s.by
	return m, err
}

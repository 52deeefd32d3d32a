package claims

import (
	"strings"
	"time"

	"github.com/assay-bench/assay"
)

// Command is somebody's own benchmark: a program that prints one figure. A claims
// file may declare some; host.Command makes a probe of one.
//
// What it prints on standard output is either a number and nothing else, or one
// JSON object:
//
//	{"value": 0.0123, "batch": 100, "unit": "s", "extra": {"bytes": 4096}}
//
// Only value is needed. A unit that is not the declared one is refused. In place
// of a value it may say {"unavailable": "why"} or {"wrong": "why"}.
type Command struct {
	// Name of the probe, family/what; without a slash the family is command.
	Name string
	Help string // empty: the command line
	// Command is the program and its arguments. No shell stands between: give
	// one where it is wanted. A program that cannot be found is unavailable.
	Command []string
	Dir     string // where it runs; empty: our own working directory
	Unit    string // of the figure
	// Scale is what the figure is multiplied by; 0: nothing.
	Scale  float64
	Better assay.Direction
	// Field is where the figure stands in other JSON: names joined by dots, as
	// latency.p50. Empty: a number, or the object above.
	Field string
	// Timeout of one run; 0: a minute. Then its process group is killed.
	Timeout time.Duration
}

// declared is a command that the file makes a probe of, under the name
// command/NAME.
type declared struct {
	Name    string   `yaml:"name"`
	Command []string `yaml:"command"` // a program and its arguments; no shell
	Unit    string   `yaml:"unit"`    // of what it prints: ms, MB/s, %, or any word
	Better  string   `yaml:"better"`  // lower, higher or neither
	Parse   string   `yaml:"parse"`   // number (the default), or json:FIELD
	Timeout span     `yaml:"timeout"`
	Help    string   `yaml:"help"`
}

// probe runs the command. What it prints in milliseconds is measured in
// seconds, as everything else, so that a promise may be in any unit of time.
func (d declared) probe(toProbe func(Command) Probe) Probe {
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
	scale, measuredIn := 1.0, d.Unit
	if u, known := writtenUnits()[d.Unit]; known {
		scale, measuredIn = u.of, u.kind
	}
	p := toProbe(Command{
		Name: "command/" + d.Name, Help: d.Help, Command: d.Command, Unit: d.Unit, Scale: scale, Better: better,
		Field: field, Timeout: time.Duration(d.Timeout),
	})
	p.Unit = measuredIn
	return p
}

package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/child"
	"github.com/assay-bench/assay/internal/foreign"
)

const (
	maxCommandOutput = 1 << 20 // of standard output; more ends the command
	maxCommandError  = 2 << 10 // of standard error, for the message
)

// command runs one that was declared.
type command claims.Command

// Command makes a probe of a command. Each sample runs it once, in a process
// group of its own that is killed when the command has ended, whether it left
// anything running or not. What leaves its group by setsid is not found.
func Command(spec claims.Command) claims.Probe {
	p := claims.Probe{Name: spec.Name, Help: spec.Help, Unit: spec.Unit, Better: spec.Better}
	if !strings.Contains(p.Name, "/") {
		p.Name = "command/" + p.Name
	}
	if p.Help == "" {
		p.Help = "Runs " + strings.Join(spec.Command, " ") + " and takes the figure that it prints."
	}
	if len(spec.Command) > 0 {
		p.Needs = spec.Command[0]
	}
	p.Start = func(context.Context, claims.Env) (claims.Runner, error) {
		if len(spec.Command) == 0 || spec.Command[0] == "" {
			return nil, fmt.Errorf("probe %s: no command given", p.Name)
		}
		if _, err := exec.LookPath(spec.Command[0]); err != nil {
			return nil, claims.Unavailablef("%v", err)
		}
		return hostRunner{sample: command(spec).sample}, nil
	}
	return p
}

func (s command) sample(ctx context.Context) (claims.Measurement, error) {
	timeout := s.Timeout
	if timeout <= 0 {
		timeout = time.Minute
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it was ended after %v", timeout))
	defer cancel()
	out, err := runBounded(ctx, s.Dir, s.Command...)
	if err != nil {
		return claims.Measurement{}, fmt.Errorf("run %s: %w", s.Command[0], err)
	}
	m, err := s.figure(out)
	if err != nil {
		return claims.Measurement{}, fmt.Errorf("read what %s printed: %w", s.Command[0], err)
	}
	if s.Scale != 0 {
		m.Value *= s.Scale
	}
	return m, nil
}

// commandWord is what a command may print in our own JSON.
type commandWord struct {
	Value       *float64           `json:"value"`
	Batch       int                `json:"batch"`
	Unit        string             `json:"unit"`
	Extra       map[string]float64 `json:"extra"`
	Unavailable string             `json:"unavailable"`
	Wrong       string             `json:"wrong"`
}

// figure reads the output. A figure that is not there is an error, never zero.
func (s command) figure(out []byte) (claims.Measurement, error) {
	text := bytes.TrimSpace(out)
	if len(text) == 0 {
		return claims.Measurement{}, errors.New("nothing")
	}
	if s.Field != "" {
		v, err := jsonField(text, s.Field)
		return claims.Measurement{Value: v}, err
	}
	if text[0] != '{' {
		v, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return claims.Measurement{}, fmt.Errorf("%s is neither a number nor an object with a value", quoted(text))
		}
		return claims.Measurement{Value: v}, finite(v)
	}
	var w commandWord
	if err := json.Unmarshal(text, &w); err != nil {
		return claims.Measurement{}, err
	}
	switch {
	case w.Unavailable != "":
		return claims.Measurement{}, claims.Unavailablef("it says: %s", quoted([]byte(w.Unavailable)))
	case w.Wrong != "":
		return claims.Measurement{}, fmt.Errorf("%w: it says: %s", claims.ErrWrong, quoted([]byte(w.Wrong)))
	case w.Value == nil:
		return claims.Measurement{}, errors.New("the object has no value")
	case w.Unit != "" && w.Unit != s.Unit:
		return claims.Measurement{}, fmt.Errorf("its unit is %s, and %q was declared", quoted([]byte(w.Unit)), s.Unit)
	case w.Batch < 0:
		return claims.Measurement{}, fmt.Errorf("a batch of %d", w.Batch)
	case len(w.Extra) > 64:
		return claims.Measurement{}, fmt.Errorf("%d extra figures; 64 is the most", len(w.Extra))
	}
	return claims.Measurement{Value: *w.Value, Batch: w.Batch, Extra: w.Extra}, finite(*w.Value)
}

// jsonField walks names joined by dots to a number.
func jsonField(text []byte, path string) (float64, error) {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return 0, err
	}
	for name := range strings.SplitSeq(path, ".") {
		object, ok := v.(map[string]any)
		if !ok {
			return 0, fmt.Errorf("no field %s: what should hold %q is no object", path, name)
		}
		if v, ok = object[name]; !ok {
			return 0, fmt.Errorf("no field %s: %q is not there", path, name)
		}
	}
	n, ok := v.(float64)
	if !ok {
		return 0, fmt.Errorf("field %s is no number", path)
	}
	return n, finite(n)
}

func finite(v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("%v is no measurement", v)
	}
	return nil
}

// maxQuoted bounds what a message quotes, in bytes.
const maxQuoted = 200

// quoted makes foreign text fit for a message.
func quoted(text []byte) string { return strconv.Quote(foreign.Line(text, maxQuoted)) }

// runBounded runs a command in a group of its own and gives what it printed. The
// group is dead when it returns. Failing is an error with the beginning of what it
// wrote to its standard error.
func runBounded(ctx context.Context, dir string, command ...string) ([]byte, error) {
	out, err := child.Output(ctx, child.Spec{Command: command, Dir: dir, MaxAnswer: maxCommandOutput, MaxStderr: maxCommandError}, nil)
	if errors.Is(err, child.ErrFlood) {
		return nil, fmt.Errorf("it was ended for printing more than %d bytes", maxCommandOutput)
	}
	return out.Stdout, err
}

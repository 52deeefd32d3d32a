package experiment

import (
	"errors"
	"fmt"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/internal/proc"
)

// ErrMissing means that the machine lacks what the configuration names. Nothing was
// measured and nothing was written: install it, or change the configuration.
var ErrMissing = errors.New("this machine does not have what the configuration names")

// prerequisites refuses what no round could measure, before the first one: all of
// it at once. An engine that is there and does not start is a result instead.
func (x *trial) prerequisites() error {
	var missing []error
	if err := proc.CheckCPUs(x.cfg.System.CPUAffinity); err != nil {
		missing = append(missing, fmt.Errorf("system.cpu_affinity: %w", err))
	}
	for _, e := range x.engines {
		if e.kind() == "url" {
			continue
		}
		if _, err := x.program(e); err != nil {
			missing = append(missing, fmt.Errorf("engine %s: its program cannot be run: %s", e.Name, foreign.Line(err.Error(), 500)))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n%w", ErrMissing, errors.Join(missing...))
}

// program is the file that starting the engine will run.
func (x *trial) program(e EngineConfig) (string, error) {
	fill := x.fills(e, 0)
	spec := proc.Spec{Command: x.command(e), Env: x.environment(e, fill)}
	if e.Serve != nil {
		spec.Dir = e.Serve.Dir
	}
	spec.Command[0] = fill.Replace(spec.Command[0])
	file, err := spec.Program()
	if err != nil {
		return "", fmt.Errorf("%s: %w", spec.Command[0], err)
	}
	return file, nil
}

// command is what starts an engine of ours, with nothing filled in.
func (x *trial) command(e EngineConfig) []string {
	if e.Serve != nil {
		return append([]string{}, e.Serve.Command...)
	}
	return append([]string{binaryPath(e.BinaryPath)}, e.Args...)
}

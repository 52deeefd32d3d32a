package node

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/internal/foreign"
)

// ErrNoGPU says that the machine has no working GPU, or another one than was
// rented: give it back, and mark it.
var ErrNoGPU = errors.New("the machine does not have the GPU that was rented")

// GPU is one as its driver describes it.
type GPU struct {
	Name     string `json:"name"`
	UUID     string `json:"uuid"`
	Driver   string `json:"driver"`
	TotalMiB int64  `json:"total_mib"`
	FreeMiB  int64  `json:"free_mib"`
}

// Machine is what was found on a machine.
type Machine struct {
	Arch string `json:"arch"` // as uname has it
	CUDA string `json:"cuda"` // the driver's; empty: it does not say
	GPUs []GPU  `json:"gpus"`
}

// FreeMiB is the memory that is free on all GPUs together.
func (m Machine) FreeMiB() (sum int64) {
	for _, g := range m.GPUs {
		sum += g.FreeMiB
	}
	return sum
}

// UsedMiB is the memory that is in use on all GPUs together.
func (m Machine) UsedMiB() (sum int64) {
	for _, g := range m.GPUs {
		sum += g.TotalMiB - g.FreeMiB
	}
	return sum
}

// Prepare makes our directory on the machine.
func (n *Node) Prepare(ctx context.Context) error {
	_, err := n.ask(ctx, call{command: "prepare"})
	return err
}

// Inspect reads what the machine is.
func (n *Node) Inspect(ctx context.Context) (Machine, error) {
	arch, err := n.ask(ctx, call{command: "architecture"})
	if err != nil {
		return Machine{}, err
	}
	m := Machine{Arch: strings.TrimSpace(string(arch))}
	if _, ok := goArch[m.Arch]; !ok {
		return Machine{}, fmt.Errorf("%w: it says that its processor is %q", ErrHostile, foreign.Line(arch, 60))
	}
	if m.GPUs, err = n.gpus(ctx); err != nil {
		return Machine{}, err
	}
	out, err := n.ask(ctx, call{command: "cuda"})
	if err != nil && !isExit(err) { // an old driver need not know the flag
		return Machine{}, err
	}
	if found := cudaVersion.FindSubmatch(out); found != nil {
		m.CUDA = string(found[1])
	}
	return m, nil
}

// goArch are the processors that there are node binaries for, as uname and as Go
// name them.
var goArch = map[string]string{"x86_64": "amd64", "aarch64": "arm64"}

// GoArch is the machine's processor as Go names it.
func (m Machine) GoArch() string { return goArch[m.Arch] }

var cudaVersion = regexp.MustCompile(`(?m)^CUDA Version\s*:\s*([0-9]{1,3}\.[0-9]{1,3})\s*$`)

func isExit(err error) bool {
	var exit *ExitError
	return errors.As(err, &exit)
}

func (n *Node) gpus(ctx context.Context) ([]GPU, error) {
	out, err := n.ask(ctx, call{command: "gpus"})
	if isExit(err) {
		return nil, fmt.Errorf("%w: %w", ErrNoGPU, err)
	}
	if err != nil {
		return nil, err
	}
	return parseGPUs(out)
}

// maxGPUs is more than any machine has.
const maxGPUs = 64

// parseGPUs reads nvidia-smi's lines. A name that would move the cursor of whoever
// reads it is no GPU's name.
func parseGPUs(out []byte) ([]GPU, error) {
	r := csv.NewReader(strings.NewReader(string(out)))
	r.TrimLeadingSpace, r.FieldsPerRecord = true, 5
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%w: nvidia-smi's answer: %s", ErrHostile, foreign.Line(err.Error(), 200))
	}
	if len(rows) == 0 || len(rows) > maxGPUs {
		return nil, fmt.Errorf("%w: nvidia-smi lists %d", ErrNoGPU, len(rows))
	}
	var gpus []GPU
	for _, row := range rows {
		for _, field := range row {
			if len(field) > 120 || !foreign.Plain(field) {
				return nil, fmt.Errorf("%w: nvidia-smi says %q, which is no plain text", ErrHostile, foreign.Line(field, 120))
			}
		}
		total, err1 := strconv.ParseInt(row[3], 10, 32)
		free, err2 := strconv.ParseInt(row[4], 10, 32)
		if err := errors.Join(err1, err2); err != nil || total <= 0 || free < 0 || free > total {
			return nil, fmt.Errorf("%w: %s has %q MiB of memory, %q of them free", ErrNoGPU, row[0], row[3], row[4])
		}
		gpus = append(gpus, GPU{row[0], row[1], row[2], total, free})
	}
	return gpus, nil
}

package hammer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/verify"
)

// phase is what the engine was asked to do meanwhile.
type phase uint8

const (
	phaseUnloaded phase = iota // its model was thrown out
	phaseIdle                  // nothing was asked of it
	phaseBusy                  // between; says nothing
	phaseLoad                  // requests under way
	phases
)

// mostSamples bounds what is kept of one reading in one phase: some minutes of
// load decide as well as hours.
const mostSamples = 2000

// witness keeps readings of GPUs apart by phase, to tell whether the engine
// works on them.
type witness struct {
	mu      sync.Mutex
	now     phase
	samples map[string]*[phases][]verify.GPUSample
}

func (w *witness) enter(p phase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = p
}

func (w *witness) see(r assay.Reading) {
	var s verify.GPUSample
	switch r.Name {
	case assay.GPUUtilization:
		s.Utilization = r.Value
	case assay.GPUPower:
		s.PowerWatts = r.Value
	case assay.GPUMemoryUsed:
		s.UsedBytes = r.Value
	default:
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.samples == nil {
		w.samples = map[string]*[phases][]verify.GPUSample{}
	}
	of := w.samples[r.Device]
	if of == nil {
		of = new([phases][]verify.GPUSample)
		w.samples[r.Device] = of
	}
	if len(of[w.now]) < mostSamples {
		of[w.now] = append(of[w.now], s)
	}
}

// checks says where the model ran. The engine must be on this machine, and
// must have answered. Its model's bytes are what a GPU must hold where there is
// one; how a model is laid over several is not known.
func (w *witness) checks(at time.Time, modelBytes int64) []assay.Check {
	w.mu.Lock()
	defer w.mu.Unlock()
	var gpus []verify.ModelSamples
	for device, of := range w.samples {
		gpus = append(gpus, verify.ModelSamples{
			Device: device, BeforeLoad: of[phaseUnloaded], Idle: of[phaseIdle], UnderLoad: of[phaseLoad],
		})
	}
	if len(gpus) == 1 {
		gpus[0].ModelBytes = float64(modelBytes)
	}
	slices.SortFunc(gpus, func(a, b verify.ModelSamples) int { return bytes.Compare([]byte(a.Device), []byte(b.Device)) })
	return verify.NodeExecution(gpus, at)
}

// unload has Ollama throw its model out, so that memory can be seen to rise
// when it is loaded again.
func unload(ctx context.Context, c Config) error {
	if c.Backend != "ollama" && c.Backend != "ollama-chat" {
		return fmt.Errorf("only Ollama unloads a model on request, and this engine speaks %s", c.Backend)
	}
	body, err := json.Marshal(map[string]any{"model": c.Model, "keep_alive": 0})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/api/generate", bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("unload the model: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("unload the model: the engine answered %s", res.Status)
	}
	return nil
}

package acceptance

import (
	"encoding/json"
	"os/exec"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/nvml/nvmltest"
)

// verified is what assay verify --format json prints.
type verified struct {
	Verdict assay.Verdict
	Because string
	Checks  []assay.Check
	Notes   []string
}

func verify(t *testing.T, scenario string, args ...string) (result, verified) {
	t.Helper()
	cmd := exec.Command(program(t, "assay"), append([]string{"verify", "--format", "json", "--quiet"}, args...)...)
	cmd.Env = onGPU(t, scenario)
	r := runCommand(t, cmd, nil)
	var v verified
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil {
		t.Fatalf("exit %d: %v\n%s\n%s", r.exit, err, r.stdout, r.stderr)
	}
	return r, v
}

func checked(v verified, name string) assay.Check {
	for _, c := range v.Checks {
		if c.Name == name {
			return c
		}
	}
	return assay.Check{}
}

// The shipped program refuses a CPU that stands in for a GPU, and compares what
// the driver says with the catalogue.
func TestVerifyRefusesACPU(t *testing.T) {
	light(t)
	r, v := verify(t, nvmltest.Scenario(t, "normal"))
	if r.exit != 3 && r.exit != 2 {
		t.Errorf("exit %d: %s", r.exit, r.stderr)
	}
	if c := checked(v, "compute.device"); c.Verdict == assay.Pass || c.Name == "" {
		t.Errorf("%+v", c)
	}
	if c := checked(v, "identity.catalogue"); c.Verdict != assay.Pass || c.Device == "" {
		t.Errorf("%+v", c)
	}
	say(t, "exit %d: %s", r.exit, v.Because)
}

func TestVerifyEndsBeforeAHangingDriver(t *testing.T) {
	start := time.Now()
	r, _ := verify(t, nvmltest.Scenario(t, "init_hang"), "--skip-compute", "--deadline", "3s")
	took := time.Since(start)
	say(t, "exit %d after %.1f s with a driver that never answers", r.exit, took.Seconds())
	if r.exit != 2 || took > 30*time.Second {
		t.Errorf("exit %d after %s: %s", r.exit, took, r.stderr)
	}
}

// Ollama here computes on the CPU, and the stub's GPU idles: the model is
// unloaded and loaded again, and nothing rises.
func TestRealOllamaOnTheCPUIsReported(t *testing.T) {
	url := engineURL(t, "ASSAY_OLLAMA_URL")
	idle := nvmltest.Write(t, "gpus 1\ngpu 0 power 62\ngpu 0 utilization 0\ngpu 0 memory_used 900\ngpu 0 sm_clock 345\n")
	const prompt = "Name three colours."
	_, v := verify(t, idle, "--skip-compute", "--base-url", url, "--reload-model", "--prompt", prompt)
	c := checked(v, "model.execution")
	if c.Verdict != assay.Fail {
		t.Fatalf("%+v, notes %v", c, v.Notes)
	}
	say(t, "%s", c.Evidence)
	same := checked(v, "model.determinism")
	if same.Facts["prompt"] != prompt || same.Facts["answer"] == "" {
		t.Errorf("the prompt was not answered: %+v", same)
	}
	say(t, "asked %q twice at temperature 0: %s, %s", prompt, same.Verdict, same.Evidence)
}

package gpu

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
)

func TestGPUProbesOnPoCL(t *testing.T) {
	setup := onPoCL(t)
	if !slowedByRace {
		setup.Patterns = 0
	}
	setup.Chatter = "a driver says hello\n{\"and is\": \"json\"}\nand does not end its line"
	env := claims.Env{GPU: setup.command(t), Seed: 7, Deadline: 2 * time.Minute}
	for _, p := range Probes() {
		t.Run(p.Name, func(t *testing.T) {
			if p.Family() == "gpu" {
				t.Skip("has a test of its own")
			}
			if strings.HasSuffix(p.Name, "_1gb") && testing.Short() || slowedByRace && (strings.HasSuffix(p.Name, "_1gb") || strings.HasSuffix(p.Name, "_100mb")) {
				t.Skip("takes 2 GB of memory, and a minute under the race detector; 10 MB do the same")
			}
			if p.Help == "" || p.Needs == "" || p.Unit == "" || p.Better == assay.Neither {
				t.Errorf("a probe that does not say what it is: %+v", p)
			}
			t.Parallel()
			r, err := p.Start(t.Context(), env)
			if err != nil {
				t.Fatal(err)
			}
			samples := 3
			switch {
			case p.Family() == "consensus":
				samples = 250 // more than two rounds of votes
			case strings.HasSuffix(p.Name, "_1gb"):
				samples = 2
			}
			seen := map[float64]bool{}
			for range samples {
				m, err := r.Sample(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if (m.Batch > 1) != (p.Name == pressureName) {
					t.Errorf("a batch of %d: operations are timed singly", m.Batch)
				}
				seen[m.Value] = true
				gpuSample(t, p, m)
			}
			if len(seen) < 2 {
				t.Errorf("all values are the same: %v", seen)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if _, err := r.Sample(t.Context()); err == nil {
				t.Error("a sample after Close")
			}
		})
	}
}

// gpuSample looks whether a sample can be true.
func gpuSample(t *testing.T, p claims.Probe, m claims.Measurement) {
	t.Helper()
	x := m.Extra
	wall := m.Value
	if p.Unit == "1/s" {
		wall = x["wall_s"]
		if got := x["operations"] / x["wall_s"]; !(math.Abs(got/m.Value-1) <= 1e-9) {
			t.Errorf("value %g, operations by time %g", m.Value, got)
		}
		// Each position of each pattern needs one look at least, and no two in three
		// go beyond the second.
		if n := x["operations"] / (x["patterns"] * textPositions); !(n >= 1 && n <= 1.5) {
			t.Errorf("%g operations a position", n)
		}
	}
	if !(wall > 0 && wall < 60) {
		t.Errorf("a time of %g s", wall)
	}
	if d, ok := x["device_s"]; p.Family() != "memory_tiers" && (!ok || !(d > 0) || d > wall) {
		t.Errorf("the device ran for %g s of %g s", d, wall)
	}
	if p.Name == "consensus/byzantine_100" && x["refused"] != malicious {
		t.Errorf("%g malicious votes found", x["refused"])
	}
	if p.Name == "kernel/gpu_allocation" && !(x["create_s"] > 0 && x["create_s"] < wall && x["free_s"] > 0) {
		t.Errorf("allocation %+v of %g s", x, wall)
	}
}

// One result that is wrong fails the probe, whatever its speed.
func TestWrongKernelFailsItsProbe(t *testing.T) {
	for name, c := range map[string]struct {
		probe    string
		old, new string
	}{
		"a forged vote is taken":     {"consensus/byzantine_100", "!= vote[2])", "== 0)"},
		"one bit of the code":        {"consensus/single_vote", "!= vote[2])", "!= vote[2] && ((siphash(keys[2 * voter], keys[2 * voter + 1], vote[0], vote[1]) ^ vote[2]) & 0xFFFFFFFF) != 0)"},
		"a count is lost":            {"consensus/batch_100", "result[me] = counts[me];", "result[me] = counts[me] - (counts[me] > 0);"},
		"replays are taken":          {"consensus/single_vote", "!= turn)", "> turn)"},
		"two-faced voters are taken": {"consensus/byzantine_100", "if (twofaced[voter]) {", "if (0) {"},
		"the quorum is off by one":   {"consensus/byzantine_100", "c0 >= quorum ? 0 : c1 >= quorum ? 1 : c2 >= quorum ? 2 : c3 >= quorum ? 3", "c0 > quorum ? 0 : c1 > quorum ? 1 : c2 > quorum ? 2 : c3 > quorum ? 3"},
		"one pattern is wrong":       {"synthesis/pattern_matching", "out[i] = first << 16 | fits;", "out[i] = first << 16 | (fits + (i == 7777));"},
		"operations are made up":     {"synthesis/pattern_matching", "operations[get_group_id(0)] = sums[0];", "operations[get_group_id(0)] = sums[0] * 2;"},
		"nothing is done":            {"synthesis/pattern_matching", "if (i < count) {", "if (i < count / 2) {"},
		"a letter is lost":           {"synthesis/template_expansion", "b < length; b += 64)", "b + (i == 9999) < length; b += 64)"},
		"a length is wrong":          {"synthesis/template_expansion", "offsets[0] = sums[255];", "offsets[0] = sums[200];"},
		"a length without end":       {"synthesis/template_expansion", "offsets[0] = sums[255];", "offsets[0] = 0xFFFFFFFF;"},
		"a rule is left out":         {"synthesis/tree_rewriting", "KIND(a) == NAME && a == b", "KIND(a) == NAME && a == b && t > 100"},
		"rewritings are made up":     {"synthesis/tree_rewriting", "steps[t] = done;", "steps[t] = done + 1;"},
		"a byte is wrong":            {"memory_tiers/gpu_to_cpu_1mb", "words[i] = word(seed, i);", "words[i] = word(seed, i) ^ (i == 131071);"},
		"a page is not there":        {"kernel/gpu_allocation", "words[512 * i] = word(seed, i);", "if (i != 255) words[512 * i] = word(seed, i);"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each has its kernels compiled, by one thread
			setup := onPoCL(t)
			setup.Replace = [2]string{c.old, c.new}
			r, err := gpuProbe(t, c.probe).Start(t.Context(), claims.Env{GPU: setup.command(t), Seed: 7, Deadline: 2 * time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			for range 200 {
				m, err := r.Sample(t.Context())
				if errors.Is(err, claims.ErrWrong) {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if !(m.Value > 0) {
					t.Fatal(m)
				}
				if c.probe != "consensus/single_vote" { // takes some votes to show
					break
				}
			}
			t.Error("the probe did not notice")
		})
	}
}

func TestGPUNotAvailable(t *testing.T) {
	absent := gpuSetup{Native: Native{OpenCL: []string{"libabsent.so"}}}
	refused := gpuSetup{Native: Native{}} // the system's OpenCL, which here is PoCL
	for name, c := range map[string]struct {
		command func(t *testing.T) []string
		says    string
	}{
		"no child":         {func(*testing.T) []string { return nil }, "no child"},
		"no such program":  {func(*testing.T) []string { return []string{"/absent/program"} }, "start the child"},
		"no library":       {absent.command, "libabsent.so"},
		"no platform":      {func(t *testing.T) []string { return gpuStub(t, "EMPTY").command(t) }, "no OpenCL platform"},
		"no device":        {func(t *testing.T) []string { return gpuStub(t, "NODEVICE").command(t) }, "shows no device"},
		"broken list":      {func(t *testing.T) []string { return gpuStub(t, "BROKEN").command(t) }, "CL_OUT_OF_HOST_MEMORY"},
		"refuses":          {func(t *testing.T) []string { return gpuStub(t, "REFUSE").command(t) }, "CL_DEVICE_NOT_AVAILABLE"},
		"a CPU is refused": {func(t *testing.T) []string { onPoCL(t); return refused.command(t) }, "which is a CPU"},
		"ends at once":     {func(*testing.T) []string { return []string{"sh", "-c", "echo out of luck >&2; exit 7"} }, "exit status 7: out of luck"},
		"garbage":          {func(*testing.T) []string { return []string{"sh", "-c", "echo 'assay-claims {'; sleep 60"} }, "read an answer"},
		"another's answer": {func(*testing.T) []string { return []string{"sh", "-c", "echo 'assay-claims {\"id\":9}'; sleep 60"} }, "request 9"},
		"no device named":  {func(*testing.T) []string { return []string{"sh", "-c", "echo 'assay-claims {\"id\":1}'; sleep 60"} }, "named no device"},
		"endless noise":    {func(*testing.T) []string { return []string{"yes", strings.Repeat("no", 50)} }, "an answer of over"},
		"endless line":     {func(*testing.T) []string { return []string{"sh", "-c", "cat /dev/zero"} }, "a line of over"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, probe := range []string{"consensus/single_vote", "gpu/utilization"} {
				_, err := gpuProbe(t, probe).Start(t.Context(), claims.Env{GPU: c.command(t), Deadline: 2 * time.Minute})
				if !errors.Is(err, claims.ErrUnavailable) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: error %v, want not available and %q", probe, err, c.says)
				}
			}
		})
	}
}

func TestGPUHangIsKilled(t *testing.T) {
	_, err := gpuProbe(t, "synthesis/tree_rewriting").Start(t.Context(), claims.Env{GPU: gpuStub(t, "HANG").command(t), Deadline: 700 * time.Millisecond})
	if !errors.Is(err, ErrNoAnswer) || !errors.Is(err, claims.ErrUnavailable) {
		t.Errorf("error %v, want no answer", err)
	}
}

// A child that answers once and then hangs is killed with what it has started, and
// is not asked again.
func TestGPUHangInASample(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	script := `echo 'assay-claims {"id":1,"device":{"name":"x"}}'; sleep 300 & echo $! >` + pid + `; wait`
	env := claims.Env{GPU: []string{"sh", "-c", script}, Deadline: 2 * time.Minute}
	p := gpuProbe(t, "consensus/batch_100")
	// start waits until it hangs.
	start := func() claims.Runner {
		t.Helper()
		_ = os.Remove(pid)
		r, err := p.Start(t.Context(), env)
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if b, err := os.ReadFile(pid); err == nil && strings.HasSuffix(string(b), "\n") {
				break
			}
		}
		return r
	}
	r := start()
	r.(*gpuRunner).child.deadline = 50 * time.Millisecond
	for range 2 {
		if _, err := r.Sample(t.Context()); !errors.Is(err, ErrNoAnswer) || errors.Is(err, claims.ErrWrong) {
			t.Errorf("error %v, want no answer", err)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	gone(t, pid)

	r = start()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Sample(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v of a context that ended", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	gone(t, pid)
}

func gone(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	id, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		if state, err := os.ReadFile("/proc/" + strconv.Itoa(id) + "/stat"); err != nil || strings.Contains(string(state), ") Z ") {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("process %d was left running", id)
}

func TestGPUValuesAreNotTrusted(t *testing.T) {
	for value, says := range map[string]string{`"value":0`: "the value 0", `"value":-1`: "the value -1", `"value":1e999`: "read an answer", `"failure":{"code":"driver","text":"bad\u001b[2Jthing"}`: "bad\ufffd[2Jthing"} {
		script := `echo 'assay-claims {"id":1,"device":{"name":"x"}}'; read a; read b; echo 'assay-claims {"id":2,` + value + `}'; read c`
		r, err := gpuProbe(t, "consensus/batch_100").Start(t.Context(), claims.Env{GPU: []string{"sh", "-c", script}, Deadline: 2 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := r.Sample(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %+v, %v", value, m, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCopyNeedsMemory(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "meminfo"), []byte("MemTotal:  8000000 kB\nMemAvailable:  900000 kB\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := gpuProbe(t, "memory_tiers/gpu_to_cpu_1gb").Start(t.Context(), claims.Env{GPU: []string{"false"}, ProcRoot: root})
	if !errors.Is(err, claims.ErrUnavailable) || !strings.Contains(err.Error(), "878 MiB are available") {
		t.Errorf("error %v", err)
	}
}

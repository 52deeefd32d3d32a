package acceptance

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// Must show 8: killed at any moment, a run can be read and completed, and no
// request is counted twice.
func TestBrokenOff(t *testing.T) {
	light(t)
	s := startSimulator(t, "--ttft", "20ms", "--itl", "5ms")
	bin := program(t, "assay")
	const requests = 300
	rng := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	kills := 8
	if long() {
		kills = 20
	}
	for range kills {
		dir := filepath.Join(t.TempDir(), "run")
		cmd := exec.Command(bin, "hammer", "--base-url", s.url, "--out", dir, "--quiet", "--backend", "openai-chat",
			"--max-concurrency", "8", "--num-prompts", "300", "--random-input-len", "16", "--random-output-len", "16")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		moment := time.Duration(rng.Int64N(int64(4 * time.Second)))
		time.Sleep(moment)
		alive := cmd.Process.Signal(syscall.Signal(0)) == nil
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		killed := time.Now()
		if _, err := os.Stat(filepath.Join(dir, "run.json")); err != nil {
			say(t, "killed after %s, before the run began", moment.Round(time.Millisecond))
			continue
		}
		// What was recorded before the kill is at most a second old.
		before := len(recorded(t, dir, false))
		shown := run(t, bin, "report", dir, "--format", "json")
		if shown.exit != 0 {
			t.Errorf("killed after %s: report exits %d: %s", moment, shown.exit, shown.stderr)
			continue
		}
		var partial assay.Summary
		if err := json.Unmarshal([]byte(shown.stdout), &partial); err != nil {
			t.Fatal(err)
		}
		complete := partial.Status == assay.StatusComplete
		if alive && before > 20 && !complete {
			last := lastEnd(t, dir)
			if lost := killed.Sub(time.Unix(0, last)); lost > 1500*time.Millisecond {
				t.Errorf("killed after %s: the newest request on record is %s old", moment, lost)
			}
		}
		if complete {
			say(t, "killed after %s, when it was complete", moment.Round(time.Millisecond))
			continue
		}
		r := run(t, bin, "hammer", "--resume", dir, "--quiet", "--format", "json", "--allow-invalid")
		if r.exit != 0 {
			t.Errorf("killed after %s: resume exits %d: %s", moment, r.exit, r.stderr)
			continue
		}
		var sum assay.Summary
		if err := json.Unmarshal([]byte(r.stdout), &sum); err != nil {
			t.Fatal(err)
		}
		ids := recorded(t, dir, true)
		say(t, "killed after %s with %d on record; resumed: %s, %d judged requests, client %s", moment.Round(time.Millisecond), before, sum.Status, sum.Stages[0].Requests, sum.Client.Certificate)
		if sum.Status != assay.StatusComplete || sum.Stages[0].Requests != requests || len(ids) != requests {
			t.Errorf("killed after %s: %s with %d judged requests and %d ids; want complete with %d", moment, sum.Status, sum.Stages[0].Requests, len(ids), requests)
		}
	}
}

// recorded gives the ids on record; a duplicate is an error. A torn last line
// is passed over unless the run must be whole.
func recorded(t *testing.T, dir string, whole bool) map[string]bool {
	t.Helper()
	ids := map[string]bool{}
	eachLine(t, filepath.Join(dir, "requests.jsonl"), func(b []byte) {
		var r assay.Request
		if err := json.Unmarshal(b, &r); err != nil {
			if whole || b[len(b)-1] == '\n' {
				t.Errorf("a broken line: %v", err)
			}
			return
		}
		if ids[r.ID] {
			t.Errorf("request %s is on record twice", r.ID)
		}
		ids[r.ID] = true
	})
	return ids
}

func lastEnd(t *testing.T, dir string) int64 {
	t.Helper()
	var last int64
	eachLine(t, filepath.Join(dir, "requests.jsonl"), func(b []byte) {
		var r assay.Request
		if json.Unmarshal(b, &r) == nil {
			last = max(last, r.End)
		}
	})
	return last
}

package acceptance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// Must show 4: what the client costs, against a reader that reads the same
// bytes from as many sockets and throws them away, in one run.
func TestCostOfTheClient(t *testing.T) {
	drain := tool(t, "drain")
	most := 3.0
	best(t, "cost", func() error {
		s := startSimulator(t, "--ttft", "50ms", "--itl", "10ms")
		floor := func() (float64, error) {
			r := run(t, drain, "-n", "1000", "-tokens", "128", "-seconds", "8", "-url", s.url)
			var d struct {
				PerMillion float64 `json:"reader_cpu_s_per_million"` // tokens, which are the events
				PerSecond  float64 `json:"tokens_per_second"`
			}
			if err := json.Unmarshal([]byte(r.stdout), &d); err != nil || r.exit != 0 || !(d.PerMillion > 0) {
				return 0, fmt.Errorf("drain exits %d: %v %s %s", r.exit, err, r.stdout, r.stderr)
			}
			say(t, "bare reader: %.2f CPU s per million events at %.0f events/s", d.PerMillion, d.PerSecond)
			return d.PerMillion, nil
		}
		before, err := floor()
		if err != nil {
			return err
		}
		r, dir, sum := hammer(t, s, "--backend", "openai-chat", "--max-concurrency", "1000", "--num-prompts", "7000",
			"--random-input-len", "16", "--random-output-len", "128", "--allow-invalid")
		if r.exit != 0 {
			return fmt.Errorf("hammer exits %d: %s", r.exit, r.stderr)
		}
		after, err := floor()
		if err != nil {
			return err
		}
		events := events(t, dir)
		ours, bare := clientCPU(t, dir)/events*1e6, (before+after)/2
		say(t, "hammer: %.2f CPU s per million events while measuring (%.2f for the whole process, summary included), %s; ratio %.2f (must <= %.1f, aim <= 2.0)",
			ours, r.cpu.Seconds()/events*1e6, sum.Client.Certificate, ours/bare, most)
		if !(ours/bare <= most) {
			return fmt.Errorf("the client costs %.2f times the bare reader, at most %.1f", ours/bare, most)
		}
		return nil
	})
}

// events counts the SSE events that the run read: token chunks and the others.
func events(t *testing.T, dir string) float64 {
	t.Helper()
	n := 0
	eachLine(t, filepath.Join(dir, "requests.jsonl"), func(b []byte) {
		var r assay.Request
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		n += len(r.Gaps) + 1 + len(r.Other)
	})
	return float64(n)
}

// clientCPU is the processor time that the run used from its first reading to
// its last.
func clientCPU(t *testing.T, dir string) float64 {
	t.Helper()
	var last float64
	eachLine(t, filepath.Join(dir, "telemetry.jsonl"), func(b []byte) {
		var r assay.Reading
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		if r.Name == "client_cpu_seconds_total" {
			last = *r.Value
		}
	})
	return last
}

func eachLine(t *testing.T, path string, f func([]byte)) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f([]byte(line))
	}
}

// Must show 5: many streams, flat memory, a small binary, a quick start.
func TestSizeAndStart(t *testing.T) {
	t.Run("start", func(t *testing.T) {
		bin := program(t, "assay")
		run(t, bin, "version") // from the disk once
		best(t, "assay version", func() error {
			start := time.Now()
			run(t, bin, "version")
			took := time.Since(start)
			say(t, "assay version took %s", took)
			if took > 50*time.Millisecond {
				return fmt.Errorf("took %s, at most 50 ms", took)
			}
			return nil
		})
	})
	t.Run("size", func(t *testing.T) {
		info, err := os.Stat(program(t, "assay-node"))
		if err != nil {
			t.Fatal(err)
		}
		say(t, "assay-node has %.1f MB", float64(info.Size())/1e6)
		if info.Size() >= 20e6 {
			t.Errorf("assay-node has %d bytes; it must stay below 20 MB", info.Size())
		}
	})
	t.Run("10000 streams", func(t *testing.T) {
		s := startSimulator(t, "--ttft", "4s", "--itl", "1s")
		r, dir, sum := hammer(t, s, "--backend", "openai-chat", "--max-concurrency", "10000", "--num-prompts", "10000",
			"--random-input-len", "8", "--random-output-len", "8", "--allow-invalid")
		if r.exit != 0 {
			t.Fatalf("exit %d: %s", r.exit, r.stderr)
		}
		peak := 0.0
		eachLine(t, filepath.Join(dir, "telemetry.jsonl"), func(b []byte) {
			var x assay.Reading
			if json.Unmarshal(b, &x) == nil && x.Name == "client_in_flight" {
				peak = max(peak, *x.Value)
			}
		})
		say(t, "%d of 10000 succeeded, mean in flight of the fullest second %.0f, RSS %.0f MB, %s, errors %v",
			sum.Stages[0].OK, peak, float64(r.maxRSS)/1e6, sum.Client.Certificate, sum.Stages[0].Errors)
		if sum.Stages[0].OK != 10000 || !(peak >= 9900) {
			t.Errorf("%d succeeded and %.0f were held open at once; want all of 10000", sum.Stages[0].OK, peak)
		}
	})
	t.Run("flat memory", func(t *testing.T) {
		n := 100_000
		if long() {
			n = 1_000_000
		}
		s := startSimulator(t, "--ttft", "2ms", "--itl", "1ms")
		r, dir, sum := hammer(t, s, "--backend", "openai-chat", "--max-concurrency", "64", "--num-prompts", strconv.Itoa(n),
			"--random-input-len", "8", "--random-output-len", "2", "--allow-invalid")
		if r.exit != 0 {
			t.Fatalf("exit %d: %s", r.exit, r.stderr)
		}
		var rss []float64
		eachLine(t, filepath.Join(dir, "telemetry.jsonl"), func(b []byte) {
			var x assay.Reading
			if json.Unmarshal(b, &x) == nil && x.Name == "client_resident_memory_bytes" {
				rss = append(rss, *x.Value/1e6)
			}
		})
		third := len(rss) / 3
		early, late := mean(rss[third/2:third]), mean(rss[len(rss)-third/2:])
		again := run(t, program(t, "assay"), "report", dir)
		say(t, "%d requests in %.0f s (%.0f/s): RSS %.0f MB early, %.0f MB late, %.0f MB at most with the summary; summary pass alone %.0f MB, %.1f s CPU",
			sum.Stages[0].OK, float64(sum.Ended-sum.Started)/1e9, sum.Stages[0].RequestsPerSecond, early, late,
			float64(r.maxRSS)/1e6, float64(again.maxRSS)/1e6, again.cpu.Seconds())
		if sum.Stages[0].OK != n {
			t.Errorf("%d of %d succeeded: %v", sum.Stages[0].OK, n, sum.Stages[0].Errors)
		}
		if !(late <= 1.3*early+20) {
			t.Errorf("memory grew from %.0f to %.0f MB while loading", early, late)
		}
		if again.maxRSS > 400e6 {
			t.Errorf("the summary pass took %d bytes; at most 400 MB", again.maxRSS)
		}
	})
}

func mean(v []float64) float64 {
	var s float64
	for _, x := range v {
		s += x
	}
	return s / float64(max(1, len(v)))
}

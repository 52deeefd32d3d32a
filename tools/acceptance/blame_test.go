package acceptance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
)

// blamed counts reads with several token chunks, by what a packet capture says
// of them and by whom the run blames.
type blamed struct {
	late, lateBlamed         int // their chunks came at different moments: the client was late
	together, togetherBlamed int // they came together: the engine's burst
	missing                  int // requests that the capture does not know
	bursts, burstChunks      int // as the run recorded
}

// Chunks that arrived within this time of each other came together: writes of
// one moment; further apart than a millisecond, the client could have read them
// apart. What lies between is neither.
const (
	sameMoment = int64(200e3)
	apart      = int64(1e6)
)

// blame compares a run with the capture.
func blame(t *testing.T, dir string, c *capture) blamed {
	t.Helper()
	truth, err := c.arrivals()
	if err != nil {
		t.Fatal(err)
	}
	rd, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out blamed
	for r, err := range rd.Requests() {
		if err != nil {
			t.Fatal(err)
		}
		out.bursts += r.BurstReads
		out.burstChunks += r.BurstChunks
		if w := truth[r.ID]; !r.OK() || w == nil || len(w.tokens) != len(r.Gaps)+1 {
			out.missing++
			continue
		}
		at := truth[r.ID].tokens
		// A read is a run of chunks that have one arrival.
		for i := 0; i < len(at); {
			end, marked := i+1, false
			for end < len(at) {
				us, m := assay.Gap(r.Gaps[end-1])
				if us > 0 {
					break
				}
				marked = marked || m
				end++
			}
			if span := at[end-1] - at[i]; end-i > 1 && span > apart {
				out.late++
				if marked {
					out.lateBlamed++
				}
			} else if end-i > 1 && span <= sameMoment {
				out.together++
				if marked {
					out.togetherBlamed++
				}
			}
			i = end
		}
	}
	return out
}

// portOf is the port in an address.
func portOf(t *testing.T, address string) uint16 {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(n)
}

// A client that was stopped for 5 to 300 ms at a time, at random, is blamed for
// at least 95 % of the reads that were late by the packet capture.
func TestBlameOfAStoppedClient(t *testing.T) {
	best(t, "a stopped client", func() error {
		s := startSimulator(t, "--ttft", "50ms", "--itl", "10ms")
		c := startCapture(t, portOf(t, s.url))
		dir := filepath.Join(t.TempDir(), "run")
		cmd := exec.Command(program(t, "assay"), "hammer", "--base-url", s.url, "--out", dir, "--quiet", "--format", "json",
			"--backend", "openai-chat", "--sweep", "16", "--duration", "12s", "--allow-invalid",
			"--random-input-len", "16", "--random-output-len", "100", "--seed", "7")
		rng := rand.New(rand.NewPCG(1, 2))
		r := runCommand(t, cmd, func() {
			stop := make(chan struct{})
			go func() {
				defer close(stop)
				for end := time.Now().Add(11 * time.Second); time.Now().Before(end); {
					time.Sleep(time.Duration(100+rng.IntN(300)) * time.Millisecond)
					_ = cmd.Process.Signal(syscall.SIGSTOP)
					time.Sleep(time.Duration(5+rng.IntN(296)) * time.Millisecond)
					_ = cmd.Process.Signal(syscall.SIGCONT)
				}
			}()
			<-stop
		})
		b := blame(t, dir, c)
		say(t, "client stopped at random: %d late reads, %d of them blamed on it; %d reads of what came together, %d blamed; %d requests not in the capture; exit %d",
			b.late, b.lateBlamed, b.together, b.togetherBlamed, b.missing, r.exit)
		switch {
		case b.late < 200:
			return fmt.Errorf("only %d reads were late: %s", b.late, r.stderr)
		case float64(b.lateBlamed) < 0.95*float64(b.late):
			return fmt.Errorf("%d of %d late reads are blamed on the client", b.lateBlamed, b.late)
		}
		return nil
	})
}

// Each habit of an engine, or of a proxy before it, to send several tokens
// together is blamed on the client in at most 5 % of reads, and shows as bursts
// of its size.
func TestBlameOfMergingHabits(t *testing.T) {
	for _, habit := range []struct {
		name string
		args []string
		size float64 // chunks of a burst; 0: it varies
	}{
		{"two events in one write", []string{"--habit", "events-per-write=2"}, 2},
		{"five events in one write", []string{"--habit", "events-per-write=5"}, 5},
		{"a proxy that holds for 100 ms", []string{"--habit", "buffer=0/100ms"}, 0},
		{"a proxy that holds 4 KiB", []string{"--habit", "buffer=4096"}, 0},
		{"dribbled bytes", []string{"--habit", "events-per-write=3", "--habit", "dribble=64"}, 0},
	} {
		t.Run(habit.name, func(t *testing.T) {
			best(t, habit.name, func() error {
				s := startSimulator(t, append([]string{"--ttft", "50ms", "--itl", "10ms"}, habit.args...)...)
				c := startCapture(t, portOf(t, s.url))
				r, dir, sum := hammer(t, s, "--backend", "openai-chat", "--sweep", "16", "--duration", "3s", "--allow-invalid",
					"--random-input-len", "16", "--random-output-len", "60", "--seed", "7")
				if r.exit != 0 {
					return fmt.Errorf("hammer exits %d: %s", r.exit, r.stderr)
				}
				b := blame(t, dir, c)
				say(t, "%d reads of what came together, %d blamed on the client; %d late reads, %d blamed; bursts of %.1f chunks; certificate %s",
					b.together, b.togetherBlamed, b.late, b.lateBlamed, float64(b.burstChunks)/float64(max(1, b.bursts)), sum.Client.Certificate)
				var errs []error
				if b.together < 100 {
					errs = append(errs, fmt.Errorf("only %d reads held what came together", b.together))
				}
				if float64(b.togetherBlamed) > 0.05*float64(b.together) {
					errs = append(errs, fmt.Errorf("%d of %d bursts are blamed on the client", b.togetherBlamed, b.together))
				}
				size := float64(b.burstChunks) / float64(max(1, b.bursts))
				if habit.size > 0 && !(size >= 0.9*habit.size && size <= 1.1*habit.size) {
					errs = append(errs, fmt.Errorf("bursts of %.2f chunks, %.0f were sent together", size, habit.size))
				}
				return errors.Join(errs...)
			})
		})
	}
}

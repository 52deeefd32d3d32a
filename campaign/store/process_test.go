package store

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const processVariable = "ASSAY_TEST_RESERVE"

// Two processes that reserve from one file at once do not pass the cap, and use it.
func TestProcessesReserve(t *testing.T) {
	file := filepath.Join(t.TempDir(), "campaign.db")
	s := open(t, "sqlite:"+file)
	campaign(t, s, "c", 40, 100, 50, 100) // twenty of 2.50 fit in it
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReserveWorker$", "-test.v")
	cmd.Env = append(os.Environ(), processVariable+"="+file)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	here := reserveAll(t, s)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	var there int
	if _, counted, ok := strings.Cut(out.String(), "granted "); !ok {
		t.Fatal(out.String())
	} else if _, err := fmt.Sscan(counted, &there); err != nil {
		t.Fatal(err)
	}
	if here+there != 20 {
		t.Errorf("%d and %d reservations, want 20", here, there)
	}
	equal(t, "reserved", got[Budget](t)(s.Budget(t.Context(), OfCampaign, "c")).Reserved, dollars(50))
}

// TestReserveWorker is the other process.
func TestReserveWorker(t *testing.T) {
	file := os.Getenv(processVariable)
	if file == "" {
		t.Skip("it is started by TestProcessesReserve")
	}
	t.Logf("granted %d", reserveAll(t, open(t, "sqlite:"+file)))
}

// reserveAll intends an instance for each cell that has none, until the cap is reached.
func reserveAll(t *testing.T, s *Store) (granted int) {
	for n := range 40 {
		_, err := s.Intend(t.Context(), terms(cellName("c", n), "1"))
		switch {
		case err == nil:
			granted++
			time.Sleep(time.Millisecond)
		case !errors.Is(err, ErrCap) && !errors.Is(err, ErrAlive) && !errors.Is(err, ErrOffer):
			t.Error(err)
		}
	}
	return granted
}

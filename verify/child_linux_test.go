package verify

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
)

// What a driver has started dies with it.
func TestGroupIsKilled(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		parttest.Need(t, "no sh")
	}
	file := filepath.Join(t.TempDir(), "pid")
	_, err = Run(t.Context(), Options{Child: []string{sh, "-c", "sleep 60 & echo $! >" + file + "; wait"}, Deadline: 500 * time.Millisecond})
	if !errors.Is(err, ErrDeadline) {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		// A dead process that nobody has collected yet still takes signals.
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if syscall.Kill(pid, 0) != nil || bytes.Contains(stat, []byte(") Z ")) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("a grandchild outlived the deadline")
}

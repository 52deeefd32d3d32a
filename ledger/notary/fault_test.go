package notary

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
)

// Every kind of file system call fails in turn, at several places, in a notary of
// its own process; one directory goes through all of it. What was logged stays
// logged once, and a start on a sound disk logs the rest.
func TestFaultsOfTheDisk(t *testing.T) {
	t.Parallel() // it waits for processes
	strace, err := exec.LookPath("strace")
	if err != nil {
		parttest.Need(t, "no strace: apt-get install strace")
	}
	if out, err := exec.Command(strace, "-f", "-qq", "-o", os.DevNull, "-e", "trace=write", "-e", "inject=write:error=EIO:when=9999", "true").CombinedOutput(); err != nil {
		parttest.Need(t, fmt.Sprintf("strace may not trace here: %v %s", err, out))
	}
	most, step := 8, 4
	if os.Getenv("ASSAY_LONG") == "1" {
		most, step = 60, 1
	}
	dir := t.TempDir()
	work := filepath.Join(dir, "notary")
	m := filled(2, 5)
	sound := func(what string) {
		t.Helper()
		save(t, m, filepath.Join(dir, "feed.gob"))
		if out, err := childCommand(t, dir, 8).CombinedOutput(); err != nil {
			t.Fatalf("after %s, on a sound disk: %v\n%s", what, err, out)
		}
		wantLogged(t, work, m, envelopes)
	}
	faults, stopped := 0, 0
	for _, c := range []struct{ call, errno string }{
		{"openat", "ENOSPC"}, {"openat", "EACCES"}, {"write", "ENOSPC"}, {"write", "EIO"}, {"pwrite64", "ENOSPC"},
		{"fsync", "EIO"}, {"renameat,renameat2,rename", "ENOSPC"}, {"mkdirat,mkdir", "ENOSPC"}, {"ftruncate", "EIO"},
		{"linkat,link", "EIO"}, {"read", "EIO"}, {"pread64", "EIO"}, {"flock", "EIO"}, {"newfstatat,fstat,lstat", "EACCES"}, {"close", "EIO"},
	} {
		for k := 1; k <= most; k += step {
			what := fmt.Sprintf("%s of %s no. %d", c.errno, c.call, k)
			for p := range int32(2) {
				m.put(p, runRecord(fmt.Sprintf("node-%d", p), 0), eventRecord("x"), runRecord(fmt.Sprintf("node-%d", p), 0))
			}
			save(t, m, filepath.Join(dir, "feed.gob"))
			if k%2 == 0 || k == 1 { // more to make and to read
				os.Remove(filepath.Join(work, "positions.json"))
			}
			cmd := childCommand(t, dir, 8, strace, "-f", "-qq", "-o", os.DevNull, "-e", "trace="+c.call,
				"-e", fmt.Sprintf("inject=%s:error=%s:when=%d", c.call, c.errno, k))
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			err := cmd.Run()
			faults++
			said := stderr.String()
			var exit *exec.ExitError
			switch {
			case err == nil:
			case !errors.As(err, &exit):
				t.Fatal(err)
			case exit.ExitCode() == 9: // it says what happened and what to do
				stopped++
				if errors.Is(lastError(said), ErrWrite) && !strings.Contains(said, "start again") {
					t.Errorf("%s: it does not say what to do: %s", what, said)
				}
			case exit.ExitCode() == 127: // it was not even loaded
			case exit.ExitCode() == 2 && (strings.Contains(said, "posix.(*appender)") || strings.Contains(said, "fatal error")):
				// Tessera panics where it cannot take its own lock, and Go's runtime where
				// it cannot read what it needs: as good as a kill.
				stopped++
			default:
				t.Errorf("%s: %v\n%s", what, err, said)
			}
			if faults%6 == 0 {
				sound(what)
			}
		}
	}
	sound("all of it")
	fsck(t, work)
	t.Logf("%d faults, %d of which stopped it", faults, stopped)
	if stopped < faults/5 {
		t.Errorf("only %d of %d faults were noticed: the test shows little", stopped, faults)
	}
}

// lastError finds our word for a failed write in what a child said.
func lastError(said string) error {
	if strings.Contains(said, ErrWrite.Error()) && !strings.Contains(said, "feed.gob") {
		return ErrWrite
	}
	return nil
}

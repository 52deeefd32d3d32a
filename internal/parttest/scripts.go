package parttest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Scripts gives the directory of the scripts that install and start parts,
// .ci/parts, which it looks for from the test's directory upwards.
func Scripts(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		parts := filepath.Join(dir, ".ci", "parts")
		if _, err := os.Stat(filepath.Join(parts, "common.sh")); err == nil {
			return parts
		}
		up := filepath.Dir(dir)
		if up == dir {
			Need(tb, "no .ci/parts above the test's directory")
		}
		dir = up
	}
}

// Install runs a part's installing script, which does nothing when the part is
// there, and gives what it prints. Without the part the test ends as Need says.
func Install(tb testing.TB, part string) string {
	tb.Helper()
	out, err := script(nil, filepath.Join(Scripts(tb), part))
	if err != nil {
		Need(tb, "no "+part+": "+err.Error())
	}
	return strings.TrimSpace(out)
}

// Run runs a script with variables added to the environment and gives what it
// prints; one that fails ends the test.
func Run(tb testing.TB, env []string, name string, args ...string) string {
	tb.Helper()
	out, err := script(env, name, args...)
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// failure is a script that failed, and what it wrote.
type failure struct {
	call   string
	err    error
	stderr string
}

func (f failure) Error() string { return f.call + ": " + f.err.Error() + "\n" + f.stderr }

func script(env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", failure{filepath.Base(name) + " " + strings.Join(args, " "), err, stderr.String()}
	}
	return stdout.String(), nil
}

// StopAtEnd sees to it that a server ends with the test, also when the test's
// process is killed.
func StopAtEnd(tb testing.TB, serve, dir string) {
	tb.Helper()
	stop, err := watch(serve, dir)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := stop(); err != nil {
			tb.Errorf("%s stop: %v", filepath.Base(serve), err)
		}
	})
}

// watch starts a process of its own that waits for the end of a pipe which this
// one holds, and then stops the server and removes its directory: by stop, or when
// this process ends.
func watch(serve, dir string) (stop func() error, err error) {
	cmd := exec.Command("sh", "-c", `cat >/dev/null; "$0" stop "$1"; rc=$?; rm -rf "$1"; exit $rc`, serve, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is not for it
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() error {
		hold.Close()
		return cmd.Wait()
	}, nil
}

// Readme runs the commands of Markdown pages as a reader would: in an empty
// directory, one after the other, with our programs on the PATH.
//
//	readme [-bin DIR] [-counts FILE] README.md...
//
// Commands are the lines of ```console blocks that begin with "$ ", with the lines
// below that begin with "> ", as a shell asks for the rest of a command. Each must
// exit 0, or N where the line ends in "# exit N". A command that ends in "&"
// goes on in the background until the page is done. The first line of output
// that the page shows below a command must be there, numbers aside.
//
// A measurement that says of itself that this machine had no processor time for
// the client is right, and tells nothing about the page: it is made up to three
// times, and when no moment was quiet enough the command counts as skipped,
// with its reason.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	bin := flag.String("bin", "", "directory of the built programs; empty: build them")
	counts := flag.String("counts", "", "also write `FILE`: commands that worked, failed and were skipped, separated by spaces")
	flag.Parse()
	var all tally
	for _, page := range flag.Args() {
		got, err := follow(page, *bin)
		if err != nil {
			fmt.Fprintln(os.Stderr, "readme:", err)
			got.failed++
		}
		fmt.Printf("readme: %s: %d commands work, %d failed, %d skipped\n", page, got.worked, got.failed, got.skipped)
		all.add(got)
	}
	if *counts != "" {
		if err := os.WriteFile(*counts, fmt.Appendf(nil, "%d %d %d\n", all.worked, all.failed, all.skipped), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "readme:", err)
			os.Exit(1)
		}
	}
	if all.failed > 0 || all.worked+all.skipped == 0 {
		os.Exit(1)
	}
}

// tally is what came of commands. The first that fails ends its page: those
// below it may need what it should have made.
type tally struct{ worked, failed, skipped int }

func (t *tally) add(u tally) {
	t.worked += u.worked
	t.failed += u.failed
	t.skipped += u.skipped
}

// errBusy is a command that measured its own machine as too busy to measure.
var errBusy = errors.New("this machine had no processor time for the client")

const attempts = 3

var outFlag = regexp.MustCompile(`--out (\S+)`)

type step struct {
	line    int
	command string
	exit    int
	shown   string // first line of output on the page
}

var exitNote = regexp.MustCompile(`\s+# exit (\d)$`)

// read takes the steps out of a page.
func read(path string) ([]step, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var steps []step
	in, n := false, 0
	for s := bufio.NewScanner(f); s.Scan(); {
		n++
		line := s.Text()
		rest, isRest := strings.CutPrefix(line, "> ")
		switch command, isCommand := strings.CutPrefix(line, "$ "); {
		case !in:
			in = line == "```console"
		case line == "```":
			in = false
		case isCommand:
			st := step{line: n, command: command}
			if m := exitNote.FindStringSubmatch(command); m != nil {
				st.exit, _ = strconv.Atoi(m[1])
				st.command = strings.TrimSuffix(command, m[0])
			}
			steps = append(steps, st)
		case isRest && len(steps) > 0 && steps[len(steps)-1].shown == "":
			steps[len(steps)-1].command += "\n" + rest
		case len(steps) > 0 && steps[len(steps)-1].shown == "" && strings.TrimSpace(line) != "":
			steps[len(steps)-1].shown = line
		}
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("%s has no commands", path)
	}
	return steps, nil
}

func follow(path, bin string) (tally, error) {
	var n tally
	steps, err := read(path)
	if err != nil {
		return n, err
	}
	dir, err := os.MkdirTemp("", "readme")
	if err != nil {
		return n, err
	}
	defer os.RemoveAll(dir)
	if bin == "" {
		bin = filepath.Join(dir, "bin")
		out, err := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "github.com/assay-bench/assay/cmd/...").CombinedOutput()
		if err != nil {
			return n, fmt.Errorf("build: %w\n%s", err, out)
		}
	}
	work := filepath.Join(dir, "empty")
	if err := os.Mkdir(work, 0o755); err != nil {
		return n, err
	}
	env := append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	var background []*exec.Cmd
	defer func() {
		for _, c := range background {
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGTERM)
			_ = c.Wait()
		}
	}()
	for _, s := range steps {
		fmt.Printf("readme: line %d: %s\n", s.line, s.command)
		if command, ok := strings.CutSuffix(s.command, "&"); ok {
			c := exec.Command("bash", "-c", "exec "+command)
			c.Dir, c.Env, c.SysProcAttr = work, env, &syscall.SysProcAttr{Setpgid: true}
			if err := c.Start(); err != nil {
				return n, fmt.Errorf("%s:%d: %w", path, s.line, err)
			}
			background = append(background, c)
			time.Sleep(time.Second)
			n.worked++
			continue
		}
		switch err := s.try(work, env); {
		case errors.Is(err, errBusy):
			fmt.Printf("readme: line %d: skipped: %v, %d times\n", s.line, err, attempts)
			n.skipped++
		case err != nil:
			return n, fmt.Errorf("%s:%d: %s: %w", path, s.line, s.command, err)
		default:
			n.worked++
		}
	}
	return n, nil
}

// try runs a command, and again while the machine was too busy for it.
func (s step) try(dir string, env []string) error {
	err := s.run(dir, env)
	for range attempts - 1 {
		if !errors.Is(err, errBusy) {
			break
		}
		// A run's directory is made once: the next attempt makes it anew.
		if m := outFlag.FindStringSubmatch(s.command); m != nil {
			_ = os.RemoveAll(filepath.Join(dir, filepath.Clean("/"+m[1])))
		}
		err = s.run(dir, env)
	}
	return err
}

func (s step) run(dir string, env []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", s.command)
	c.Dir, c.Env = dir, env
	out, err := c.CombinedOutput()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		return err
	}
	if got := c.ProcessState.ExitCode(); got != s.exit {
		if got == 2 && bytes.Contains(out, []byte("invalid: the client was the bottleneck")) {
			return errBusy
		}
		return fmt.Errorf("exits %d, the page says %d:\n%s", got, s.exit, out)
	}
	if s.shown == "" {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		if masked(line) == masked(s.shown) {
			return nil
		}
	}
	return fmt.Errorf("no line like %q in its output:\n%s", s.shown, out)
}

var numbers = regexp.MustCompile(`[0-9][0-9.]*(ms|µs|s|m)?`)

// masked is a line without what differs from run to run.
func masked(line string) string {
	return strings.Join(strings.Fields(numbers.ReplaceAllString(line, "N")), " ")
}

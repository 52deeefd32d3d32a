// Testcount reads the output of `go test -json` and says what happened: the
// whole output of what failed, each skipped test with its reason, the packages
// that took longest, and one line of counts.
//
// A run that says nothing is not a good run: input that ends before its
// packages do, or holds no test at all, exits non-zero. So does any failure.
//
//	$ go test -json ./... | go run ./tools/testcount -counts FILE
//
// With -counts the three numbers are also written to FILE, for a script that
// sums over several runs. With -again a test that failed is run once more,
// alone, with the flags that stand behind --: `go test -json -count=1 FLAG...`. Its
// first failure is printed all the same, and named again above the counts.
//
// Alone means beside no other run either: with -turn all that use one FILE share
// its lock while their tests run, and a second try has it for itself.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/assay-bench/assay/tools/gotest"
)

func main() {
	counts := flag.String("counts", "", "also write `FILE`: passed, failed and skipped, separated by spaces")
	allowNone := flag.Bool("allow-none", false, "a run without any test is good")
	again := flag.Bool("again", false, "run what failed once more, alone; the arguments are flags for `go test`")
	turn := flag.String("turn", "", "with -again, the `FILE` whose lock is shared with runs beside this one")
	flag.Parse()
	if !*again && (flag.NArg() > 0 || *turn != "") {
		fmt.Fprintln(os.Stderr, "testcount: arguments and -turn are for -again")
		os.Exit(1)
	}
	ok, err := run(*counts, *turn, *allowNone, *again, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(counts, turn string, allowNone, again bool, flags []string) (bool, error) {
	ours, err := share(turn)
	if err != nil {
		return false, err
	}
	defer ours.close()
	t, err := gotest.Read(os.Stdin, os.Stdout)
	if err != nil {
		return false, fmt.Errorf("reading test events: %w", err)
	}
	if again && t.Failed > 0 {
		if err := ours.alone(); err != nil {
			return false, err
		}
		if err := t.Again(os.Stdout, one(flags)); err != nil {
			return false, fmt.Errorf("second try: %w", err)
		}
	}
	t.Print(os.Stdout)
	if counts != "" {
		line := fmt.Sprintf("%d %d %d\n", t.Passed, t.Failed, len(t.Skipped))
		if err := os.WriteFile(counts, []byte(line), 0o644); err != nil {
			return false, err
		}
	}
	if t.Passed+t.Failed+len(t.Skipped) == 0 && !allowNone {
		return false, fmt.Errorf("no test ran")
	}
	return t.Failed == 0, nil
}

// one runs one test of one package.
func one(flags []string) func(pkg, test string) (io.Reader, error) {
	return func(pkg, test string) (io.Reader, error) {
		args := append([]string{"test", "-json", "-count=1", "-run", "^" + test + "$"}, flags...)
		cmd := exec.Command("go", append(args, pkg)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			return nil, err
		}
		return bytes.NewReader(out), nil
	}
}

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
// sums over several runs.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	counts := flag.String("counts", "", "also write `FILE`: passed, failed and skipped, separated by spaces")
	allowNone := flag.Bool("allow-none", false, "a run without any test is good")
	flag.Parse()
	ok, err := run(*counts, *allowNone)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(counts string, allowNone bool) (bool, error) {
	t, err := Read(os.Stdin, os.Stdout)
	if err != nil {
		return false, fmt.Errorf("reading test events: %w", err)
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

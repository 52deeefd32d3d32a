// Package childtest has a test's own program be the child that the test needs:
// what the child does comes by its command line, and the shipped program has
// nothing like it.
package childtest

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

const marker = "assay-test-child"

// Command is the command line of a child that shall do what the setup says.
func Command(tb testing.TB, setup any) []string {
	tb.Helper()
	b, err := json.Marshal(setup)
	if err != nil {
		tb.Fatal(err)
	}
	return []string{os.Args[0], marker, string(b)}
}

// Main is for TestMain, before all else: in a child that was started by Command it
// serves, and ends the process; elsewhere it does nothing.
func Main[Setup any](serve func(Setup) error) {
	if len(os.Args) != 3 || os.Args[1] != marker {
		return
	}
	var s Setup
	err := json.Unmarshal([]byte(os.Args[2]), &s)
	if err == nil {
		err = serve(s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

package telemetry

import (
	"fmt"
	"os"
	"testing"
)

// childRoles are what this test binary does when a test starts it anew with a
// role as its first argument, as the shipped binary does with a hidden
// subcommand.
var childRoles = map[string]func(args []string) error{
	"child-nvml":    serveNVML,
	"child-play":    servePlay,
	"child-stopped": serveStopped,
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if role, ok := childRoles[os.Args[1]]; ok {
			if err := role(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

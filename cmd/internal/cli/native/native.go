// Package native has the sides of this program that call native libraries, each
// in a process of its own that its parent can kill, and what is asked of them.
package native

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/internal/proc"
	"github.com/assay-bench/assay/telemetry"
	"github.com/assay-bench/assay/verify"
)

// New holds the sides of this program that call native libraries, each in
// a process of its own that its parent can kill. They speak over their standard
// input and output and are of no use to a person.
func New() *cobra.Command {
	cmd := &cobra.Command{Use: "native", Hidden: true, Short: "Call native libraries for a parent process"}
	cmd.AddCommand(&cobra.Command{
		Use: "nvml", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			src, err := telemetry.NewNVML(telemetry.NVMLOptions{})
			if err != nil {
				return err
			}
			defer src.Close()
			return telemetry.ServeChild(cmd.InOrStdin(), cmd.OutOrStdout(), src)
		},
	}, &cobra.Command{
		Use: "verify", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return verify.Serve(cmd.InOrStdin(), cmd.OutOrStdout(), verify.Native{})
		},
	}, &cobra.Command{
		// Between us and a tree of processes that must leave nothing behind, also
		// when we are killed.
		Use: "supervise", Args: cobra.NoArgs,
		Run: func(*cobra.Command, []string) { os.Exit(proc.Supervise()) },
	})
	return cmd
}

// Command is the command line of one of them.
func Command(name string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to start it again: %w", err)
	}
	return []string{self, "native", name}, nil
}

package campaign

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/campaign/sandbox/pretend"
	"github.com/assay-bench/assay/cmd/internal/cli"
)

// maxMachine bounds what a machine is told.
const maxMachine = 1 << 20

// newMachine is the process of a machine in a sandbox. It is of no use to a person.
func newMachine() *cobra.Command {
	return &cobra.Command{
		Use: "machine HOME", Hidden: true, Short: "Be a machine of a sandbox", Args: cli.Takes(1, 1, "its home directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var m pretend.Machine
			if err := json.NewDecoder(io.LimitReader(cmd.InOrStdin(), maxMachine)).Decode(&m); err != nil {
				return fmt.Errorf("read what to be: %w", err)
			}
			return m.Serve(cmd.Context(), args[0], func(address string) error {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), address)
				return err
			})
		},
	}
}

package command

import (
	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/summary"
)

// newLedger is the parent of what a node does with signatures. A program that
// can do more adds it by Under.
func newLedger() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Sign runs, and verify what others signed",
		Long: `Ledger makes results that cannot be altered unnoticed: a run is signed, the
signature goes into a log that can only grow, and a receipt beside the run proves
it to anybody, without a network.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newLedgerKeygen(), newLedgerSign(), newLedgerVerify())
	return cmd
}

// Under finds a command of the root by name, so that a fuller program can add
// commands below it; nil when there is none.
func Under(root *cobra.Command, name string) *cobra.Command {
	for _, c := range root.Commands() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// recompute makes what a run's statements rest on again from its evidence.
func recompute(dir string) (assay.Summary, assay.Health, error) {
	run, err := journal.Open(dir)
	if err != nil {
		return assay.Summary{}, assay.Health{}, err
	}
	sum, err := summary.Of(run)
	if err != nil {
		return assay.Summary{}, assay.Health{}, err
	}
	h, err := hammer.Health(run, sum)
	return sum, h, err
}

// Package ledger is the command ledger with what a node needs of it: to sign runs,
// and to verify what others signed.
package ledger

import (
	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/summary"
)

// New is the command ledger: what a node does with signatures, and what a program
// has beyond that.
func New(more ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Sign runs, and verify what others signed",
		Long: `Ledger makes results that cannot be altered unnoticed: a run is signed, the
signature goes into a log that can only grow, and a receipt beside the run proves
it to anybody, without a network.`,
	}
	cmd.AddCommand(newLedgerKeygen(), newLedgerSign(), newLedgerVerify())
	cmd.AddCommand(more...)
	return cmd
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

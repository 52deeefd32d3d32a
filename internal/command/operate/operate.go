// Package operate is what assay has beyond a node's commands: everything that
// needs libraries too heavy for a node.
package operate

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/internal/command"
	"github.com/assay-bench/assay/internal/proc"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/report/parquet"
)

// Assay is the root command of the full program.
func Assay() *cobra.Command {
	root := command.Node("assay", command.Extra{
		Formats: []command.ReportFormat{{
			Name: "parquet", Help: "requests.parquet and telemetry.parquet, in the run directory or in --output", Files: writeParquet,
		}},
		Outlet: func() command.Outlet { return &kafkaOutlet{} },
	})
	command.Under(root, "ledger").AddCommand(newLedgerCertify(), newLedgerRevoke(),
		newLedgerPublish(), newLedgerFlush(), newLedgerTopics(), newLedgerTail(), newLedgerEvents(),
		newLedgerNotary(), newLedgerWitness(), newLedgerHealth(), newLedgerProve(), newLedgerKeys(), newLedgerFsck(), newLedgerMonitor(), newLedgerRestore())
	root.AddCommand(newCompare(), newClaims(), newProbe(), newReady(), newSupervise())
	return root
}

// newSupervise is the process between us and an engine that we start: it ends
// everything that the engine left running, also when we are killed.
func newSupervise() *cobra.Command {
	return &cobra.Command{
		Use: "supervise", Hidden: true, Short: "Watch over a process tree for a parent process", Args: cobra.NoArgs,
		Run: func(*cobra.Command, []string) { os.Exit(proc.Supervise()) },
	}
}

func writeParquet(dir string, run *journal.Run) error {
	return errors.Join(
		command.SaveFile(filepath.Join(dir, "requests.parquet"), func(w io.Writer) error { return parquet.WriteRequests(w, run.Requests()) }),
		command.SaveFile(filepath.Join(dir, "telemetry.parquet"), func(w io.Writer) error { return parquet.WriteReadings(w, run.Readings()) }),
	)
}

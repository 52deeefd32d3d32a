// Package operate has the commands of the ledger that need libraries too heavy
// for a node: Kafka's client, and Tessera.
package operate

import (
	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli/publish"
)

// Commands are those to put below the command ledger.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		newLedgerCertify(), newLedgerRevoke(),
		newLedgerPublish(), newLedgerFlush(), newLedgerTopics(), newLedgerTail(), newLedgerEvents(),
		newLedgerNotary(), newLedgerWitness(), newLedgerHealth(), newLedgerProve(), newLedgerKeys(), newLedgerFsck(), newLedgerMonitor(), newLedgerRestore(),
	}
}

// Outlet lets another command deliver its records to Kafka. Each has its own.
func Outlet() publish.Outlet { return &kafkaOutlet{} }

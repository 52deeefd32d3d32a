// Assay-node is the lean program for a node: what assay can do there without a
// server, a database or a broker. Its commands are those of assay.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/agent"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/native"
	"github.com/assay-bench/assay/cmd/internal/hammer"
	"github.com/assay-bench/assay/cmd/internal/ledger"
	"github.com/assay-bench/assay/cmd/internal/report"
	"github.com/assay-bench/assay/cmd/internal/simulate"
	"github.com/assay-bench/assay/cmd/internal/verify"
)

func main() { os.Exit(cli.Main(root(), hammer.Words)) }

func root() *cobra.Command {
	return cli.Root("assay-node", licenses,
		hammer.New(nil),
		simulate.New(),
		verify.New(nil),
		report.New(), report.Runs(),
		ledger.New(),
		agent.New(),
		native.New(), agent.Check(), // for processes of our own
	)
}

// Assay proves what a GPU inference node can do: how fast it is, how healthy it
// is, what a token costs on it, and that the proof is true.
//
// Usage:
//
//	assay hammer [flags]      measure an engine
//	assay simulate [flags]    an engine whose truth is known
//	assay verify [flags]      is the GPU what it says, and does it compute right
//	assay compare FILE        which engine is faster, and is it more than noise
//	assay claims run FILE     check this machine against promises
//	assay report DIR          show a run again
//	assay runs                list the runs that there are
//	assay ledger COMMAND      sign, verify, publish, notarise, prove
//	assay server [flags]      run a network's server: who may serve, who is failing
//	assay node COMMAND        look at a network's nodes, and decide about them
//	assay campaign COMMAND    measure a matrix of rented GPUs, and give them back
//	assay docs [PAGE]         read the documentation, without a network
//	assay version
//
// With no flags, hammer looks for an engine on the ports where they usually
// listen, says which one it took, and answers in a minute. It also takes the
// command line of "vllm bench serve" when its first words are replaced.
//
//	$ assay version --format json
//	{"assay":"0.1.0-dev","go":"go1.26","run_format":"assay/run/v1"}
//
// Exit codes, everywhere: 0 done and good, 1 usage or internal error, 2 could
// not measure, 3 measured and it failed.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/agent"
	"github.com/assay-bench/assay/cmd/internal/campaign"
	"github.com/assay-bench/assay/cmd/internal/claims"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/native"
	"github.com/assay-bench/assay/cmd/internal/compare"
	"github.com/assay-bench/assay/cmd/internal/docs"
	"github.com/assay-bench/assay/cmd/internal/hammer"
	"github.com/assay-bench/assay/cmd/internal/ledger"
	"github.com/assay-bench/assay/cmd/internal/ledger/operate"
	"github.com/assay-bench/assay/cmd/internal/node"
	"github.com/assay-bench/assay/cmd/internal/report"
	"github.com/assay-bench/assay/cmd/internal/report/parquet"
	"github.com/assay-bench/assay/cmd/internal/server"
	"github.com/assay-bench/assay/cmd/internal/simulate"
	"github.com/assay-bench/assay/cmd/internal/verify"
)

// The reference is made from the commands, and is in the next build.
//
//go:generate go run . docs --format reference --output ../../docs/reference

func main() { os.Exit(cli.Main(root(), hammer.Words)) }

// root has every command: those of a node, and those that are too heavy for one.
func root() *cobra.Command {
	return cli.Root("assay", licenses,
		hammer.New(operate.Outlet()),
		simulate.New(),
		verify.New(operate.Outlet()),
		compare.New(),
		claims.New(),
		report.New(parquet.Format()), report.Runs(),
		ledger.New(operate.Commands()...),
		agent.New(), server.New(), node.New(), campaign.New(),
		docs.New(),
		native.New(), agent.Check(), claims.Probe(), claims.Ready(), // for processes of our own
	)
}

// Assay proves what a GPU inference node can do: how fast it is, how healthy it
// is, what a token costs on it, and that the proof is true.
//
// Usage:
//
//	assay hammer [flags]      measure an engine
//	assay simulate [flags]    an engine whose truth is known
//	assay verify [flags]      is the GPU what it says, and does it compute right
//	assay compare FILE        which engine is faster, and is it more than noise
//	assay claims run FILE     hold this machine against promises
//	assay report DIR          show a run again
//	assay ledger COMMAND      sign, verify, publish, notarise, prove
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

	"github.com/assay-bench/assay/internal/command"
	"github.com/assay-bench/assay/internal/command/operate"
)

func main() { os.Exit(command.Main(operate.Assay())) }

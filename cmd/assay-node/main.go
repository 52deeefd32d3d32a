// Assay-node is the lean program for a node: what assay can do there without a
// server, a database or a broker. Its commands are those of assay.
package main

import (
	"os"

	"github.com/assay-bench/assay/internal/command"
)

func main() { os.Exit(command.Main(command.Node("assay-node", command.Extra{}))) }

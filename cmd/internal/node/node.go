// Package node has the commands that look at a network's nodes and act on them, as
// clients of an assay server.
package node

import (
	"fmt"

	"github.com/spf13/cobra"
)

// New is the command "node".
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Look at a network's nodes, and decide about them",
		Long: `Look at the nodes of a network, and decide about them: a client of assay server.

It asks the server at --server URL, or ASSAY_SERVER, with the API token in
--token-file FILE, or ASSAY_TOKEN_FILE. Decisions need --reason, which is kept
with who decided. A node is named by its id, by the beginning of one, or by its
host, as far as only one node is meant.`,
	}
	cmd.AddCommand(newList(), newShow(), newHistory(), newAnomalies(), newFindings(), newMeasure(), newMeasurement())
	for _, a := range actions {
		cmd.AddCommand(newAction(a))
	}
	return cmd
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func score(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.2f", *v)
}

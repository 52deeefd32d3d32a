package command

import (
	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/summary"
)

func newReport() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Show a run again",
		Long: `Report summarises a run directory anew and shows it. A run that was broken off,
or that is still under way, can be shown too.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return badFormat(format)
			}
			run, err := journal.Open(args[0])
			if err != nil {
				return unknown(err)
			}
			sum, err := summary.Of(run)
			if err != nil {
				return unknown(err)
			}
			return show(cmd.OutOrStdout(), sum, format)
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "text or json")
	return cmd
}

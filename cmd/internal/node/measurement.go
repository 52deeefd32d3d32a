package node

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/remote"
	"github.com/assay-bench/assay/network/api"
)

func newMeasurement() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "measurement",
		Short: "Show measurements over several nodes, and cancel them",
		Long: `Show measurements over several nodes, and cancel them; "assay node measure" begins
one. docs/measurements.md explains what is shown.`,
	}
	cmd.AddCommand(newMeasurementList(), newMeasurementShow(), newMeasurementCancel())
	return cmd
}

func newMeasurementList() *cobra.Command {
	var f remote.Output
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List measurements, newest first",
		Args:  cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > 1000 {
				return fmt.Errorf("--limit %d: from 1 to 1000", limit)
			}
			c, err := f.Open()
			if err != nil {
				return err
			}
			r, err := c.ListMeasurementsWithResponse(cmd.Context(), &api.ListMeasurementsParams{Limit: &limit})
			if err != nil {
				return c.Answer(nil, nil, err)
			}
			if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
				return err
			}
			if r.JSON200 == nil {
				return errNoMeasurement
			}
			return f.Print(cmd.OutOrStdout(), r.JSON200, measurementsPage(*r.JSON200))
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().IntVar(&limit, "limit", 20, "how many")
	return cmd
}

func newMeasurementShow() *cobra.Command {
	var f remote.Output
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a measurement, node by node, and its joint result",
		Long: `Show a measurement, node by node, and its joint result once it has ended. Exit codes:
0 it runs, or every node was measured; 1 used wrongly; 2 some nodes were not.`,
		Args: cli.Takes(1, 1, "a measurement's id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.Open()
			if err != nil {
				return err
			}
			m, err := getMeasurement(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if err := f.Print(cmd.OutOrStdout(), m, measurementPage(m)); err != nil {
				return err
			}
			return whole(m)
		},
	}
	f.Register(cmd.Flags())
	return cmd
}

func newMeasurementCancel() *cobra.Command {
	var f remote.Flags
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "End a measurement: what has been measured stays",
		Args:  cli.Takes(1, 1, "a measurement's id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.Open()
			if err != nil {
				return err
			}
			r, err := c.CancelMeasurementWithResponse(cmd.Context(), args[0])
			if err != nil {
				return c.Answer(nil, nil, err)
			}
			if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "measurement %s ends\n", args[0])
			return err
		},
	}
	f.Register(cmd.Flags())
	return cmd
}

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/native"
	"github.com/assay-bench/assay/network/agent"
	"github.com/assay-bench/assay/verify"
)

// maxOrder bounds what a child is told.
const maxOrder = 4 << 20

// Check is the process that makes one check for an agent: it has no key of the
// node, and can be killed. It is of no use to a person.
func Check() *cobra.Command {
	return &cobra.Command{
		Use: "agent-check", Hidden: true, Short: "Make one check for an agent", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return checkOnce(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func checkOnce(ctx context.Context, in io.Reader, out io.Writer) error {
	var order agent.Order
	if err := json.NewDecoder(io.LimitReader(in, maxOrder)).Decode(&order); err != nil {
		return fmt.Errorf("read what to check: %w", err)
	}
	nvml, err := native.Command("nvml")
	if err != nil {
		return err
	}
	say := json.NewEncoder(out)
	_, err = agent.Measure(ctx, order, agent.MeasureOptions{
		Version: cli.MeasuringVersion(), NVML: nvml,
		Verify: func(ctx context.Context, o verify.Options) (verify.Result, error) {
			found, err := native.Verify(ctx, o)
			return found.Result, err
		},
		Progress: func(c assay.Checkpoint) { _ = say.Encode(agent.Line{Checkpoint: &c}) }, // an agent that is gone does not look
	})
	last := agent.Line{Done: err == nil, Yielded: errors.Is(err, agent.ErrYield)}
	if err != nil {
		last.Error = err.Error()
	}
	return errors.Join(err, say.Encode(last))
}

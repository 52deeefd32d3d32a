package server

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/remote"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/report"
)

func newBreaker() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "breaker",
		Short: "Show the breaker, and lift it",
		Long: `Show the breaker, and lift it: a client of a server.

It holds while so many nodes are out, or silent at once, that the measuring is more
likely wrong than the nodes (docs/admission.md): nobody more is quarantined for soft
reasons then, and nobody becomes silent. If the nodes are really bad or gone, a
person lifts it.`,
	}
	cmd.AddCommand(newBreakerShow(), newBreakerLift())
	return cmd
}

func newBreakerShow() *cobra.Command {
	var f remote.Output
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Say whether the breaker holds, since when and why",
		Args:  cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.Open()
			if err != nil {
				return err
			}
			r, err := c.GetBreakerWithResponse(cmd.Context())
			if err != nil {
				return c.Answer(nil, nil, err)
			}
			if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
				return err
			}
			if r.JSON200 == nil {
				return errNoBreaker
			}
			return f.Print(cmd.OutOrStdout(), r.JSON200, breakerPage(*r.JSON200))
		},
	}
	f.Register(cmd.Flags())
	return cmd
}

var errNoBreaker = errors.New("the server's answer is no breaker")

// maxLift is the longest time that the API takes.
const maxLift = 30 * 24 * time.Hour

func newBreakerLift() *cobra.Command {
	var f remote.Output
	var reason string
	var lifted time.Duration
	cmd := &cobra.Command{
		Use:   "lift --reason WHY",
		Short: "Let the breaker hold nothing for a time",
		Long: `Let the breaker hold nothing for a time. What it held back may happen then: nodes are
quarantined, or silent. Look first with "assay node list" whether they really are.`,
		Args: cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if strings.TrimSpace(reason) == "" {
				return errors.New("--reason WHY is needed: it is kept with the decision, for whoever asks later")
			}
			if lifted < time.Second || lifted > maxLift || lifted%time.Second != 0 {
				return fmt.Errorf("--for %s: whole seconds up to %s are allowed, as 90m or 2h", lifted, maxLift)
			}
			c, err := f.Open()
			if err != nil {
				return err
			}
			r, err := c.ResetBreakerWithResponse(cmd.Context(), api.BreakerLift{Reason: reason, Seconds: new(int(lifted / time.Second))})
			if err != nil {
				return c.Answer(nil, nil, err)
			}
			if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
				return err
			}
			if r.JSON200 == nil {
				return errNoBreaker
			}
			return f.Print(cmd.OutOrStdout(), r.JSON200, breakerPage(*r.JSON200))
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().StringVar(&reason, "reason", "", "why, in words")
	cmd.Flags().DurationVar(&lifted, "for", time.Hour, "how long; the policy's override.max says how long at most")
	return cmd
}

func breakerPage(b api.Breaker) report.Page {
	word := "holds nothing back"
	if b.Open {
		word = "holds: nobody more is quarantined for soft reasons"
	}
	t := report.Table{Columns: []report.Column{{Name: "fact"}, {Name: "value", Words: true}}, Rows: [][]string{
		{"breaker", word}, {"quarantined", fmt.Sprintf("%d, and %d may be without a person", b.Quarantined, b.Allowed)},
	}}
	if b.LiftedUntil != nil {
		by := ""
		if b.LiftedBy != nil {
			by = ", by " + *b.LiftedBy
		}
		t.Rows = append(t.Rows, []string{"lifted", "until " + stamp(*b.LiftedUntil) + by})
	}
	if b.Since != nil {
		t.Rows = append(t.Rows, []string{"since", stamp(*b.Since)})
	}
	if b.Reasons != nil {
		t.Rows = append(t.Rows, []string{"reasons", strings.Join(*b.Reasons, "; ")})
	}
	return report.Page{Title: "Breaker", Blocks: []report.Block{t}}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

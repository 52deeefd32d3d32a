package server

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/cmd/internal/cli/remote"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/report"
)

// maxPolicy bounds a policy's file, as the API does.
const maxPolicy = 256 << 10

func newPolicy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Show, test and apply the policy by which nodes are judged",
		Long: `Show, test and apply the policy by which nodes are judged: a client of a server.

A policy is one file (docs/formats/policy.md). Test it first: the server runs it
over what happened, and says which decisions would have been others.`,
	}
	cmd.AddCommand(newPolicyShow(), newPolicyApply(), newPolicyTest())
	return cmd
}

func newPolicyShow() *cobra.Command {
	var f remote.Flags
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the policy in force, as it was applied",
		Args:  cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.Open()
			if err != nil {
				return err
			}
			r, err := c.GetPolicyWithResponse(cmd.Context())
			if err != nil {
				return c.Answer(nil, nil, err)
			}
			if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(r.Body)
			return err
		},
	}
	f.Register(cmd.Flags())
	return cmd
}

func newPolicyApply() *cobra.Command {
	var f remote.Flags
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Put a policy in force",
		Args:  cli.Takes(1, 1, "a policy's file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, c, err := policyText(f, args[0])
			if err != nil {
				return err
			}
			r, err := c.PutPolicyWithTextBodyWithResponse(cmd.Context(), text)
			if err != nil {
				return c.Answer(nil, nil, err)
			}
			if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
				return err
			}
			if r.JSON200 == nil {
				return errors.New("the server's answer names no version")
			}
			word := "was in force already"
			if r.JSON200.Changed {
				word = "is in force"
			}
			fmt.Fprintf(cmd.OutOrStdout(), "policy version %d %s\n", r.JSON200.Version, word)
			return nil
		},
	}
	f.Register(cmd.Flags())
	return cmd
}

func newPolicyTest() *cobra.Command {
	var f remote.Flags
	var days int
	var format string
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Say what a policy would have decided",
		Args:  cli.Takes(1, 1, "a policy's file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return cli.BadFormat(format)
			}
			text, c, err := policyText(f, args[0])
			if err != nil {
				return err
			}
			r, err := c.TestPolicyWithTextBodyWithResponse(cmd.Context(), &api.TestPolicyParams{Days: &days}, text)
			if err != nil {
				return c.Answer(nil, nil, err)
			}
			if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
				return err
			}
			if r.JSON200 == nil {
				return errors.New("the server's answer is no test of a policy")
			}
			return printTest(cmd.OutOrStdout(), format, *r.JSON200)
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().IntVar(&days, "days", 30, "of history")
	cli.FormatFlag(cmd.Flags(), &format, "of the answer: text or json", "text", "json")
	return cmd
}

func policyText(f remote.Flags, path string) (string, *remote.Client, error) {
	b, err := keys.ReadSmall(path, maxPolicy)
	if err != nil {
		return "", nil, fmt.Errorf("read the policy: %w", err)
	}
	c, err := f.Open()
	return string(b), c, err
}

func printTest(w io.Writer, format string, t api.PolicyTest) error {
	if format == "json" {
		return cli.WriteJSON(w, t)
	}
	table := report.Table{Columns: []report.Column{{Name: "time"}, {Name: "node", Words: true}, {Name: "decided", Words: true}, {Name: "would be", Words: true}, {Name: "why", Words: true}}}
	for _, d := range t.Decisions {
		why := ""
		if d.Reasons != nil {
			why = strings.Join(*d.Reasons, "; ")
		}
		table.Rows = append(table.Rows, []string{d.Time.UTC().Format(time.RFC3339), d.Node, d.Now, d.Then, why})
	}
	table.Note = fmt.Sprintf("%d events of %d nodes; %d decisions differ.", t.Events, t.Nodes, len(t.Decisions))
	return cli.Show(w, report.Page{Title: "Policy test", Blocks: []report.Block{table}})
}

package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/remote"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/report"
)

// auditFlags say which entries are wanted.
type auditFlags struct {
	remote.Output
	since, node string
	limit       int
}

func newAudit() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Print what was done by whom, the newest first",
		Long: `Print what was done at a server by whom, the newest first: a client of a server.
Each entry is also signed for the ledger (docs/security.md).`,
		Example: `  assay server audit --since 24h
  assay server audit --since 2026-11-16T00:00:00Z --limit 5000 --format json`,
		Args: cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			since, err := f.from(time.Now())
			if err != nil {
				return err
			}
			c, err := f.Open()
			if err != nil {
				return err
			}
			entries, more, err := f.list(cmd.Context(), c, since)
			if err != nil {
				return err
			}
			return f.Print(cmd.OutOrStdout(), entries, auditPage(entries, more))
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().StringVar(&f.since, "since", "", "only what is not older: a `time` as 90m or 24h, or a moment as 2026-11-16T03:00:00Z")
	cmd.Flags().IntVar(&f.limit, "limit", 100, "at most so many")
	cmd.Flags().StringVar(&f.node, "node", "", "only what is about the node with this `id`")
	return cmd
}

// from is the moment of --since; zero: the beginning.
func (f *auditFlags) from(now time.Time) (time.Time, error) {
	if f.limit < 1 {
		return time.Time{}, fmt.Errorf("--limit %d: one at least", f.limit)
	}
	if f.since == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(f.since); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, f.since)
	if err != nil {
		return t, fmt.Errorf("--since %q: write how long ago, as 24h, or a moment, as 2026-11-16T03:00:00Z", f.since)
	}
	return t, nil
}

// list asks until there are enough, or what comes is older. More says that there
// is more of what was asked for.
func (f *auditFlags) list(ctx context.Context, c *remote.Client, since time.Time) (out []api.AuditEntry, more bool, err error) {
	p := api.ListAuditParams{}
	if f.node != "" {
		p.Node = &f.node
	}
	out = []api.AuditEntry{}
	for {
		p.Limit = new(min(pageSize, f.limit-len(out)+1)) // one more says whether there is more
		r, err := c.ListAuditWithResponse(ctx, &p)
		if err != nil {
			return nil, false, c.Answer(nil, nil, err)
		}
		if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
			return nil, false, err
		}
		if r.JSON200 == nil {
			return nil, false, errors.New("the server's answer is no audit log")
		}
		for _, e := range *r.JSON200 {
			switch {
			case e.Time.Before(since):
				return out, false, nil
			case len(out) == f.limit:
				return out, true, nil
			}
			out = append(out, e)
		}
		n := len(*r.JSON200)
		if n < *p.Limit {
			return out, false, nil
		}
		p.Before = &(*r.JSON200)[n-1].Id
	}
}

func auditPage(entries []api.AuditEntry, more bool) report.Page {
	t := report.Table{Columns: []report.Column{{Name: "time"}, {Name: "who", Words: true}, {Name: "did", Words: true}, {Name: "to", Words: true}, {Name: "outcome", Words: true}, {Name: "detail", Words: true}}}
	for _, e := range entries {
		detail := ""
		if e.Detail != nil {
			detail = *e.Detail
		}
		t.Rows = append(t.Rows, []string{stamp(e.Time), e.Actor, e.Action, e.Target, e.Outcome, detail})
	}
	t.Note = fmt.Sprintf("%d entries.", len(entries))
	if more {
		t.Note = fmt.Sprintf("%d entries, and there are older ones: --limit shows more.", len(entries))
	}
	return report.Page{Title: "Audit log", Blocks: []report.Block{t}}
}

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/remote"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/report"
)

// pageSize is how much of a list is asked for at once.
const pageSize = 1000

// tokenKind is one of the two kinds of tokens that a server lists and takes back.
type tokenKind struct {
	title string
	list  func(context.Context, *remote.Client, *string) ([]api.Token, error)
	end   func(context.Context, *remote.Client, string) error
}

// enrolmentTokens take in nodes.
var enrolmentTokens = tokenKind{
	title: "Enrolment tokens",
	list: func(ctx context.Context, c *remote.Client, before *string) ([]api.Token, error) {
		r, err := c.ListEnrolmentTokensWithResponse(ctx, &api.ListEnrolmentTokensParams{Limit: new(pageSize), Before: before})
		if err != nil {
			return nil, c.Answer(nil, nil, err)
		}
		return tokensOf(r.JSON200, c.Answer(r.HTTPResponse, r.Body, nil))
	},
	end: func(ctx context.Context, c *remote.Client, id string) error {
		r, err := c.DeleteEnrolmentTokenWithResponse(ctx, id)
		if err != nil {
			return c.Answer(nil, nil, err)
		}
		return c.Answer(r.HTTPResponse, r.Body, nil)
	},
}

// accessTokens say who asks.
var accessTokens = tokenKind{
	title: "API tokens",
	list: func(ctx context.Context, c *remote.Client, before *string) ([]api.Token, error) {
		r, err := c.ListTokensWithResponse(ctx, &api.ListTokensParams{Limit: new(pageSize), Before: before})
		if err != nil {
			return nil, c.Answer(nil, nil, err)
		}
		return tokensOf(r.JSON200, c.Answer(r.HTTPResponse, r.Body, nil))
	},
	end: func(ctx context.Context, c *remote.Client, id string) error {
		r, err := c.DeleteTokenWithResponse(ctx, id)
		if err != nil {
			return c.Answer(nil, nil, err)
		}
		return c.Answer(r.HTTPResponse, r.Body, nil)
	},
}

func tokensOf(list *[]api.Token, err error) ([]api.Token, error) {
	if err == nil && list == nil {
		err = errors.New("the server's answer is no list of tokens")
	}
	if err != nil {
		return nil, err
	}
	return *list, nil
}

// all asks until there is no more.
func (k tokenKind) all(ctx context.Context, c *remote.Client) ([]api.Token, error) {
	out := []api.Token{}
	var before *string
	for {
		some, err := k.list(ctx, c, before)
		if err != nil {
			return nil, err
		}
		if out = append(out, some...); len(some) < pageSize {
			return out, nil
		}
		before = &some[len(some)-1].Id
	}
}

func (k tokenKind) newList(short string) *cobra.Command {
	var f remote.Output
	var ended bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: short,
		Args:  cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.Open()
			if err != nil {
				return err
			}
			tokens, err := k.all(cmd.Context(), c)
			if err != nil {
				return err
			}
			now := time.Now()
			shown := []api.Token{}
			for _, t := range tokens {
				if ended || standing(t, now) == "good" {
					shown = append(shown, t)
				}
			}
			return f.Print(cmd.OutOrStdout(), shown, k.page(shown, len(tokens)-len(shown), now))
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().BoolVar(&ended, "all", false, "also those that have ended, were used or revoked")
	return cmd
}

func (k tokenKind) newRevoke(short string) *cobra.Command {
	var f remote.Flags
	cmd := &cobra.Command{
		Use:   "revoke TOKEN...",
		Short: short,
		Long: short + `.

A token is named by its id, which "list" has: it is no secret. One that is refused
does not keep the others from being tried; then the exit code is 1.`,
		Args: cli.Takes(1, cli.Any, "tokens' ids"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.Open()
			if err != nil {
				return err
			}
			return k.revoke(cmd.Context(), c, args, cmd.OutOrStdout())
		},
	}
	f.Register(cmd.Flags())
	return cmd
}

func (k tokenKind) revoke(ctx context.Context, c *remote.Client, ids []string, w io.Writer) error {
	tokens, err := k.all(ctx, c)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, t := range tokens {
		known[t.Id] = true
	}
	var errs []error
	for _, id := range ids {
		if !known[id] {
			errs = append(errs, fmt.Errorf("there is no token %s among %s", foreign.Line(id, 100), strings.ToLower(k.title[:1])+k.title[1:]))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("nothing was done: %w", errors.Join(errs...))
	}
	for _, id := range ids {
		if err := k.end(ctx, c, id); err != nil {
			errs = append(errs, fmt.Errorf("token %s: %w", id, err))
			continue
		}
		fmt.Fprintf(w, "token %s is void\n", id)
	}
	return errors.Join(errs...)
}

// standing says whether a token may still be used.
func standing(t api.Token, now time.Time) string {
	switch {
	case t.Revoked != nil && *t.Revoked:
		return "revoked"
	case t.UsedBy != nil:
		return "used by " + *t.UsedBy
	case !t.Expires.After(now):
		return "ended"
	}
	return "good"
}

func (k tokenKind) page(tokens []api.Token, hidden int, now time.Time) report.Page {
	t := report.Table{Columns: []report.Column{{Name: "token"}, {Name: "name", Words: true}, {Name: "role", Words: true}, {Name: "owners", Words: true}, {Name: "made", Words: true}, {Name: "ends", Words: true}, {Name: "state", Words: true}}}
	for _, k := range tokens {
		name, role, owners := "", "node", "all"
		if k.Name != nil {
			name = *k.Name
		}
		if k.Role != nil {
			role = string(*k.Role)
		}
		if k.Owners != nil {
			owners = strings.Join(*k.Owners, ", ")
		}
		t.Rows = append(t.Rows, []string{k.Id, name, role, owners, stamp(k.Created), stamp(k.Expires), standing(k, now)})
	}
	t.Note = fmt.Sprintf("%d tokens.", len(tokens))
	if hidden > 0 {
		t.Note = fmt.Sprintf("%d tokens; %d that have ended are left out, --all shows them.", len(tokens), hidden)
	}
	return report.Page{Title: k.title, Blocks: []report.Block{t}}
}

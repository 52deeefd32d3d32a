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
)

func newAccess() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "access",
		Short: "API tokens: make, list and revoke what programs ask with",
		Long: `Make, list and revoke API tokens, with which people's programs ask: a client of a
server. Nodes have none: they are taken in by "assay server token".`,
	}
	cmd.AddCommand(newAccessCreate(), accessTokens.newList("List API tokens, without their secrets"), accessTokens.newRevoke("Take API tokens back"))
	return cmd
}

// accessFlags say what a new API token may do.
type accessFlags struct {
	remote.Flags
	name, role, out string
	owners          []string
	valid           time.Duration
}

func newAccessCreate() *cobra.Command {
	var f accessFlags
	cmd := &cobra.Command{
		Use:   "create --name NAME --role ROLE",
		Short: "Make an API token for a program",
		Long: `Make an API token for a program: a client of a server. docs/security.md says what
each role may.

The token is printed once, and nothing else is: the server has only its hash. With
--out it goes to a new file that only you can read. It ends by itself.`,
		Args: cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, body, err := f.body()
			if err != nil {
				return err
			}
			ask := func() (string, error) { return created(cmd.Context(), c, body) }
			if f.out != "" {
				return writeToken(f.out, ask)
			}
			token, err := ask()
			if err == nil {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			}
			return err
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().StringVar(&f.name, "name", "", "what it is for, as lists show it")
	cmd.Flags().StringVar(&f.role, "role", "", "what it may: router, viewer, operator or admin")
	cmd.Flags().StringSliceVar(&f.owners, "owner", nil, "whose nodes it sees; may be given several times; without it those of all")
	cmd.Flags().StringVar(&f.out, "out", "", "write it to this new `file`, for its owner only, and print nothing")
	cmd.Flags().DurationVar(&f.valid, "valid", 90*24*time.Hour, "how long it may be used, a year at most")
	return cmd
}

// body is what is asked for, and who is asked.
func (f *accessFlags) body() (c *remote.Client, body api.NewToken, err error) {
	role := api.NewTokenRole(f.role)
	switch {
	case f.name == "":
		return nil, body, errors.New("--name NAME is needed: what the token is for, so that somebody knows later whether it may be revoked")
	case !role.Valid():
		return nil, body, fmt.Errorf("--role %q: known are router, viewer, operator, admin", f.role)
	case f.valid < time.Minute || f.valid > 365*24*time.Hour:
		return nil, body, fmt.Errorf("--valid %s: a minute to a year (8760h) are allowed", f.valid)
	}
	body = api.NewToken{Name: f.name, Role: role, Seconds: new(int(f.valid / time.Second))}
	if len(f.owners) > 0 {
		body.Owners = &f.owners
	}
	c, err = f.Open()
	return c, body, err
}

// created asks for the token.
func created(ctx context.Context, c *remote.Client, body api.NewToken) (string, error) {
	r, err := c.CreateTokenWithResponse(ctx, body)
	if err != nil {
		return "", c.Answer(nil, nil, err)
	}
	if err := c.Answer(r.HTTPResponse, r.Body, nil); err != nil {
		return "", err
	}
	if r.JSON201 == nil {
		return "", errors.New("the server's answer has no token")
	}
	return r.JSON201.Token, nil
}

package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/remote"
	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/network/api"
)

func newToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Enrolment tokens: make, list and revoke what takes in nodes",
		Long: `Make, list and revoke tokens that take in one node each: a client of a server. What
people's programs ask with is made by "assay server access".`,
	}
	cmd.AddCommand(newTokenCreate(), enrolmentTokens.newList("List enrolment tokens, without their secrets"), enrolmentTokens.newRevoke("Take enrolment tokens back"))
	return cmd
}

func newTokenCreate() *cobra.Command {
	var f remote.Flags
	var owner, out string
	var valid time.Duration
	cmd := &cobra.Command{
		Use:   "create --owner NAME",
		Short: "Make a token that takes in one node of an owner",
		Long: `Make a token that takes in one node of an owner: a client of a server.

The token is printed once, and nothing else is: the server has only its hash. With
--out it goes to a new file that only you can read.`,
		Args: cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case owner == "":
				return errors.New("--owner NAME is needed: whose node it will be")
			case valid < time.Minute || valid > 30*24*time.Hour:
				return fmt.Errorf("--valid %s: a minute to 30 days are allowed", valid)
			}
			c, err := f.Open()
			if err != nil {
				return err
			}
			seconds := int(valid / time.Second)
			ask := func() (string, error) {
				r, err := c.CreateEnrolmentTokenWithResponse(cmd.Context(), api.NewEnrolmentToken{Owner: owner, Seconds: &seconds})
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
			if out != "" {
				return writeToken(out, ask)
			}
			token, err := ask()
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), token)
			}
			return err
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().StringVar(&owner, "owner", "", "whose node it will be: small letters, digits, dots, dashes")
	cmd.Flags().StringVar(&out, "out", "", "write it to this new `file`, for its owner only, and print nothing")
	cmd.Flags().DurationVar(&valid, "valid", 24*time.Hour, "how long it may be used")
	return cmd
}

// writeToken writes a secret to a new file that only its owner can read. The file is
// made first: a token that was made and has nowhere to go would be lost, and valid.
func writeToken(path string, get func() (string, error)) error {
	err := disk.Create(path, 0o600, func(w io.Writer) error {
		token, err := get()
		if err == nil {
			_, err = fmt.Fprintln(w, token)
		}
		return err
	})
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: name a new file, or move the old one away yourself", path)
	}
	if err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	return nil
}

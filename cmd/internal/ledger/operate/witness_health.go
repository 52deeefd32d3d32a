package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/internal/foreign"
)

// newLedgerHealth asks a notary or a witness whether it is well: for the health
// checks of containers, whose images have no other program in them.
func newLedgerHealth() *cobra.Command {
	var tokenFile string
	cmd := &cobra.Command{
		Use:   "health URL",
		Short: "Ask a notary or a witness whether it is well",
		Long: `Health asks URL/healthz once, for at most five seconds.

Exit codes: 0 it is well; 1 used wrongly; 2 it did not answer; 3 it answered that
it is not well.`,
		Example: `  assay ledger health http://127.0.0.1:8080`,
		Args:    cli.Takes(1, 1, "the URL of a notary or a witness"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var token string
			if tokenFile != "" {
				var err error
				if token, err = cli.ReadToken(tokenFile); err != nil {
					return fmt.Errorf("--token-file: %w", err)
				}
			}
			return askHealth(cmd.Context(), args[0], token, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "`file` with the bearer token that it asks for")
	return cmd
}

func askHealth(ctx context.Context, url, token string, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/healthz", http.NoBody)
	if err != nil {
		return fmt.Errorf("ask %q: %w", url, err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	// Its own answer is asked for, not that of where it points.
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return cli.Unknown(fmt.Errorf("it did not answer: %w", err))
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return cli.Unknown(fmt.Errorf("its answer broke off: %w", err))
	}
	words := foreign.Line(b, maxShown)
	if resp.StatusCode != http.StatusOK {
		return cli.Failed(errors.New("it is not well: " + resp.Status + ": " + words))
	}
	fmt.Fprintln(stdout, words)
	return nil
}

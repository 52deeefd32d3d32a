package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/clouds"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/report"
)

type checkFlags struct {
	clouds.Credentials
	format string
}

func newCheck() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check [PROVIDER…]",
		Short: "Prove that credentials work, and what they may do; rent nothing",
		Long: `Check asks each provider that there are credentials for: is the key good, what money
is left, which machines does the account have, and what is on offer. A key that is
refused is told from an empty list, which some providers answer in its place: a list
is believed only when the key was proved to be good.

Keys come from --credentials FILE, which must have mode 0600, or else from the
environment, or else from .env in this directory: VAST_API_KEY, TENSORDOCK_API_KEY.
They are never arguments, and never printed. ASSAY_PROVIDERS names the file of
machines and programs of one's own (docs/providers.md).

Exit codes: 0 all are good; 1 used wrongly, or there are none; 2 a provider did not
answer, or has no way to prove a key; 3 a key was refused.`,
		Example: `  assay campaign check
  assay campaign check vast --credentials keys.env --format json`,
		Args: cli.Takes(0, cli.Any, "names of providers"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout())
		},
	}
	f.Register(cmd.Flags())
	cli.FormatFlag(cmd.Flags(), &f.format, "text or json", "text", "json")
	return cmd
}

// checked is what became known of a provider.
type checked struct {
	Provider string        `json:"provider"`
	Source   string        `json:"source"` // where its key is from
	Verdict  assay.Verdict `json:"verdict"`
	Key      string        `json:"key"` // good, refused or unknown
	Balance  *assay.Money  `json:"balance"`
	// Instances are those of the account, of whatever program; null: not known.
	Instances *int   `json:"instances"`
	Offers    *int   `json:"offers"`
	Guarantee string `json:"guarantee"`
	Why       string `json:"why,omitempty"`
}

func (f *checkFlags) run(ctx context.Context, names []string, w io.Writer) error {
	if f.format != "text" && f.format != "json" {
		return cli.BadFormat(f.format)
	}
	accounts, err := f.Load(ctx)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(accounts))
	}
	if len(names) == 0 {
		return clouds.ErrNone
	}
	list := []checked{}
	for _, name := range names {
		a, ok := accounts[name]
		if !ok {
			return clouds.Missing(name)
		}
		list = append(list, checkOne(ctx, a))
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if f.format == "json" {
		err = cli.WriteJSON(w, list)
	} else {
		err = cli.Show(w, checkPage(list))
	}
	return errors.Join(err, checkFault(list))
}

// checkOne asks a provider. What it says of its machines counts only when the key is
// proved to be good by an answer that a wrong key does not get.
func checkOne(ctx context.Context, a clouds.Account) checked {
	c := checked{Provider: a.Traits.Name, Source: a.Source, Key: "unknown", Guarantee: a.Traits.DeadMan.Text}
	var whys []string
	fail := func(what string, err error) {
		if errors.Is(err, provider.ErrKey) {
			c.Key, c.Verdict = "refused", assay.Fail
		}
		whys = append(whys, what+": "+foreign.Line(err.Error(), 300))
	}
	err := c.prove(ctx, a.Provider)
	if err != nil {
		fail("prove the key", err)
	} else {
		c.Key = "good"
	}
	if c.Key != "refused" {
		if list, err := a.Provider.List(ctx); err != nil {
			fail("list", err)
		} else if n := len(list); c.Key == "good" {
			c.Instances = &n
		}
	}
	if c.Key != "refused" {
		if offers, err := a.Provider.Offers(ctx, provider.Query{DiskGB: max(100, a.Traits.MinDiskGB)}); err != nil {
			fail("offers", err)
		} else {
			n := len(offers)
			c.Offers = &n
		}
	}
	if len(whys) == 0 {
		c.Verdict = assay.Pass
	}
	c.Why = strings.Join(whys, "; ")
	return c
}

// prove proves the key, by the balance where there is one.
func (c *checked) prove(ctx context.Context, p provider.Provider) error {
	switch p := p.(type) {
	case provider.Balancer:
		m, err := p.Balance(ctx)
		if err == nil {
			c.Balance = &m
		}
		return err
	case provider.KeyProver:
		return p.ProveKey(ctx)
	}
	return errors.New("this provider has no way to prove a key: an empty list of it says nothing")
}

func checkFault(list []checked) error {
	var errs []error
	for _, c := range list {
		switch c.Verdict {
		case assay.Pass:
		case assay.Fail:
			errs = append(errs, cli.Failed(fmt.Errorf("%s refused the key from %s: make another one in its console", c.Provider, c.Source)))
		default:
			errs = append(errs, cli.Unknown(fmt.Errorf("%s could not be checked: %s", c.Provider, c.Why)))
		}
	}
	return errors.Join(errs...)
}

func checkPage(list []checked) report.Page {
	t := report.Table{Columns: []report.Column{
		{Name: "provider", Words: true}, {Name: "verdict", Words: true}, {Name: "key", Words: true}, {Name: "from", Words: true}, {Name: "money left"}, {Name: "machines"}, {Name: "offers"}, {Name: "why", Words: true},
	}}
	count := func(n *int) string {
		if n == nil {
			return "unknown"
		}
		return fmt.Sprint(*n)
	}
	for _, c := range list {
		left := "unknown"
		if c.Balance != nil {
			left = dollars(*c.Balance)
		}
		t.Rows = append(t.Rows, []string{c.Provider, c.Verdict.String(), c.Key, c.Source, left, count(c.Instances), count(c.Offers), c.Why})
	}
	return report.Page{Title: "Credentials", Blocks: []report.Block{t}}
}

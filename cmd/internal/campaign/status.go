package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/report"
)

// cellRow is a cell as people see it.
type cellRow struct {
	Cell    string      `json:"cell"`
	Status  string      `json:"status"`
	Stage   string      `json:"stage,omitempty"`
	Cause   string      `json:"cause,omitempty"`
	Message string      `json:"message,omitempty"`
	Spent   assay.Money `json:"spent"`
	Held    assay.Money `json:"reserved"`
	// LeftSeconds is how long the machine may live on at most; null: there is none.
	LeftSeconds *float64 `json:"left_seconds"`
}

// sight is how far a campaign is.
type sight struct {
	ID     string    `json:"id"`
	Name   string    `json:"name"`
	Status string    `json:"status"`
	Cells  []cellRow `json:"cells"`
	Spent  int64     `json:"-"`
	cells  []store.Cell
}

// progress reads how far a campaign is, from the database alone.
func progress(ctx context.Context, s *store.Store, id string, now time.Time) (sight, error) {
	c, err := s.Campaign(ctx, id)
	if err != nil {
		return sight{}, err
	}
	cells, err := s.Cells(ctx, id)
	if err != nil {
		return sight{}, err
	}
	spend, err := s.Spend(ctx, id)
	if err != nil {
		return sight{}, err
	}
	p := sight{ID: id, Name: c.Name, Status: c.Status, Cells: []cellRow{}, cells: cells}
	for _, l := range cells {
		b := spend[l.ID]
		row := cellRow{
			Cell: strings.Join([]string{l.GPU, l.Provider, l.Model, l.Engine}, " · "), Status: l.Status, Stage: l.Stage, Cause: l.Cause,
			Message: l.Message, Spent: b.Spent, Held: b.Reserved,
		}
		if l.Status == string(campaign.Running) {
			intents, err := s.Intents(ctx, l.ID)
			if err != nil {
				return p, err
			}
			for _, i := range intents {
				if i.State == store.Live {
					left := max(0, i.Longest.Sub(now).Seconds())
					row.LeftSeconds = &left
				}
			}
		}
		p.Spent += b.Spent.Nano
		p.Cells = append(p.Cells, row)
	}
	return p, nil
}

func (p sight) count(s campaign.Status) (n int) {
	for _, c := range p.cells {
		if c.Status == string(s) {
			n++
		}
	}
	return n
}

func left(r cellRow) string {
	if r.LeftSeconds == nil {
		return ""
	}
	return time.Duration(*r.LeftSeconds * float64(time.Second)).Round(time.Second).String()
}

// line is a row as one line of a log.
func (r cellRow) line() string {
	parts := []string{r.Cell, r.Status}
	if r.Stage != "" {
		parts = append(parts, r.Stage)
	}
	if r.Cause != "" {
		parts = append(parts, r.Cause)
	}
	if r.Spent.Nano > 0 {
		parts = append(parts, "spent "+dollars(r.Spent))
	}
	if r.Message != "" && r.Status != string(campaign.Running) {
		parts = append(parts, r.Message)
	}
	if t := left(r); t != "" {
		parts = append(parts, t+" left at most")
	}
	return foreign.Line(strings.Join(parts, ", "), 300)
}

func (p sight) total() string {
	return fmt.Sprintf("%d cells: %d success, %d partial, %d failed, %d skipped, %d running, %d pending; spent %s", len(p.cells),
		p.count(campaign.Success), p.count(campaign.Partial), p.count(campaign.Failed), p.count(campaign.Skipped), p.count(campaign.Running), p.count(campaign.Pending),
		dollars(assay.Money{Nano: p.Spent, Currency: "USD"}))
}

func (p sight) print(w io.Writer) error {
	t := report.Table{Columns: []report.Column{
		{Name: "cell", Words: true}, {Name: "status", Words: true}, {Name: "stage", Words: true}, {Name: "cause", Words: true}, {Name: "spent"}, {Name: "left at most"},
	}}
	for _, r := range p.Cells {
		t.Rows = append(t.Rows, []string{r.Cell, r.Status, r.Stage, r.Cause, dollars(r.Spent), left(r)})
	}
	blocks := []report.Block{t, report.Paragraph{Text: p.total() + "."}}
	for _, l := range []report.List{p.reasons(), p.advice()} {
		if len(l.Items) > 0 {
			blocks = append(blocks, l)
		}
	}
	return cli.Show(w, report.Page{Title: "Campaign " + p.ID, Blocks: blocks})
}

// maxReasons bounds how many reasons are printed: a thousand cells fail for a few.
const maxReasons = 20

// reasons are why cells did not become a success, each once.
func (p sight) reasons() report.List {
	l := report.List{Head: "why"}
	cells := map[string]int{}
	var order []string
	for _, r := range p.Cells {
		if r.Message == "" || r.Status == string(campaign.Running) {
			continue
		}
		text := r.Cause + ": " + r.Message
		if cells[text]++; cells[text] == 1 {
			order = append(order, text)
		}
	}
	for n, text := range order {
		if n == maxReasons {
			l.Items = append(l.Items, fmt.Sprintf("and %d other reasons: --format json has them", len(order)-n))
			break
		}
		if cells[text] > 1 {
			text = fmt.Sprintf("%d cells: %s", cells[text], text)
		}
		l.Items = append(l.Items, foreign.Line(text, 500))
	}
	return l
}

// advice is what can be done about cells that were not tried.
func (p sight) advice() report.List {
	l := report.List{Head: "next"}
	if p.Status == store.Running {
		return l
	}
	budget := 0
	for _, r := range p.Cells {
		if r.Cause == string(campaign.CauseBudget) {
			budget++
		}
	}
	if budget > 0 {
		l.Items = append(l.Items, fmt.Sprintf("%d cells were left since the money was not enough: \"assay campaign resume %s --budget USD\" gives more and measures them; where the account has too little, pay in first", budget, p.ID))
	}
	return l
}

type statusFlags struct {
	databaseFlags
	format string
}

func newStatus() *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status [CAMPAIGN]",
		Short: "How far a campaign is: cell, stage, spent, time left",
		Long: `Status reads the database, and needs no Temporal. Without a campaign it shows the
newest one.`,
		Args: cli.Takes(0, 1, "a campaign's id, or nothing for the newest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout())
		},
	}
	f.register(cmd.Flags())
	cli.FormatFlag(cmd.Flags(), &f.format, "text or json", "text", "json")
	return cmd
}

func (f *statusFlags) run(ctx context.Context, args []string, w io.Writer) error {
	if f.format != "text" && f.format != "json" {
		return cli.BadFormat(f.format)
	}
	db, s, err := f.openOld(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	id, err := which(ctx, s, args)
	if err != nil {
		return err
	}
	p, err := progress(ctx, s, id, time.Now())
	if err != nil {
		return err
	}
	if f.format == "json" {
		return cli.WriteJSON(w, p)
	}
	return p.print(w)
}

// which is the campaign that was named, or the newest.
func which(ctx context.Context, s *store.Store, args []string) (string, error) {
	if len(args) > 0 {
		_, err := s.Campaign(ctx, args[0])
		if errors.Is(err, store.ErrNotFound) {
			err = fmt.Errorf("there is no campaign %s in this database: without an id the newest is taken, and --database names another database", foreign.Line(args[0], 60))
		}
		return args[0], err
	}
	list, err := s.Campaigns(ctx)
	if err != nil {
		return "", err
	}
	for _, c := range list {
		if c.Settings != "" { // a session that somebody rented by hand has none
			return c.ID, nil
		}
	}
	return "", errors.New("there is no campaign in this database: assay campaign run FILE begins one")
}

package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/reap"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/clouds"
	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/foreign"
)

type reapFlags struct {
	clouds.Credentials
	databaseFlags
	once    bool
	adopt   string
	confirm []string
	period  time.Duration
	format  string
}

// adoptOwn is what --adopt means without a value.
const adoptOwn = "own"

func newReap() *cobra.Command {
	var f reapFlags
	cmd := &cobra.Command{
		Use:   "reap",
		Short: "Destroy the machines that nobody owns any more",
		Long: `Reap destroys what nobody owns: machines whose lease has ended, since whoever rented
them died, and such as were created although nobody heard of it. It needs the database
and the credentials, and no Temporal: run it beside every campaign, best under
another supervisor.

It touches only labels of this database's installation. A list that fails, or that
lacks a machine which nobody destroyed, is an error, and never the news that all is
gone. An end is proved by two looks that are further apart than the provider's lists
lag, and by the machine's own page; until then its money stays reserved. Where a
provider has no such page, look yourself, and confirm.

A database that was copied or restored destroys nothing until you say with --adopt that
its labels are its own; --adopt=ID takes over those of a database that was lost.

Exit codes: 0 nothing is left to do; 1 used wrongly; 2 a provider did not answer, or
refused; 3 something waits for you: confirm it, or adopt it.`,
		Example: `  assay campaign reap --database sqlite:campaigns.db
  assay campaign reap --once --format json
  assay campaign reap --confirm kq3m5xw2ab-01k9x5t4m2c3`,
		Args: cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f.Credentials.Register(cmd.Flags())
	f.databaseFlags.register(cmd.Flags())
	fs := cmd.Flags()
	fs.BoolVar(&f.once, "once", false, "go one round, say what it did, and end")
	fs.StringVar(&f.adopt, "adopt", "", "destroy also what has a label of this installation, or of the `installation` that is named, and is not in the database")
	fs.Lookup("adopt").NoOptDefVal = adoptOwn
	fs.StringArrayVar(&f.confirm, "confirm", nil, "a `label` whose machine is gone, as you have seen yourself: settle its money, and end")
	fs.DurationVar(&f.period, "period", time.Minute, "the longest that a machine may outlive its lease")
	cli.FormatFlag(fs, &f.format, "text or json", "text", "json")
	return cmd
}

func (f *reapFlags) run(ctx context.Context, w io.Writer) error {
	switch {
	case f.format != "text" && f.format != "json":
		return cli.BadFormat(f.format)
	case f.period < time.Second || f.period > time.Hour:
		return fmt.Errorf("--period %s: a second to an hour are allowed", f.period)
	}
	db, s, err := f.database(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if len(f.confirm) > 0 {
		return f.confirmAll(ctx, s, w)
	}
	if err := f.adoption(ctx, s); err != nil {
		return err
	}
	r, err := f.reaper(ctx, s)
	if err != nil {
		return err
	}
	if f.once {
		report, err := r.Once(ctx)
		if errors.Is(err, reap.ErrMoved) {
			return cli.Failed(err)
		}
		return errors.Join(f.show(w, report), reapFault(report, err))
	}
	err = r.Run(ctx, func(report reap.Report) { _ = f.show(w, report) }) // a full disk must not end it
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return cli.Failed(err)
}

// database opens the one that is there. In place of one that was lost a new one takes
// over its machines.
func (f *reapFlags) database(ctx context.Context) (*database.DB, *store.Store, error) {
	if f.adopt != "" && f.adopt != adoptOwn {
		return f.open(ctx)
	}
	db, s, err := f.openOld(ctx)
	if f.absent() != "" {
		err = fmt.Errorf("%w; if it was lost, --adopt=ID destroys its machines, whose labels begin with that ID", err)
	}
	return db, s, err
}

// adoption makes labels this database's.
func (f *reapFlags) adoption(ctx context.Context, s *store.Store) error {
	if f.adopt == "" {
		return nil
	}
	id := f.adopt
	if id == adoptOwn {
		in, err := s.Installation(ctx)
		if err != nil {
			return err
		}
		id = in.ID
	}
	return s.Adopt(ctx, id)
}

// reaper makes one of all providers that there are credentials for. Its period is by
// the clouds' clock, which a sandbox' is faster than ours.
func (f *reapFlags) reaper(ctx context.Context, s *store.Store) (*reap.Reaper, error) {
	accounts, scale, err := f.Shared(ctx, s)
	if err != nil {
		return nil, err
	}
	if len(accounts) == 0 {
		return nil, clouds.ErrNone
	}
	period := time.Duration(float64(f.period) / scale)
	renter := rent.New(s, clouds.Rentable(accounts), rent.Options{Period: period, Scale: scale})
	return reap.New(s, renter, reap.Options{Period: period, Adopt: f.adopt != "", Log: cli.Log(ctx)}), nil
}

// confirmAll settles what an operator has looked after.
func (f *reapFlags) confirmAll(ctx context.Context, s *store.Store, w io.Writer) error {
	done := []store.Intent{}
	var failed error
	for _, label := range f.confirm {
		i, err := s.Confirm(ctx, label)
		if errors.Is(err, store.ErrNotFound) {
			err = fmt.Errorf("this database has no machine with the label %s: assay campaign reap --once names those that wait", foreign.Line(label, 100))
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		done = append(done, i)
		if f.format == "text" {
			fmt.Fprintf(w, "%s has ended: %s; %s spent\n", i.Label, i.Proof, i.Spent)
		}
	}
	if f.format == "json" {
		failed = errors.Join(failed, cli.WriteJSON(w, done))
	}
	return failed
}

func (f *reapFlags) show(w io.Writer, r reap.Report) error {
	if f.format == "json" {
		if f.once {
			return cli.WriteJSON(w, r)
		}
		return cli.WriteJSONLine(w, r)
	}
	for _, p := range r.Providers {
		reapText(w, p, f.once)
	}
	return nil
}

// reapText says what a round did; of rounds that did nothing only the last is shown.
func reapText(w io.Writer, p reap.Provider, always bool) {
	line := func(what string, labels []string) {
		if len(labels) > 0 {
			fmt.Fprintf(w, "%s: %s %s\n", p.Name, what, foreign.Line(strings.Join(labels, ", "), 2000))
			always = false
		}
	}
	line("adopted", p.Adopted)
	line("destroyed", p.Destroyed)
	line("ended", p.Ended)
	var waiting []string
	for _, i := range p.Open {
		if i.State == store.Unproved {
			waiting = append(waiting, i.Label)
		}
	}
	line("look yourself and --confirm", waiting)
	line("not in the database, see --adopt:", labelsOf(p.Strangers))
	if p.Distrust != "" {
		fmt.Fprintf(w, "%s: its list is not believed, and nothing is created there: %s\n", p.Name, p.Distrust)
	}
	if always {
		fmt.Fprintf(w, "%s: nothing to destroy; %d under way\n", p.Name, len(p.Open))
	}
}

func labelsOf(list []provider.Instance) []string {
	var out []string
	for _, n := range list {
		out = append(out, n.Label)
	}
	return out
}

// reapFault is how a round ends.
func reapFault(r reap.Report, err error) error {
	if err != nil {
		err = cli.Unknown(err)
	}
	if waiting := r.Waiting(); len(waiting) > 0 {
		err = errors.Join(err, cli.Failed(fmt.Errorf("%d machines wait for you: %s", len(waiting), foreign.Line(strings.Join(waiting, ", "), 500))))
	}
	return err
}

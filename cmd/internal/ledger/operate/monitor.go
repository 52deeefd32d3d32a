package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/ledger/tlog"
)

type monitorFlags struct {
	logFlags
	state, mirror, format string
	once                  bool
	interval              time.Duration
}

func newLedgerMonitor() *cobra.Command {
	var f monitorFlags
	cmd := &cobra.Command{
		Use:   "monitor",
		Short: "Follow a log, and report when it contradicts itself",
		Long: `Monitor looks at a log's checkpoint again and again. Each must be signed as the
policy asks, not be smaller than the last, and be proven to go on from it. With
--mirror it also keeps a full copy of the log, made from the entries and compared
with the signed root: the best backup, as it lies elsewhere.

FORK, ROLLBACK, UNSIGNED and ALTERED end it at once with exit code 3; the
checkpoints that contradict each other are kept beside the state file. A log that
cannot be reached is said, and asked again.

Exit codes: 0 looked, and good; 1 used wrongly; 2 could not look (with --once);
3 the log broke its word.`,
		Example: `  assay ledger monitor --log https://log.example.org/gpu --policy policy.txt --state gpu.state --mirror gpu-mirror`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	f.register(fs)
	fs.StringVar(&f.state, "state", "", "`file` that remembers the last checkpoint (needed)")
	fs.StringVar(&f.mirror, "mirror", "", "`directory` for a full copy, checked entry by entry")
	fs.BoolVar(&f.once, "once", false, "look once and end")
	fs.DurationVar(&f.interval, "interval", 10*time.Second, "how long to wait between looks")
	cli.FormatFlag(fs, &f.format, "text, or json: one object a line", "text", "json")
	return cmd
}

func (f *monitorFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	switch {
	case f.state == "":
		return errors.New("--state: name a file to remember the last checkpoint in; without it a fork could not be seen")
	case f.interval < time.Second:
		return fmt.Errorf("--interval %s: at least a second", f.interval)
	}
	if err := textOrJSON(f.format); err != nil {
		return err
	}
	src, p, err := f.open()
	if err != nil {
		return err
	}
	defer src.Close()
	show := entriesShown(stderr, false)
	m, err := tlog.NewMonitor(ctx, src, p, tlog.MonitorOptions{State: f.state, Mirror: f.mirror, Copied: show.at})
	if err != nil {
		return cli.Unknown(err)
	}
	defer m.Close()
	quiet := false // a log that stays away is said once
	for {
		seen, err := m.Check(ctx)
		show.clear()
		var alarm *tlog.Alarm
		switch {
		case errors.As(err, &alarm):
			return cli.Failed(err)
		case ctx.Err() != nil:
			return nil
		case err != nil && f.once:
			return cli.Unknown(err)
		case err != nil:
			if !quiet {
				fmt.Fprintf(stderr, "cannot look at the log, and try again: %s\n", printable(err.Error()))
			}
			quiet = true
		default:
			quiet = false
			if f.once || seen.First || seen.Size != seen.Before {
				if err := f.show(stdout, seen); err != nil {
					return err
				}
			}
		}
		if f.once {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(f.interval):
		}
	}
}

func (f *monitorFlags) show(w io.Writer, s tlog.Seen) error {
	if f.format == "json" {
		return cli.WriteJSONLine(w, s)
	}
	line := fmt.Sprintf("%s  %s  %d entries", s.At.Format(time.RFC3339), s.Origin, s.Size)
	if s.First {
		line += ", the first look: nothing to compare with"
	} else {
		line += fmt.Sprintf(", %d new, goes on from the last", s.Size-s.Before)
	}
	for _, c := range s.Witnesses {
		line += fmt.Sprintf(", seen by %s at %s", c.Name, c.Time.Format(time.RFC3339))
	}
	if s.Mirrored != nil {
		line += fmt.Sprintf(", %d in the mirror", *s.Mirrored)
	}
	_, err := fmt.Fprintln(w, printable(line))
	return err
}

package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/brokers"
	command "github.com/assay-bench/assay/cmd/internal/ledger"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka"
	"github.com/assay-bench/assay/ledger/tlog"
)

type fsckFlags struct {
	policy, format string
	trust          []string
	quiet          bool
	kafka          brokers.Flags
}

func newLedgerFsck() *cobra.Command {
	var f fsckFlags
	cmd := &cobra.Command{
		Use:   "fsck LOG",
		Short: "Check a whole log: every entry, every tile, every signature",
		Long: `Fsck reads a whole log, a directory or a URL, and believes nothing of it: the
checkpoint's signatures, each entry, each hash tile made again from the entries
and compared byte for byte, the root, and that no id and no Kafka position is
there twice. Of a directory it looks at every file, also those that do not belong.

With --trust it checks the signature of each statement too, with the keys that
were known at that place in the log. With --kafka it compares each entry with
the record that it was made from: one that was rewritten in Kafka is named.

Exit codes: 0 good; 1 used wrongly; 2 could not be checked; 3 something is wrong,
and the files are named.`,
		Example: `  assay ledger fsck notary-dir --policy policy.txt
  assay ledger fsck https://log.example.org/gpu --policy policy.txt --trust authority.pub`,
		Args: cli.Takes(1, 1, "a log, which is a directory or a URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	registerPolicy(fs, &f.policy)
	fs.StringArrayVar(&f.trust, "trust", nil, "`file` with statements about keys that are trusted: check every signature; may be given several times")
	f.kafka.Register(fs)
	cli.FormatFlag(fs, &f.format, "text or json", "text", "json")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print the result only")
	return cmd
}

func (f *fsckFlags) run(ctx context.Context, where string, stdout, stderr io.Writer) error {
	if err := textOrJSON(f.format); err != nil {
		return err
	}
	p, err := readPolicy(f.policy)
	if err != nil {
		return err
	}
	var o tlog.FsckOptions
	if f.kafka.Given() {
		c, err := f.kafka.Config()
		if err != nil {
			return err
		}
		reader, err := kafka.NewReader(c)
		if err != nil {
			return brokers.Outcome(err)
		}
		defer reader.Close()
		o.Records = kafka.NewLookup(reader).Values
	}
	if len(f.trust) > 0 {
		if o.Keys, _, err = command.Trusted(f.trust); err != nil {
			return err
		}
	}
	src, err := tlog.Open(where, tlog.OpenOptions{})
	if err != nil {
		return cli.Unknown(err)
	}
	defer src.Close()
	show := entriesShown(stderr, f.quiet)
	o.Progress = show.at
	r, err := tlog.Fsck(ctx, src, p, o)
	show.clear()
	if err != nil {
		return cli.Unknown(err)
	}
	if f.format == "json" {
		err = cli.WriteJSON(stdout, r)
	} else {
		_, err = io.WriteString(stdout, fsckText(r))
	}
	if err != nil {
		return err
	}
	if !r.OK() {
		return cli.Failed(fmt.Errorf("%s: %d problems", where, uint64(len(r.Problems))+r.Unlisted))
	}
	return nil
}

func fsckText(r tlog.Report) string {
	var b strings.Builder
	if r.Origin != "" {
		fmt.Fprintf(&b, "log          %s\nentries      %d under a signed checkpoint", printable(r.Origin), r.Size)
		if r.Integrated > r.Size {
			fmt.Fprintf(&b, ", %d more wait for one", r.Integrated-r.Size)
		}
		fmt.Fprintf(&b, "\nroot         %s\n", r.Root)
		seen := "nobody"
		if len(r.Witnesses) > 0 {
			seen = printable(strings.Join(r.Witnesses, ", "))
		}
		fmt.Fprintf(&b, "cosigned by  %s\n", seen)
		fmt.Fprintf(&b, "compared     %d bundles, %d tiles, %d older partial ones\n", r.Bundles, r.Tiles, r.Partials)
		if !r.Listed {
			b.WriteString("not looked   for files that do not belong: only a directory can be listed\n")
		}
		if r.Signatures > 0 {
			fmt.Fprintf(&b, "signatures   %d checked\n", r.Signatures)
		} else {
			b.WriteString("signatures   not checked: give --trust FILE\n")
		}
		if r.Compared > 0 {
			fmt.Fprintf(&b, "kafka        %d records compared\n", r.Compared)
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s: %s\n", printable(n.File), printable(n.What))
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "WRONG: %s: %s\n", printable(p.File), printable(p.What))
	}
	if r.Unlisted > 0 {
		fmt.Fprintf(&b, "and %d more\n", r.Unlisted)
	}
	if r.OK() {
		b.WriteString("good\n")
	}
	return b.String()
}

// readPolicy reads the file of --policy.
func readPolicy(path string) (ledger.Policy, error) {
	if path == "" {
		return ledger.Policy{}, errors.New("--policy: name the file that says which log is trusted; its first line may be: log VKEY")
	}
	_, p, err := command.Trusted([]string{path})
	if err != nil {
		return ledger.Policy{}, fmt.Errorf("--policy: %w", err)
	}
	if p == nil {
		return ledger.Policy{}, fmt.Errorf("--policy %s: it holds statements about keys and no policy", path)
	}
	return *p, nil
}

func textOrJSON(format string) error {
	if format != "text" && format != "json" {
		return fmt.Errorf("unknown format %q; known are text and json", format)
	}
	return nil
}

// shownEntries counts entries on a terminal, and says nothing in a log.
type shownEntries struct {
	w     io.Writer
	on    bool
	drawn bool
}

func entriesShown(w io.Writer, quiet bool) *shownEntries {
	return &shownEntries{w: w, on: !quiet && cli.NewProgress(w, quiet).Terminal()}
}

func (s *shownEntries) at(done, size uint64) {
	if s.on && (done/256%16 == 0 || done == size) {
		fmt.Fprintf(s.w, "\r\x1b[K%d of %d entries", done, size)
		s.drawn = true
	}
}

func (s *shownEntries) clear() {
	if s.drawn {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.drawn = false
	}
}

// readCheckpointFile reads a small file with a checkpoint.
func readCheckpointFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > 64<<10 {
		return nil, fmt.Errorf("%s has %d bytes; a checkpoint has at most %d", path, info.Size(), 64<<10)
	}
	return os.ReadFile(path)
}

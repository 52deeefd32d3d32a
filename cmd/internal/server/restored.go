package server

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/brokers"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka"
	"github.com/assay-bench/assay/network/server/decide"
	"github.com/assay-bench/assay/network/store"
)

type restoredFlags struct {
	state
	kafka brokers.Flags
}

func newRestored() *cobra.Command {
	var f restoredFlags
	cmd := &cobra.Command{
		Use:   "restored --database URL [--kafka BROKERS]",
		Short: "Say that the database comes from a backup: tokens and log-ins end, and the topic is replayed",
		Long: `Say that the database comes from a backup, before a server runs on it. Tokens that
were taken back since would hold again, so all of them and all log-ins end: agents
log in by their keys again, people get new tokens, the first from
"assay server init".

With --kafka, what was published after the backup comes back: statements,
transitions, actions, the keys of nodes and their revocations, each by its
signature. Nodes are then where the last transition led them; who was out since
waits for a person, and all others are verified again. It can be run again.

Exit codes: 0 done; 1 used wrongly; 2 Kafka or the database could not be read;
3 done, and some of the topic's statements do not count here.`,
		Args: cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	cmd.Flags().StringVar(&f.database, "database", "", "`URL`: sqlite:FILE or postgres://…")
	f.state.register(cmd.Flags())
	f.kafka.Register(cmd.Flags())
	return cmd
}

func (f *restoredFlags) run(ctx context.Context, w io.Writer) error {
	db, st, err := openOld(ctx, f.database)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := st.Check(ctx); err != nil {
		return err
	}
	var r *decide.Replay
	var t store.Trail
	var c kafka.Config
	if f.kafka.Given() { // what can be wrong with the flags is so before anything is done
		id, err := f.open()
		if err != nil {
			return err
		}
		if c, err = f.kafka.Config(); err != nil {
			return err
		}
		st = st.RecordedBy(id.Record)
		if r, err = decide.NewReplay(st, id); err != nil {
			return err
		}
		now := time.Now().UTC().Truncate(time.Microsecond)
		t.Audit = []store.AuditEntry{{ID: ulid.Make().String(), At: now, Actor: "server:restored", Action: "restored", Outcome: "done"}}
	}
	// Before: what the audit entry of the restore itself leaves is no part of the backup.
	last, err := st.LastReceived(ctx)
	if err != nil {
		return err
	}
	epoch, err := st.MarkRestored(ctx, t)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "all tokens and log-ins of %s have ended (epoch %d)\n", db, epoch)
	if r == nil {
		fmt.Fprintln(w, "what was published after the backup is in Kafka only: --kafka BROKERS brings it back")
		return nil
	}
	if err := replay(ctx, c, last, r.Take); err != nil {
		return brokers.Outcome(err)
	}
	out, err := r.Finish(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%d statements were read since %s, and %d of them were missing; %d nodes and replicas have another state now\n", out.Read, since(last), out.Missing, out.Nodes)
	if out.Refused > 0 {
		return cli.Failed(fmt.Errorf("%d of the topic's statements do not count here and were left out; the first: %s", out.Refused, out.Why))
	}
	return nil
}

// margin is how much earlier than the backup's newest record reading begins: the
// clocks of servers and brokers need not agree.
const margin = time.Hour

func since(last time.Time) string {
	if last.IsZero() {
		return "the topic's beginning"
	}
	return last.Add(-margin).UTC().Format(time.RFC3339)
}

// replay reads the topic from the time of the backup to what is its end now. What
// the backup lacks was received after its newest record, and published later still.
func replay(ctx context.Context, c kafka.Config, last time.Time, take func(context.Context, []ledger.Record) error) error {
	reader, err := kafka.NewReader(c)
	if err != nil {
		return err
	}
	defer reader.Close()
	parts, err := reader.Partitions(ctx)
	if err != nil {
		return err
	}
	from := map[int32]int64{}
	for p, held := range parts {
		from[p] = held.Start
	}
	if !last.IsZero() {
		if from, err = reader.At(ctx, last.Add(-margin)); err != nil {
			return err
		}
	}
	left := 0
	for p, held := range parts {
		if from[p] >= held.End {
			delete(from, p)
			continue
		}
		left++
	}
	if left == 0 {
		return nil
	}
	for records, err := range reader.Read(ctx, from) {
		if err != nil {
			return err
		}
		batch := make([]ledger.Record, 0, len(records))
		for i := range records {
			r := &records[i]
			if end := parts[r.Partition].End; r.Offset >= end {
				continue // it came while we read: no server of this database runs
			} else if r.Offset == end-1 {
				left--
			}
			if r.Refused == nil {
				batch = append(batch, r.Record)
			}
		}
		if err := take(ctx, batch); err != nil {
			return err
		}
		if left == 0 {
			return nil
		}
	}
	return ctx.Err()
}

package decide

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/server/webhook"
	"github.com/assay-bench/assay/network/store"
)

// Bounds of one turn.
const (
	maxBatch    = 500
	maxWebhooks = 32
	hookTimeout = 30 * time.Second
	hookHold    = 2 * hookTimeout
)

// publishTurn gives what waits to the sink, in the order in which it came: the
// bytes are those that were received or signed. A process that dies between the
// sink's answer and the mark has them sent again; the log takes an id once.
func (d *Decider) publishTurn(ctx context.Context, l store.Lease) (bool, error) {
	rows, err := d.store.NextToPublish(ctx, l, maxBatch)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	records := make([]ledger.Record, 0, len(rows))
	ids := make([]string, 0, len(rows))
	for _, r := range rows {
		id, err := ulid.ParseStrict(r.ID)
		rec := ledger.Record{ID: id, Kind: ledger.Kind(r.Kind), Node: r.Node, Value: r.Bytes}
		if err == nil {
			err = rec.Check()
		}
		ids = append(ids, r.ID)
		if err != nil { // no reader would take it, and it must not hold up the others
			d.log.Error("a record cannot be published and is passed over", "id", r.ID, "node", r.Node, "error", err)
			continue
		}
		records = append(records, rec)
	}
	if len(records) > 0 {
		outcomes, err := d.o.Sink.Deliver(ctx, records)
		if err != nil {
			return false, fmt.Errorf("publish %d records: %w", len(records), err)
		}
		for i, o := range outcomes {
			if i < len(records) && o.Reason != "" {
				d.log.Error("a record was refused by the sink", "id", records[i].ID.String(), "node", records[i].Node, "reason", foreign.Line(o.Reason, 200))
			}
		}
	}
	if err := d.store.MarkPublished(ctx, ids, d.now()); err != nil {
		return false, err
	}
	return len(rows) == maxBatch, nil
}

// sendWebhooks sends what is due, all at once: one receiver that hangs holds up
// nobody else.
func (d *Decider) sendWebhooks(ctx context.Context) (bool, error) {
	rows, err := d.store.ClaimWebhooks(ctx, d.o.Holder, hookHold, maxWebhooks)
	if err != nil {
		return false, err
	}
	var wait sync.WaitGroup
	errs := make([]error, len(rows))
	for i, r := range rows {
		wait.Go(func() { errs[i] = d.sendWebhook(ctx, r) })
	}
	wait.Wait()
	return len(rows) == maxWebhooks, errors.Join(errs...)
}

// sendWebhook tries once, and marks or postpones. An error is the store's.
func (d *Decider) sendWebhook(ctx context.Context, r store.Record) error {
	to := d.o.Webhooks[r.Target]
	err := errors.New("no URL is configured for it any more")
	if to != "" {
		within, cancel := context.WithTimeout(ctx, hookTimeout)
		defer cancel()
		err = webhook.Send(within, d.o.Client, to, d.o.Secret, r.ID, r.Bytes, d.now())
	}
	if ctx.Err() != nil {
		return nil // the claim ends, and somebody else sends it
	}
	switch {
	case err == nil:
		d.metrics.sent(hookDelivered)
		return d.store.MarkPublished(ctx, []string{r.ID}, d.now())
	case r.Attempts >= webhook.MaxAttempts:
		d.metrics.sent(hookGivenUp)
		d.log.Error("a webhook was given up", "id", r.ID, "kind", r.Kind, "attempts", r.Attempts, "error", err)
		return d.store.MarkPublished(ctx, []string{r.ID}, d.now())
	}
	d.metrics.sent(hookPostponed)
	d.log.Warn("a webhook was not taken; it is sent again", "id", r.ID, "kind", r.Kind, "attempts", r.Attempts, "error", err)
	next := d.now().Add(webhook.Wait(int(r.Attempts), rand.Float64()))
	err = d.store.PostponeWebhook(ctx, r.ID, d.o.Holder, next, foreign.Line(err.Error(), 300))
	if errors.Is(err, store.ErrLease) {
		return nil // somebody else has it
	}
	return err
}

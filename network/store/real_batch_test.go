package store

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/parttest"
)

// TestRealNetworkBatchedWrites compares heart-beats through the store with the
// driver alone, in one run on one server: with its batches of one statement for
// each row, and with the store's own statement. The rates are of this machine; the
// ratio to the batches is what counts, and in the long run that to the statement.
func TestRealNetworkBatchedWrites(t *testing.T) {
	ctx := t.Context()
	b := newPostgres(t).fresh(t, "", false)
	s := b.open(t)
	pool, err := pgxpool.New(ctx, b.name)
	must(t, err)
	defer pool.Close()
	const nodes, batch = 5000, 1000
	beats := make([]Beat, nodes)
	for i := range beats {
		beats[i] = Beat{Node: id(), Version: "v1.0.0", Running: int64(i), Body: json.RawMessage(`{"time":"2026-01-01T00:00:00Z","version":"v1.0.0","inventory_sha256":"","running":3,"waiting_records":0}`)}
	}
	clock := now()
	ways := map[string]func([]Beat){
		"store":              func(some []Beat) { must(t, s.Beats(ctx, some)) },
		"bare pgx batch":     func(some []Beat) { bareBatch(ctx, t, pool, some) },
		"bare pgx statement": func(some []Beat) { bareStatement(ctx, t, pool, some) },
	}
	best := map[string]float64{}
	for range 6 { // in turns, so that whatever else the machine does meets all
		for name, write := range ways {
			began := time.Now()
			clock = clock.Add(time.Second)
			for i := range beats {
				beats[i].Seen = clock
			}
			for i := 0; i < nodes; i += batch {
				write(beats[i : i+batch])
			}
			best[name] = max(best[name], nodes/time.Since(began).Seconds())
		}
	}
	toBatch, toStatement := best["store"]/best["bare pgx batch"], best["store"]/best["bare pgx statement"]
	parttest.Figure(t, "heart-beats, batches of %d: bare pgx batch %.0f rows/s, bare pgx statement %.0f rows/s, store %.0f rows/s, ratios %.2f and %.2f",
		batch, best["bare pgx batch"], best["bare pgx statement"], best["store"], toBatch, toStatement)
	if !(toBatch >= 0.6) {
		t.Errorf("the ratio to pgx's batches is %.2f; at least 0.6 is wanted", toBatch)
	}
	if os.Getenv("ASSAY_LONG") == "1" && !(toStatement >= 0.6) {
		t.Errorf("the ratio to the statement alone is %.2f; at least 0.6 is wanted", toStatement)
	}
	var written int
	must(t, s.view(ctx, "count", func(q database.Query) error {
		return q.QueryRowContext(ctx, "SELECT count(*) FROM beats WHERE seen_at = $1", micros(clock)).Scan(&written)
	}))
	equal(t, "rows of the last round", written, nodes)
}

func bareBatch(ctx context.Context, t *testing.T, pool *pgxpool.Pool, beats []Beat) {
	t.Helper()
	var b pgx.Batch
	for _, x := range beats {
		b.Queue("INSERT INTO beats (node, seen_at, version, running, body) VALUES ($1, $2, $3, $4, $5)"+upsertBeat, x.Node, x.Seen.UnixMicro(), x.Version, x.Running, string(x.Body))
	}
	must(t, pool.SendBatch(ctx, &b).Close())
}

func bareStatement(ctx context.Context, t *testing.T, pool *pgxpool.Pool, beats []Beat) {
	t.Helper()
	n := len(beats)
	node, seen, version, running, body := make([]string, n), make([]int64, n), make([]string, n), make([]int64, n), make([]string, n)
	for i, x := range beats {
		node[i], seen[i], version[i], running[i], body[i] = x.Node, x.Seen.UnixMicro(), x.Version, x.Running, string(x.Body)
	}
	_, err := pool.Exec(ctx, "INSERT INTO beats (node, seen_at, version, running, body) SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::text[])"+upsertBeat, node, seen, version, running, body)
	must(t, err)
}

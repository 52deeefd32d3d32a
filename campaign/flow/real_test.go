package flow

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/node"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/provider/vast"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/campaign/sandbox"
	"github.com/assay-bench/assay/campaign/sandbox/sandboxtest"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/parttest"
)

const model = "qwen2:7b"

// scale is how much faster than ours the sandbox' clock runs.
const scale = 20

type setting struct {
	store *store.Store
	box   *sandbox.Sandbox
	acts  *Activities
}

func set(t *testing.T, start sandbox.Start) setting {
	t.Helper()
	ctx := t.Context()
	db, err := database.Open(ctx, "sqlite:"+filepath.Join(t.TempDir(), "campaign.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s := store.New(db)
	if err := s.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	box, err := sandbox.New(sandbox.Config{Scale: scale, Start: start})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(box.Close)
	web := httptest.NewServer(box.Handler())
	t.Cleanup(web.Close)
	config := vast.Config{Base: web.URL + "/vast", Key: box.Key(sandbox.Vast)}
	traits := vast.Traits(config).Scaled(scale)
	config.Wait = s.Limits(traits)
	master, err := node.OpenMaster(filepath.Join(t.TempDir(), "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	return setting{s, box, &Activities{
		Store: s, Rent: rent.New(s, []rent.Cloud{{Provider: vast.New(config), Traits: traits}}, rent.Options{Scale: scale, Period: 5 * time.Second}),
		Master: master, Pins: s, Binary: func(string) ([]byte, error) { return parttest.NodeBinary() }, Results: t.TempDir(),
		Order: func(_ store.Cell, o provider.Order, _ time.Duration) provider.Order { o.Image = "ollama"; return o },
	}}
}

// add makes a campaign of so many cells.
func (s setting) add(t *testing.T, id string, cells int) {
	t.Helper()
	settings, err := json.Marshal(Settings{
		Duration: 3 * time.Second, Streams: 2, Tries: 3, Window: 10, Lease: time.Minute, DiskGB: 20, Pace: scale,
		Limits: Limits{Provision: 60 * time.Second, Setup: 60 * time.Second, Load: 60 * time.Second, Benchmark: 60 * time.Second, Collect: 60 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	dollars := func(n int64) assay.Money { return assay.Money{Nano: n * 1e9, Currency: "USD"} }
	c := store.Campaign{ID: id, Name: id, Settings: string(settings), Caps: store.Caps{Cell: dollars(1000), Campaign: dollars(1000), Day: dollars(1000)}}
	var rows []store.Cell
	for n := range cells {
		spec, err := json.Marshal(campaign.Planned{Cell: campaign.Cell{GPU: "RTX 4090", Provider: "vast", Model: model, Engine: "ollama"}, Count: 1, LifeSeconds: 300})
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, store.Cell{
			ID: fmt.Sprintf("%s-%d", id, n+1), Campaign: id, Number: n + 1, GPU: "RTX 4090", Provider: "vast", Model: model, Engine: "ollama",
			Spec: string(spec), Progress: store.Progress{Status: string(campaign.Pending)},
		})
	}
	if err := s.store.AddCampaign(t.Context(), c, rows); err != nil {
		t.Fatal(err)
	}
}

// A campaign of two cells on simulated clouds, with a real Temporal, real sshds and
// our simulator as the engine: the first machine of one has another GPU.
func TestRealCampaignRunsAndGivesBack(t *testing.T) {
	server := parttest.Temporal(t)
	s := set(t, sandboxtest.Machines(t))
	if err := s.box.Next(sandbox.FaultWrongGPU, 1); err != nil {
		t.Fatal(err)
	}
	s.add(t, "c1", 2)
	c, err := Dial(t.Context(), ClientOptions{Address: server.URL, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := c.Work(s.acts, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if err := c.Start(t.Context(), CampaignInput{Campaign: "c1", Window: 10, Tries: 3, Pace: scale}); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	cells, err := s.store.Cells(t.Context(), "c1")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range cells {
		if l.Status != string(campaign.Success) {
			t.Errorf("cell %s: %+v", l.ID, l.Progress)
		}
	}
	results, err := s.store.Benchmarks(t.Context(), "c1")
	if err != nil || len(results) != 2 {
		t.Errorf("%d results, %v", len(results), err)
	}
	for _, r := range results {
		if r.TokensPerSecond == nil || *r.TokensPerSecond <= 0 {
			t.Errorf("result %s has no rate", r.ID)
		}
	}
	book := s.box.Book()
	if book.Alive != 0 || len(book.Entries) != 3 || len(book.Violations) != 0 {
		t.Errorf("%d of %d instances live, %d limits were broken: %+v", book.Alive, len(book.Entries), len(book.Violations), book.Violations)
	}
	temporal := parttest.Install(t, "temporal")
	keepHistory(t, temporal, server.URL, CampaignID("c1"), "campaign-2", s.box.Key(sandbox.Vast))
	keepHistory(t, temporal, server.URL, CellID("c1-1"), "cell-1", s.box.Key(sandbox.Vast))
	keepHistory(t, temporal, server.URL, CellID("c1-2"), "cell-2", s.box.Key(sandbox.Vast))
}

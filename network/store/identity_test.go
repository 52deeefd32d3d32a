package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// Cards are found on all nodes, with when each was gone; inventories wait until they
// were looked at; a nonce has one first user.
func testIdentity(t *testing.T, b backend) {
	ctx, s := t.Context(), b.migrated(t)
	one, two, at := enrolled(t, s, "ada"), enrolled(t, s, "bob"), now()
	show := func(node string, when time.Time, cards ...GPU) {
		t.Helper()
		must(t, s.PutInventory(ctx, Inventory{Node: node, Body: json.RawMessage(`{}`), SHA256: Hash(fmt.Sprint(node, when)), GPUs: cards, At: when}))
	}
	x, y := GPU{UUID: "GPU-X", Card: "x", Board: "b"}, GPU{UUID: "GPU-Y", Card: "y"}
	show(one, at, x, y)
	show(two, at.Add(time.Second), GPU{UUID: "gpu-x", Card: "x"}, GPU{UUID: "none"})
	claims := got[[]Claim](t)(s.Claims(ctx, []string{"x", "y", "nowhere"}, nil))
	if len(claims) != 3 || claims[0].Node != one || claims[2].Node != two || claims[2].Owner != "bob" || claims[2].Admission != "pending" {
		t.Errorf("claims %+v", claims)
	}
	equal(t, "by board", len(got[[]Claim](t)(s.Claims(ctx, nil, []string{"b"}))), 1)
	equal(t, "of nothing", len(got[[]Claim](t)(s.Claims(ctx, []string{""}, []string{""}))), 0)
	// A card that goes and comes back has two rows.
	gone := at.Add(2 * time.Second)
	show(one, gone, y)
	show(one, at.Add(3*time.Second), x, y)
	claims = got[[]Claim](t)(s.Claims(ctx, []string{"x"}, nil))
	if len(claims) != 3 || !claims[0].Gone.Equal(gone) || !claims[2].Gone.IsZero() || claims[2].Node != one {
		t.Errorf("a card that came back: %+v", claims)
	}
	equal(t, "to look at", len(got[[]string](t)(s.Unexamined(ctx, 10))), 2)
	n := got[Node](t)(s.Node(ctx, everybody, one))
	must(t, s.Examined(ctx, one, n.InventorySHA256))
	equal(t, "looked at", got[string](t)(s.Examination(ctx, one)), n.InventorySHA256)
	equal(t, "left to look at", got[[]string](t)(s.Unexamined(ctx, 10)), []string{two})
	if _, err := s.MarkRestored(ctx, Trail{}); err != nil {
		t.Fatal(err)
	}
	equal(t, "to look at after a restore", len(got[[]string](t)(s.Unexamined(ctx, 10))), 2)

	first := RunNonce{Nonce: "00", Node: one, Report: "r1", RunSHA256: "s", At: at}
	equal(t, "first", got[RunNonce](t)(s.FirstUse(ctx, first)), first)
	equal(t, "second", got[RunNonce](t)(s.FirstUse(ctx, RunNonce{Nonce: "00", Node: two, Report: "r2", At: at.Add(time.Hour)})), first)
	for i := range 3 {
		must(t, s.AddCommand(ctx, everybody, Command{ID: fmt.Sprintf("0%d", i), Node: one, Kind: "check", Created: at, Expires: at.Add(time.Hour)}, Trail{}))
	}
	equal(t, "the last commands", got[[]string](t)(s.LastCommands(ctx, one, 2)), []string{"02", "01"})
	// Nobody fills the table with cards.
	var cards []GPU
	for i := range maxGPURows {
		cards = append(cards, GPU{UUID: fmt.Sprint(i)})
	}
	want(t, s.PutInventory(ctx, Inventory{Node: one, GPUs: cards, At: at.Add(time.Minute)}), ErrFull)
	// Nor with replicas that have another name each time.
	var err error
	for i := range maxReplicaRows/64 + 1 {
		var replicas []Replica
		for j := range 64 {
			id := fmt.Sprintf("r%d-%d", i, j)
			replicas = append(replicas, Replica{ID: id, Name: id, Facts: Facts{State: json.RawMessage(`{}`)}})
		}
		if err = s.PutInventory(ctx, Inventory{Node: two, Body: json.RawMessage(`{}`), Replicas: replicas, At: at.Add(time.Duration(i+10) * time.Second)}); err != nil {
			break
		}
	}
	want(t, err, ErrFull)
}

// A card is looked for by an index: ten thousand nodes are not read for one.
func TestClaimsUseTheirIndex(t *testing.T) {
	s := openStore(t, "sqlite:"+t.TempDir()+"/db")
	if _, _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, column := range []string{"card", "board"} {
		err := s.view(t.Context(), "explain", func(q database.Query) error {
			plan, err := all(t.Context(), q, func(r row) (text string, err error) {
				var a, b, c int
				return text, r.Scan(&a, &b, &c, &text)
			}, "EXPLAIN QUERY PLAN "+s.claimsQuery(column), s.db.List([]string{"x"}), 10)
			if text := strings.Join(plan, "; "); !strings.Contains(text, "gpus_"+column) || strings.Contains(text, "SCAN g") || strings.Contains(text, "SCAN n") {
				t.Errorf("by %s: %s", column, text)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

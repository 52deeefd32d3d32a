package campaign

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/reap"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/campaign/sandbox"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/cmd/internal/cli/clouds"
)

// Temporal is away, and so is whoever rented: reap alone ends the orphan, and settles
// its money.
func TestReapEndsOrphans(t *testing.T) {
	s, file := simulated(t, sandbox.Config{})
	url := "sqlite:" + filepath.Join(t.TempDir(), "campaigns.db")
	ask := func(args ...string) (int, string, string) {
		return run(t, append([]string{"campaign", "reap", "--database", url, "--credentials", file, "--once", "--format", "json"}, args...)...)
	}
	if code, _, stderr := ask(); code != 1 || !strings.Contains(stderr, "there is no file") {
		t.Errorf("a database that is not there: %d %s", code, stderr)
	}
	label := orphan(t, url, file)
	var r reap.Report
	for range 20 {
		_, stdout, stderr := ask()
		r = reap.Report{}
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || len(r.Providers) != 2 {
			t.Fatalf("%v %s%s", err, stdout, stderr)
		}
		if len(r.Providers[1].Open) == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if b := s.Book(); b.Alive != 0 || len(b.Entries) != 1 || len(r.Providers[1].Open) != 0 {
		t.Errorf("%+v\n%+v", b.Entries, r)
	}
	code, stdout, stderr := run(t, "campaign", "reap", "--database", url, "--confirm", label)
	if code != 0 || !strings.Contains(stdout, label+" has ended: "+store.ProofGone) {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	if code, _, _ := run(t, "campaign", "reap", "--database", url, "--confirm", "nobody-knows-it"); code != 1 {
		t.Errorf("a label that is not there was confirmed: %d", code)
	}
	if code, _, stderr := ask("--adopt=nonsense"); code != 1 || !strings.Contains(stderr, "an installation's id has") {
		t.Errorf("%d %s", code, stderr)
	}
}

// A database is lost while a machine lives: a new one takes it over by the
// installation's id, and ends it. A name that was mistyped makes no file.
func TestReapAfterALoss(t *testing.T) {
	s, file := simulated(t, sandbox.Config{})
	label := orphan(t, "sqlite:"+filepath.Join(t.TempDir(), "lost.db"), file)
	id, _, _ := strings.Cut(label, "-")
	path := filepath.Join(t.TempDir(), "new.db")
	ask := func(args ...string) (int, string, string) {
		return run(t, append([]string{"campaign", "reap", "--database", "sqlite:" + path, "--credentials", file, "--once"}, args...)...)
	}
	for _, args := range [][]string{nil, {"--adopt"}} {
		if code, _, stderr := ask(args...); code != 1 || !strings.Contains(stderr, "if it was lost, --adopt=ID") || fileThere(path) {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
	}
	var stdout, stderr string
	for range 50 {
		if _, stdout, stderr = ask("--adopt=" + id); s.Book().Alive == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if b := s.Book(); b.Alive != 0 || len(b.Entries) != 1 {
		t.Errorf("%+v\n%s%s", b.Entries, stdout, stderr)
	}
}

// orphan rents a machine whose lease has ended.
func orphan(t *testing.T, url, credentials string) (label string) {
	t.Helper()
	db, st, err := (&databaseFlags{url}).open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	accounts, factor, err := (&clouds.Credentials{File: credentials}).Shared(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	usd := assay.Money{Nano: 100e9, Currency: provider.Currency}
	err = st.AddCampaign(t.Context(), store.Campaign{ID: "c", Caps: store.Caps{Cell: usd, Campaign: usd, Day: usd}}, []store.Cell{{ID: "c-0", Provider: "vast"}})
	if err != nil {
		t.Fatal(err)
	}
	renter := rent.New(st, clouds.Rentable(accounts), rent.Options{Scale: factor, Period: time.Second})
	cloud, err := renter.Cloud("vast")
	if err != nil {
		t.Fatal(err)
	}
	offers, err := cloud.Provider.Offers(t.Context(), provider.Query{})
	if err != nil {
		t.Fatal(err)
	}
	i, err := renter.Intend(t.Context(), rent.Want{Cell: "c-0", Provider: "vast", Offer: offers[0], Lease: time.Minute, Life: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := renter.Create(t.Context(), provider.Order{Label: i.Label, Offer: offers[0], Image: "ollama", DiskGB: 10}); err != nil {
		t.Fatal(err)
	}
	if _, err := renter.Renew(t.Context(), i.Label, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond)
	return i.Label
}

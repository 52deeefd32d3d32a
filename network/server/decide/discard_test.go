package decide

import (
	"errors"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/evidence"
	"github.com/assay-bench/assay/network/store"
)

// An object goes when the last report that names it has gone, and not before.
func TestEvidenceGoesWithTheLastReport(t *testing.T) {
	n := newNetwork(t, func(o *Options) { o.Discard = o.Evidence.(*evidence.Directory).Delete })
	m := n.enrol()
	r := m.report(m.run(measurement{slow: 1}), nil)
	if len(r.Files) < 3 {
		t.Fatalf("the report has only %d files", len(r.Files))
	}
	stored := func() (names []string) {
		t.Helper()
		for _, f := range r.Files {
			err := n.objects.Confirm(t.Context(), evidence.Object{SHA256: f.SHA256, Size: f.Size})
			switch {
			case err == nil:
				names = append(names, f.Name)
			case !errors.Is(err, evidence.ErrAbsent):
				t.Fatal(err)
			}
		}
		return names
	}
	tidy := func() {
		t.Helper()
		if _, err := n.d.tidies()(t.Context(), store.Lease{}); err != nil {
			t.Fatal(err)
		}
	}
	n.clock.pass(48 * time.Hour)
	tidy()
	if got := stored(); len(got) != len(r.Files) {
		t.Fatalf("of a report of two days ago only %q are left", got)
	}
	n.clock.pass(200 * 24 * time.Hour)
	m.announce(store.Report{ID: newID(), At: n.clock.now(), Node: m.id, Run: "again", Statement: newID(), Files: r.Files[:1]})
	tidy()
	if got := stored(); len(got) != 1 || got[0] != r.Files[0].Name {
		t.Errorf("after the retention %q are left; a new report names %s", got, r.Files[0].Name)
	}
}

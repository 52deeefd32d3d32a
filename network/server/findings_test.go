package server

import (
	"net/http"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

// What was found about a node is shown to whoever sees its owner, newest first, a page
// at a time.
func TestFindingsAreShown(t *testing.T) {
	n := sqlite(t)
	m := n.enrol("mine")
	mine, theirs := n.token(api.NewTokenRoleViewer, "mine"), n.token(api.NewTokenRoleViewer, "theirs")
	now := time.Now().UTC().Truncate(time.Microsecond)
	for i, verdict := range []string{"unknown", "fail"} {
		at := now.Add(time.Duration(i) * time.Second)
		if err := n.store.AddFinding(t.Context(), store.Finding{ID: newID(at), At: at, Node: m.id, Check: "address", Verdict: verdict, Text: "why", Figures: map[string]float64{"windows": 24}}); err != nil {
			t.Fatal(err)
		}
	}
	path := "/api/v1/nodes/" + m.id + "/findings"
	var list []api.Finding
	n.ask(http.StatusOK, "GET", path, mine, nil, &list)
	if len(list) != 2 || list[0].Verdict != api.FindingVerdictFail || list[0].Check != "address" || list[0].Figures == nil || (*list[0].Figures)["windows"] != 24 {
		t.Errorf("findings %+v", list)
	}
	n.ask(http.StatusOK, "GET", path+"?limit=1&before="+list[0].Id, mine, nil, &list)
	if len(list) != 1 || list[0].Verdict != api.FindingVerdictUnknown {
		t.Errorf("the older ones %+v", list)
	}
	n.ask(http.StatusNotFound, "GET", path, theirs, nil, nil)
}

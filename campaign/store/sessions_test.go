package store

import (
	"slices"
	"testing"
	"time"
)

// A session that ended has failed when it gave nothing, unless somebody wanted its
// end; lists are the newest first, page by page.
func testSessions(t *testing.T, s *Store) {
	ctx := t.Context()
	campaign(t, s, "c", 5, 100, 100, 100)
	ended := func(cell, why string) string {
		t.Helper()
		i := live(t, s, cell, "o", "id-"+cell)
		must(t, s.End(ctx, i.Label, why, true))
		got[Intent](t)(s.Confirm(ctx, i.Label))
		return i.Label
	}
	running := live(t, s, "c-0", "o", "id-c-0").Label
	measured := ended("c-1", "its try is over")
	must(t, s.PutManifest(ctx, Manifest{ID: "c-1", RunID: "c", Created: time.Now(), GPUType: "g", Provider: cloud, Model: "m", SessionID: measured, Status: "partial"}))
	failed := ended("c-2", "its try is over")
	must(t, s.PutManifest(ctx, Manifest{ID: "c-2", RunID: "c", Created: time.Now(), GPUType: "g", Provider: cloud, Model: "m", SessionID: failed, Status: "failed"}))
	lost := Progress{Status: "failed", Stage: "provision", Cause: "ssh", Message: "refused"}
	must(t, s.SetCell(ctx, "c-2", lost))
	waiting := got[Intent](t)(s.Intend(ctx, terms("c-3", "o"))).Label
	deleted := ended("c-4", WhyDeleted)

	labels := func(q SessionQuery) []string {
		t.Helper()
		q.Limit = max(q.Limit, 2)
		var out []string
		for {
			list := got[[]Session](t)(s.Sessions(ctx, q))
			for _, one := range list {
				out = append(out, one.Label)
			}
			if len(list) < q.Limit {
				return out
			}
			q.Before = list[len(list)-1].Label
		}
	}
	all := labels(SessionQuery{})
	slices.Sort(all)
	whole := []string{running, measured, failed, waiting, deleted}
	slices.Sort(whole)
	equal(t, "all pages", all, whole)
	yes, no := true, false
	equal(t, "failed", labels(SessionQuery{Failed: &yes}), []string{failed})
	good := labels(SessionQuery{Failed: &no, States: []State{Ended}})
	slices.Sort(good)
	wanted := []string{measured, deleted}
	slices.Sort(wanted)
	equal(t, "ended and not failed", good, wanted)
	equal(t, "states", labels(SessionQuery{States: []State{Intended}}), []string{waiting})
	equal(t, "another provider", labels(SessionQuery{Provider: "other"}), []string(nil))

	only := func(label string) Session {
		t.Helper()
		list := got[[]Session](t)(s.Sessions(ctx, SessionQuery{Label: label, Limit: 2}))
		if len(list) != 1 {
			t.Fatalf("%+v", list)
		}
		return list[0]
	}
	one := only(failed)
	if !one.Failed() || one.Result || one.Failure != lost || one.GPU != "RTX 4090" || one.Model != "qwen2:7b" || len(one.Instances) != 1 {
		t.Errorf("%+v", one)
	}
	if one := only(measured); one.Failed() || !one.Result || one.Failure.Status != "" {
		t.Errorf("%+v", one)
	}
	if list := got[[]Session](t)(s.Sessions(ctx, SessionQuery{Label: "nobody", Limit: 1})); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

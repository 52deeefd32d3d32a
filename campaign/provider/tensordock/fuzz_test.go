package tensordock

import (
	"errors"
	"testing"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/internal/foreign"
)

// Whatever the API answers, nothing panics and nothing hostile comes through.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"data":{"type":"list","attributes":{"instances":[{"id":"a-1","attributes":{"name":"x\u001b[31m","status":"running"}}]}}}`,
		`{"data":{"instances":[{"id":"a-1","attributes":{"id":"b"}}]}}`, `{"instances":[{"id":"a","ipAddress":"192.0.2.1","portForwards":[{"internal_port":22,"external_port":7}]}]}`,
		`{"data":[]}`, `{"data":null}`, `{"instances":null}`, `{"status":404,"error":"Instance not found"}`, `{"id":"a","status":"running","portForwards":{"22":9}}`,
		`{"data":{"data":{"data":{}}}}`, `{"data":{"locations":[{"id":"l","gpus":[{"v0Name":"a-24gb","max_count":1,"price_per_hr":1}]}]}}`, `[`, ``,
	} {
		f.Add(200, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		a := provider.Answer{Status: status, Body: body}
		_ = fault(a)
		list, err := decodeList(a)
		if err == nil && list == nil {
			t.Error("a list that is neither there nor an error")
		}
		if i, err := decodeMachine(body); err == nil {
			list = append(list, i)
		}
		for _, i := range append(list, created(a)) {
			if i.ID != "" && provider.PlainID(i.ID) != nil || i.Hour.Nano < 0 {
				t.Errorf("%+v", i)
			}
			for _, s := range []string{i.Label, i.Said, i.Location, i.Host} {
				if !foreign.Plain(s) {
					t.Errorf("%q can be shown", s)
				}
			}
		}
		places, _ := decodeLocations(a)
		for _, l := range places {
			for _, g := range l.GPUs {
				if o, ok := l.offer(g, 1, minDiskGB); ok && (o.Price.Hour.Nano <= 0 || !foreign.Plain(o.GPU) || !foreign.Plain(o.Location)) {
					t.Errorf("%+v", o)
				}
			}
		}
	})
}

// Each shape that lists have had is read, and what is none of them is an error.
func TestShapesOfLists(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"data":{"type":"list","id":"instances","attributes":{"instances":[{"type":"instance","id":"a","attributes":{"name":"n","status":"running"}}]}}}`,
		`{"data":{"instances":[{"type":"virtualmachine","id":"a","attributes":{"name":"n","status":"running"}}]}}`,
		`{"data":[{"type":"virtualmachine","id":"a","attributes":{"name":"n","status":"running"}}]}`,
		`{"instances":[{"id":"a","name":"n","status":"running"}]}`,
	} {
		if l, err := decodeList(provider.Answer{Status: 200, Body: []byte(body)}); err != nil || len(l) != 1 || l[0].ID != "a" || l[0].Label != "n" || l[0].State != provider.Running {
			t.Errorf("%s: %+v, %v", body, l, err)
		}
	}
	for _, body := range []string{``, `{}`, `null`, `[]`, `{"data":null}`, `{"data":{}}`, `{"data":{"instances":null}}`, `{"instances":{}}`, `{"data":{"attributes":{}}}`, `{"data":"x"}`, `{"instances":[{"name":"n"}]}`, `{"instances":["a"]}`} {
		if l, err := decodeList(provider.Answer{Status: 200, Body: []byte(body)}); !errors.Is(err, provider.ErrMalformed) || l != nil {
			t.Errorf("%s: %+v, %v", body, l, err)
		}
	}
}

// Errors are found in answers with status 200, and told apart.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		body   string
		want   error
	}{
		{200, `{"status":400,"error":"No available nodes found"}`, provider.ErrNoCapacity},
		{200, `{"status":400,"error":"No available public IPs found on hostnode"}`, provider.ErrNoCapacity},
		{200, `{"error":"No available nodes found"}`, provider.ErrNoCapacity},
		{200, `{"status":401,"error":"Unauthorized"}`, provider.ErrKey},
		{200, `{"status":429,"error":"Too many requests"}`, provider.ErrRate},
		{200, `{"status":404,"error":"Instance not found"}`, provider.ErrGone},
		{404, `{"error":"Instance not found"}`, provider.ErrGone},
		{200, `{"status":402,"error":"Insufficient balance"}`, provider.ErrNoMoney},
	} {
		if err := fault(provider.Answer{Status: c.status, Body: []byte(c.body)}); !errors.Is(err, c.want) {
			t.Errorf("%d %s: %v", c.status, c.body, err)
		}
	}
	for _, body := range []string{`{"id":"a","status":"running","error":null}`, `{"id":"a","status":"error"}`, `{"data":{}}`} {
		if err := fault(provider.Answer{Status: 200, Body: []byte(body)}); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	for _, a := range []provider.Answer{{Status: 500, Body: []byte(`{}`)}, {Status: 404, Body: []byte(`<html>not found</html>`)}, {Status: 404, Body: []byte(`{"error":"Not Found"}`)}, {Status: 200, Body: []byte(`{"status":404}`)}} {
		if err := fault(a); err == nil || errors.Is(err, provider.ErrGone) {
			t.Errorf("%d %s: %v", a.Status, a.Body, err)
		}
	}
}

package vast

import (
	"errors"
	"net/http"
	"testing"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/internal/foreign"
)

// harmless checks an instance that came from outside.
func harmless(t *testing.T, i provider.Instance) {
	t.Helper()
	if provider.PlainID(i.ID) != nil || i.Hour.Nano < 0 {
		t.Errorf("%+v", i)
	}
	for _, s := range []string{i.Label, i.Said, i.GPU, i.Location, i.Host, i.Machine} {
		if !foreign.Plain(s) {
			t.Errorf("%q can be shown", s)
		}
	}
}

// Whatever the API answers, nothing panics, nothing hostile comes through, and only a
// null is an end.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"instances":null}`, `{"instances":[]}`, `{"instances":[{"id":1,"label":"a\u001b[31m","actual_status":null}],"total_instances":1}`,
		`{"instances":{"id":7,"ports":{"22/tcp":[{"HostPort":"1"}]},"public_ipaddr":"192.0.2.1","dph_total":0.3}}`,
		`{"success":false,"error":"auth_error"}`, `{"success":false,"new_contract":12}`, `{"offers":[{"id":1,"num_gpus":1,"dph_total":1e300}]}`, `[`, ``, `null`,
	} {
		f.Add(http.StatusOK, []byte(seed))
		f.Add(http.StatusNotFound, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		a := provider.Answer{Status: status, Body: body}
		if page, _, _, err := decodePage(a); err == nil {
			for _, i := range page {
				harmless(t, i)
			}
		}
		i, err := decodeInstance(a)
		if err == nil {
			harmless(t, i)
		}
		if errors.Is(err, provider.ErrGone) && status != http.StatusOK {
			t.Errorf("an end by status %d", status)
		}
		if offers, err := decodeOffers(a, 10); err == nil {
			for _, o := range offers {
				if o.Price.Hour.Nano <= 0 || !foreign.Plain(o.GPU) || !foreign.Plain(o.Location) {
					t.Errorf("%+v", o)
				}
			}
		}
		if i, err := created(a, nil); err == nil && i.ID == "" {
			t.Error("created, and nothing there")
		}
	})
}

// Totals that do not add up, and pages that are none, are errors.
func TestPagesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, body := range []string{``, `{}`, `[]`, `{"instances":null}`, `{"instances":{}}`, `{"success":false,"instances":[]}`, `{"instances":[{"id":0}]}`, `{"instances":[{"id":1,"dph_total":-1}]}`} {
		if page, _, _, err := decodePage(provider.Answer{Status: 200, Body: []byte(body)}); !errors.Is(err, provider.ErrMalformed) {
			t.Errorf("%s: %v, %v", body, page, err)
		}
	}
	for _, body := range []string{`{}`, `{"instances":[]}`, `{"success":false}`, `null`, `{"instances":{"id":-4}}`} {
		if i, err := decodeInstance(provider.Answer{Status: 200, Body: []byte(body)}); !errors.Is(err, provider.ErrMalformed) {
			t.Errorf("%s: %+v, %v", body, i, err)
		}
	}
}

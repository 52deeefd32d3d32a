package command

import (
	"testing"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/internal/child"
	"github.com/assay-bench/assay/internal/foreign"
)

// Whatever a program writes, nothing panics and nothing hostile comes through.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{`{"instances":[{"id":"a","label":"\u001b[31m"}]}`, `{"error":{"kind":"gone"}}`, `{"offers":[{"id":"a","usd_hour":1}]}`, `{"list_lag_s":1,"user":"x"}`, `[`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		var a struct {
			Instances *[]instance `json:"instances"`
			Offers    *[]offer    `json:"offers"`
			description
		}
		if err := decode(child.Result{Stdout: out}, nil, "list", &a); err != nil {
			if !foreign.Plain(err.Error()) {
				t.Errorf("%q can be shown", err)
			}
			return
		}
		if a.Instances != nil {
			for _, w := range *a.Instances {
				if i, err := w.instance(); err == nil && (provider.PlainID(i.ID) != nil || !foreign.Plain(i.Label) || !foreign.Plain(i.Said) || i.Hour.Nano < 0) {
					t.Errorf("%+v", i)
				}
			}
		}
		if a.Offers != nil {
			for _, w := range *a.Offers {
				if o, err := w.offer(1); err == nil && (provider.PlainID(o.ID) != nil || !foreign.Plain(o.GPU) || o.Price.Hour.Nano < 0) {
					t.Errorf("%+v", o)
				}
			}
		}
		if traits, err := a.traits("x"); err == nil && (traits.ListLag < 0 || traits.ListLag > 3600e9) {
			t.Errorf("%+v", traits)
		}
	})
}

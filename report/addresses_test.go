package report

import (
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

func TestRequestsByAddress(t *testing.T) {
	s := assay.Summary{Stages: []assay.StageSummary{
		{Name: "c1", Addresses: map[string]int{"10.0.0.1:80": 3, "10.0.0.2:80": 4}},
		{Name: "c2", Addresses: map[string]int{"10.0.0.2:80": 5}},
	}}
	var b strings.Builder
	if err := Text(&b, Run(s, nil)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "10.0.0.1:80 3, 10.0.0.2:80 9") {
		t.Errorf("the report does not say how requests were spread:\n%s", b.String())
	}
	s.Stages = []assay.StageSummary{{Name: "c1", Addresses: map[string]int{"10.0.0.1:80": 3}}}
	b.Reset()
	if err := Text(&b, Run(s, nil)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "by address") {
		t.Error("one address is no spread")
	}
}

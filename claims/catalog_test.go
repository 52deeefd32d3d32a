package claims_test

import (
	"os"
	"slices"
	"testing"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/claims/engine"
	"github.com/assay-bench/assay/claims/gpu"
	"github.com/assay-bench/assay/claims/host"
	"github.com/assay-bench/assay/claims/probetest"
)

// catalog is what the command puts together.
func catalog() claims.Catalog {
	return claims.Catalog{Probes: slices.Concat(host.Probes(), gpu.Probes(), engine.Probes()), Command: host.Command}
}

// No two packages name a probe alike.
func TestProbesAreDescribed(t *testing.T) { probetest.Described(t, catalog().Probes) }

// The example names probes that there are, and every promise in it points the
// right way.
func TestExample(t *testing.T) {
	f, err := os.Open("../examples/claims/stratoswarm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := claims.Read(f, "stratoswarm.yaml", catalog())
	if err != nil {
		t.Fatal(err)
	}
	families := map[string]bool{}
	for _, p := range s.Probes {
		families[p.Family()] = true
	}
	if len(s.Claims) != 5 || len(families) != 6 {
		t.Errorf("%d claims over %v", len(s.Claims), families)
	}
}

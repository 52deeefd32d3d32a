package gpu

import (
	"flag"
	"testing"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/claims/probetest"
)

var updateProbes = flag.Bool("update-probes", false, "write the golden list of probes")

// Every probe runs once here with OpenCL on the processor, except those that need
// a real GPU. Which are which is golden: one that stops running shows here.
func TestRealEveryProbe(t *testing.T) {
	env := claims.Env{GPU: onPoCL(t).command(t), Seed: 1}
	probetest.Golden(t, "testdata/probes.golden", *updateProbes, Probes(), env, nil)
}

func TestProbesAreDescribed(t *testing.T) { probetest.Described(t, Probes()) }

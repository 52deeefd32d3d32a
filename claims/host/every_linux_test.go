package host

import (
	"flag"
	"os"
	"testing"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/claims/probetest"
)

var updateProbes = flag.Bool("update-probes", false, "write the golden list of probes")

// Every probe runs once here, except those that need a module or a container
// runtime. Which are which is golden: one that stops running shows here.
func TestRealEveryProbe(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the golden list is root's: some probes of namespaces need it")
	}
	if !onDisk(t, t.TempDir()) {
		t.Skip("the directory for temporary files is not on a disk, and some probes need one")
	}
	env := claims.Env{Dir: t.TempDir(), Agent: []string{"/bin/echo", "ready"}, Seed: 1}
	probetest.Golden(t, "testdata/probes.golden", *updateProbes, Probes(), env, map[string]string{
		"spawn/container_": "as the runtime is there or not",
	})
}

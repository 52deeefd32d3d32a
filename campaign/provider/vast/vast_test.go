package vast_test

import (
	"testing"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/provider/providertest"
	"github.com/assay-bench/assay/campaign/provider/vast"
	"github.com/assay-bench/assay/campaign/sandbox"
	"github.com/assay-bench/assay/campaign/sandbox/sandboxtest"
)

func start(t *testing.T, faults map[string]float64) (*sandbox.Sandbox, vast.Config) {
	s, url := sandboxtest.Start(t, sandbox.Config{Scale: 1000, Faults: faults})
	return s, vast.Config{Base: url + sandbox.VastPath, Key: s.Key(sandbox.Vast)}
}

func TestVastConforms(t *testing.T) {
	t.Parallel()
	providertest.Run(t, providertest.Suite{New: func(t *testing.T) providertest.Cloud {
		s, c := start(t, nil)
		cloud := sandboxtest.Cloud(s, sandbox.Vast)
		cloud.Provider, cloud.Traits, cloud.Query = vast.New(c), vast.Traits(c), provider.Query{GPU: "RTX 4090", DiskGB: 60}
		return cloud
	}})
}

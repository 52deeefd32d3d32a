package tensordock_test

import (
	"testing"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/provider/providertest"
	"github.com/assay-bench/assay/campaign/provider/tensordock"
	"github.com/assay-bench/assay/campaign/sandbox"
	"github.com/assay-bench/assay/campaign/sandbox/sandboxtest"
)

func start(t *testing.T, faults map[string]float64) (*sandbox.Sandbox, tensordock.Config) {
	s, url := sandboxtest.Start(t, sandbox.Config{Scale: 1000, Faults: faults})
	return s, tensordock.Config{Base: url + sandbox.TensorDockPath, Key: s.Key(sandbox.TensorDock)}
}

func TestTensorDockConforms(t *testing.T) {
	t.Parallel()
	providertest.Run(t, providertest.Suite{New: func(t *testing.T) providertest.Cloud {
		s, c := start(t, nil)
		cloud := sandboxtest.Cloud(s, sandbox.TensorDock)
		cloud.Provider, cloud.Traits, cloud.Query = tensordock.New(c), tensordock.Traits(), provider.Query{GPU: "RTX 4090", DiskGB: 120}
		return cloud
	}})
}

// Package probetest is what the tests of every package of probes share.
package probetest

import (
	"testing"

	"github.com/assay-bench/assay/claims"
)

// Described fails for a probe that does not say what it is, and for two of one
// name.
func Described(t *testing.T, probes []claims.Probe) {
	t.Helper()
	seen := map[string]bool{}
	for _, p := range probes {
		if p.Help == "" || p.Unit == "" || p.Start == nil || p.Family() == p.Name {
			t.Errorf("a probe that does not say what it is: %+v", p)
		}
		if seen[p.Name] {
			t.Errorf("there are two probes named %s", p.Name)
		}
		seen[p.Name] = true
	}
}

// Package sandboxtest starts simulated clouds for tests.
package sandboxtest

import (
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/assay-bench/assay/campaign/provider/providertest"
	"github.com/assay-bench/assay/campaign/sandbox"
)

// Start serves a sandbox for the time of a test and gives its URL.
func Start(t testing.TB, c sandbox.Config) (*sandbox.Sandbox, string) {
	t.Helper()
	s, err := sandbox.New(c)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		server.Close()
		s.Close()
	})
	return s, server.URL
}

// Cloud is a conformance suite's view of one simulated cloud.
func Cloud(s *sandbox.Sandbox, name string) providertest.Cloud {
	faults := providertest.All()
	if name != sandbox.Vast {
		faults = slices.DeleteFunc(faults, func(f string) bool { return f == providertest.Despite })
	}
	return providertest.Cloud{
		Alive:  func() int { return s.Book().Alive },
		Faults: faults,
		Fault:  func(t *testing.T, fault string) { Fault(t, s, name, fault) },
		Boot:   func(t *testing.T, id string) { Boot(t, s, id) },
	}
}

// Fault switches a fault on: once, or for good where it is one that stays.
func Fault(t testing.TB, s *sandbox.Sandbox, cloud, name string) {
	t.Helper()
	err := s.Next(cloud+":"+name, 1)
	switch name {
	case providertest.Retired, providertest.KeyRevoked, providertest.Hostile:
		err = s.Set(map[string]float64{cloud + ":" + name: 1})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Boot waits until an instance runs.
func Boot(t testing.TB, s *sandbox.Sandbox, id string) {
	t.Helper()
	for range 2000 {
		for _, e := range s.Book().Entries {
			if e.ID == id && e.State == "running" {
				return
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("instance %s does not run", id)
}

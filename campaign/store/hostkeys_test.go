package store

import "testing"

// The first key that is pinned stays, whoever comes later.
func testHostKeys(t *testing.T, s *Store) {
	equal(t, "before", got[string](t)(s.HostKey(t.Context(), "vast/1")), "")
	equal(t, "first", got[string](t)(s.PinHostKey(t.Context(), "vast/1", "ssh-ed25519 A")), "ssh-ed25519 A")
	equal(t, "second", got[string](t)(s.PinHostKey(t.Context(), "vast/1", "ssh-ed25519 B")), "ssh-ed25519 A")
	equal(t, "read", got[string](t)(s.HostKey(t.Context(), "vast/1")), "ssh-ed25519 A")
	equal(t, "another", got[string](t)(s.PinHostKey(t.Context(), "vast/2", "ssh-ed25519 B")), "ssh-ed25519 B")
}

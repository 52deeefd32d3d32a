package main

import (
	"path/filepath"
	"testing"
	"time"
)

// A second try waits for the runs beside it, and nobody waits for a run whose
// tests are through.
func TestSecondTryIsAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "turn")
	first, err := share(path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := share(path)
	if err != nil {
		t.Fatal(err)
	}
	alone := make(chan error)
	go func() { alone <- first.alone() }()
	select {
	case <-alone:
		t.Fatal("it did not wait for the run beside it")
	case <-time.After(200 * time.Millisecond):
	}
	second.close()
	if err := <-alone; err != nil {
		t.Fatal(err)
	}
	// Now others wait until its process ends.
	late := make(chan error)
	go func() { _, err := share(path); late <- err }()
	select {
	case <-late:
		t.Fatal("a run began beside a second try")
	case <-time.After(200 * time.Millisecond):
	}
	first.close()
	if err := <-late; err != nil {
		t.Fatal(err)
	}
}

package main

import (
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/assay-bench/assay/internal/proc"
)

// stalls lets a process and all that descend from it stand still, about every
// ten seconds, each time for up to most. Nothing runs meanwhile and no timer
// fires, but the clocks go on: so it is when a host takes its processors away.
func stalls(root int, most time.Duration) (stop func()) {
	if most <= 0 {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(5*time.Second + rand.N(10*time.Second)):
			}
			all := proc.Descendants("/proc", root)
			for _, p := range all {
				_ = syscall.Kill(p.PID, syscall.SIGSTOP)
			}
			time.Sleep(rand.N(most))
			for _, p := range all {
				_ = syscall.Kill(p.PID, syscall.SIGCONT)
			}
		}
	}()
	return func() { close(end); <-ended }
}

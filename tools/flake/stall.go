package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"time"
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
			all := family(root)
			for _, pid := range all {
				_ = syscall.Kill(pid, syscall.SIGSTOP)
			}
			time.Sleep(rand.N(most))
			for _, pid := range all {
				_ = syscall.Kill(pid, syscall.SIGCONT)
			}
		}
	}()
	return func() { close(end); <-ended }
}

// family is a process and its descendants.
func family(root int) []int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent := parentOf(pid); parent > 0 {
			children[parent] = append(children[parent], pid)
		}
	}
	all := []int{root}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// parentOf reads the second field behind the name, which stands in brackets and
// may hold any character.
func parentOf(pid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}

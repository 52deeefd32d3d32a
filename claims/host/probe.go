// Package host has the probes that need no GPU and no engine: memory tiers,
// process spawning, the kernel, and commands of the user's own.
//
// It refuses to change anything on the machine that it does not change back.
package host

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
)

// Probes are those that need no GPU and no engine: memory tiers, spawn and
// kernel. They are listed on every system; where one cannot run, its Start says why.
//
// Each operation is timed by itself, except where it is too short for the clock
// (kernel/syscall and the access patterns, which are batches). What reading the
// clock costs is measured once for each probe and kept as clock_s with each
// sample; it is subtracted nowhere.
func Probes() []claims.Probe {
	probes := []claims.Probe{
		hostProbe("memory_tiers/page_fault_minor", "", "Touches a fresh page of anonymous memory: the kernel finds, clears and maps one."),
		hostProbe("memory_tiers/page_fault_major", "a directory on a disk", "Touches a page of a mapped file that was dropped from the page cache: the kernel reads it from the disk. In a virtual machine the disk may be the host's memory."),
		hostProbe("memory_tiers/pressure_sequential", "memory: a quarter of what is free, 1 GiB at most", "Reads and writes memory line by line (64 bytes) in order; the time of one line, as the mean of a batch. Counters of the memory management before and after."),
		hostProbe("memory_tiers/pressure_random", "memory: a quarter of what is free, 1 GiB at most", "Reads and writes lines of memory at random, each place known only from the line before; the time of one line, as the mean of a batch. Counters of the memory management before and after."),
		hostProbe("memory_tiers/pressure_disk_sequential", "a directory on a disk, O_DIRECT", "Reads a page (4 KiB) of a file past the page cache, changes it and writes it back, page after page; the file is a quarter of what is free, 256 MiB at most."),
		hostProbe("memory_tiers/pressure_disk_random", "a directory on a disk, O_DIRECT", "Reads a page (4 KiB) of a file past the page cache, changes it and writes it back, at random; the file is a quarter of what is free, 256 MiB at most."),
		hostProbe("spawn/process", "/bin/true", "Starts /bin/true (fork and exec) and waits for its end."),
		hostProbe("spawn/namespaces", "user namespaces, /bin/cat", "Starts a process in new user, pid, mount and network namespaces, limits its memory and open files before it does anything, lets it go and waits for its end."),
		hostProbe("spawn/agent", "our own binary as an agent", "Starts our own binary as an agent until it says that it is ready."),
		hostProbe("spawn/container_runc", "runc", "Runs a container whose one program exits at once, from creation to removal, by runc with a bundle of our own, 128 MiB and one CPU."),
		hostProbe("spawn/container_crun", "crun", "Runs a container whose one program exits at once, from creation to removal, by crun with a bundle of our own, 128 MiB and one CPU."),
		hostProbe("spawn/container_podman", "podman", "Runs a container whose one program exits at once, from creation to removal, by podman with a root directory of our own, and for root with 128 MiB and one CPU."),
		hostProbe("spawn/container_docker", "docker, its daemon, and an image busybox, alpine or hello-world that is there already", "Runs a container that exits at once, from creation to removal, by docker, with 128 MiB and one CPU. Nothing is pulled."),
		hostProbe("kernel/syscall", "", "Calls getppid, the cheapest system call that does something; the mean of a batch."),
		hostProbe("kernel/syscall_with_module", "root, and a module that is named and not loaded", "Calls getppid as kernel/syscall does while a kernel module is loaded; without_s is the same without it. The module is unloaded again."),
		hostProbe("kernel/namespace_create", "root", "Makes new mount, network, UTS and IPC namespaces for a thread, with one unshare."),
		hostProbe("kernel/namespace_enter", "root", "Enters mount, network, UTS and IPC namespaces that are there, with one setns for each."),
		hostProbe("kernel/namespace_exit", "root", "Goes back from new mount, network, UTS and IPC namespaces to the first ones and gives the new ones up, which the kernel takes apart later."),
	}
	disk := make([]claims.Probe, 0, len(diskSizes)+len(probes))
	for _, s := range diskSizes {
		disk = append(disk, hostProbe("memory_tiers/cpu_to_disk_"+s.name, "a directory on a disk, O_DIRECT", fmt.Sprintf("Writes %d MiB of memory over a file past the page cache (O_DIRECT), and fsync.", s.bytes>>20)))
	}
	return append(disk, probes...)
}

// diskSizes are in megabytes of 2²⁰ bytes.
var diskSizes = []struct {
	name  string
	bytes int
}{
	{"1mb", 1 << 20}, {"10mb", 10 << 20}, {"100mb", 100 << 20}, {"1gb", 1 << 30},
}

// hostProbe is one of those whose value is the time of an operation.
func hostProbe(name, needs, help string) claims.Probe {
	return claims.Probe{Name: name, Help: help, Needs: needs, Unit: "s", Better: assay.Lower, Start: hostStart(name)}
}

// hostRunner makes a claims.Runner of functions; close may be nil.
type hostRunner struct {
	sample func(context.Context) (claims.Measurement, error)
	close  func() error
}

func (r hostRunner) Sample(ctx context.Context) (claims.Measurement, error) {
	if err := context.Cause(ctx); err != nil {
		return claims.Measurement{}, err
	}
	return r.sample(ctx)
}

func (r hostRunner) Close() error {
	if r.close == nil {
		return nil
	}
	return r.close()
}

// clockCost is what taking a time costs: the least difference of two readings
// with nothing between, over enough of them that an interrupt does not count.
func clockCost() float64 {
	least := time.Duration(1<<63 - 1)
	for range 1000 {
		start := time.Now()
		least = min(least, time.Since(start))
	}
	return least.Seconds()
}

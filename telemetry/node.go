package telemetry

import (
	"bufio"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/assay-bench/assay"
)

// DescribeNode says what machine this is, as far as it tells without asking
// more than its files. What it does not tell stays empty.
func DescribeNode() assay.Node {
	n := assay.Node{
		OS: runtime.GOOS, Arch: runtime.GOARCH,
		Cores: runtime.NumCPU(), // that the affinity mask allows
		GPUs:  []assay.GPU{},
	}
	if h, err := os.Hostname(); err == nil {
		n.Hostname = h
	}
	n.ID = n.Hostname
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		n.Kernel = strings.TrimSpace(string(b))
	}
	n.CPU = field("/proc/cpuinfo", "model name")
	if kb, ok := strings.CutSuffix(field("/proc/meminfo", "MemTotal"), " kB"); ok {
		if v, err := strconv.ParseInt(kb, 10, 64); err == nil {
			n.MemoryBytes = v << 10
		}
	}
	return n
}

// field gives the first value of a key in a file of "key : value" lines.
func field(file, key string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		k, v, ok := strings.Cut(s.Text(), ":")
		if ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

package profile

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/internal/proc"
)

// maxProcesses bounds an engine's tree.
const maxProcesses = 256

func inWords(all []proc.Seen) []string {
	var out []string
	for _, p := range all {
		out = append(out, fmt.Sprintf("%s (process %d)", foreign.Line(p.Name, 60), p.PID))
	}
	return out
}

// engineTree finds the process that listens where the engine answers, and what it
// has started.
func engineTree(procRoot, address string) ([]proc.Seen, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("its address cannot be read")
	}
	host, port := u.Hostname(), u.Port()
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("%s is not this machine by a loopback address (127.0.0.1), and other machines are not looked into", foreign.Line(host, 100))
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, errors.New("its address has no port")
	}
	inodes := listeners(procRoot, n)
	if len(inodes) == 0 {
		return nil, fmt.Errorf("nothing listens on port %d in this network namespace", n)
	}
	pid := owner(procRoot, inodes)
	if pid == 0 {
		return nil, fmt.Errorf("whose process listens on port %d cannot be seen: run as root", n)
	}
	tree := proc.Descendants(procRoot, pid)
	return tree[:min(len(tree), maxProcesses)], nil
}

// listeners are the inodes of sockets that listen on a port.
func listeners(procRoot string, port uint64) []string {
	const listening = "0A"
	var out []string
	for _, name := range []string{"net/tcp", "net/tcp6"} {
		b, err := os.ReadFile(filepath.Join(procRoot, name))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != listening {
				continue
			}
			_, hex, _ := strings.Cut(f[1], ":")
			if p, err := strconv.ParseUint(hex, 16, 16); err == nil && p == port && f[9] != "0" {
				out = append(out, "socket:["+f[9]+"]")
			}
		}
	}
	return out
}

// owner is the oldest process that has one of the sockets open; 0: none is seen.
func owner(procRoot string, inodes []string) int {
	for _, pid := range proc.PIDs(procRoot) {
		dir := filepath.Join(procRoot, strconv.Itoa(pid), "fd")
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && slices.Contains(inodes, to) {
				return pid
			}
		}
	}
	return 0
}

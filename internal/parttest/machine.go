package parttest

import (
	"os"
	"path/filepath"
	"testing"
)

// Machine is one that is reached by SSH, with namespaces of its own where that is
// permitted: its own network, processes and /tmp.
type Machine struct {
	Address  string // HOST:PORT
	User     string
	Home     string // its home directory, as this process sees it
	HostKey  string // as in authorized_keys
	Isolated bool   // it has namespaces of its own

	server Server
}

// SSHD starts a machine that lets the owner of a public key in, which is a line as
// in authorized_keys.
func SSHD(tb testing.TB, key string) *Machine {
	tb.Helper()
	Install(tb, "sshd")
	s := Server{tb: tb, serve: filepath.Join(Scripts(tb), "sshd-serve"), dir: tb.TempDir()}
	StopAtEnd(tb, s.serve, s.dir)
	value := values(Run(tb, nil, s.serve, "start", s.dir, key))
	return &Machine{
		Address: value["ASSAY_SSH_ADDRESS"], User: value["ASSAY_SSH_USER"], Home: value["ASSAY_SSH_HOME"],
		HostKey: value["ASSAY_SSH_HOSTKEY"], Isolated: value["ASSAY_SSH_ISOLATED"] == "1",
		server: s,
	}
}

// Program puts a program into the machine's home, first in its PATH.
func (m *Machine) Program(name, script string) {
	m.server.tb.Helper()
	Program(m.server.tb, filepath.Join(m.Home, "bin", name), []byte(script))
}

// NewHostKey gives it another host key, as if somebody else answered at its
// address.
func (m *Machine) NewHostKey() {
	tb := m.server.tb
	tb.Helper()
	file := filepath.Join(m.Home, ".sshd", "host")
	for _, old := range []string{file, file + ".pub"} {
		if err := os.Remove(old); err != nil {
			tb.Fatal(err)
		}
	}
	Run(tb, nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file)
	m.server.Restart()
}

// Kill ends the machine at once, with all that runs on it.
func (m *Machine) Kill() { m.server.tb.Helper(); m.server.Kill() }

// Restart starts it again, with its address and its files.
func (m *Machine) Restart() { m.server.tb.Helper(); m.server.Restart() }

// Log is what its sshd has printed.
func (m *Machine) Log() string { return m.server.Log() }

// Temporal starts a Temporal server that no other test uses; URL is its HOST:PORT.
func Temporal(tb testing.TB) *Server {
	tb.Helper()
	s, address := own(tb, "temporal")
	s.URL = address
	return s
}

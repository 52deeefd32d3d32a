package sandboxtest

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/assay-bench/assay/campaign/sandbox"
	"github.com/assay-bench/assay/campaign/sandbox/pretend"
	"github.com/assay-bench/assay/internal/parttest"
)

// Machines puts a real sshd behind each instance of a sandbox, in namespaces of its
// own, with a stub of the GPU's driver and our simulator as its engine. Its key works
// as late as the cloud says. A host that dies takes all that runs on it along.
func Machines(t testing.TB) sandbox.Start {
	return func(_ context.Context, b sandbox.Boot) (string, int, func(), error) {
		m := parttest.SSHD(t, "# the key comes later")
		if !m.Isolated {
			err := errors.New("machines would share their engines' port: no namespaces are permitted here")
			t.Error(err)
			return "", 0, nil, err
		}
		for name, text := range pretend.Programs(b.ID, b.GPU, b.VRAM) {
			m.Program(name, text)
		}
		keys := filepath.Join(m.Home, ".ssh", "authorized_keys")
		late := time.AfterFunc(b.KeyAfter, func() { _ = os.WriteFile(keys, []byte(b.SSHKey+"\n"), 0o600) })
		host, port, err := net.SplitHostPort(m.Address)
		if err != nil {
			return "", 0, nil, err
		}
		n, err := strconv.Atoi(port)
		return host, n, func() { late.Stop(); m.Kill() }, err
	}
}

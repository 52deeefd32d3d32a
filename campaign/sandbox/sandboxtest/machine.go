package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/assay-bench/assay/campaign/sandbox"
	"github.com/assay-bench/assay/internal/parttest"
)

// ollama stands in for the engine: our simulator under the name of whichever model was
// pulled.
const ollama = `#!/bin/sh
cd "$HOME"
case $1 in
serve) exec .assay/node simulate --listen 127.0.0.1:11434 --model "$(cat pulled 2>/dev/null || echo none)" --like ollama --ttft 20ms --itl 2ms ;;
pull)
  echo "$2" >pulled
  while pkill -f "node simulate"; do sleep 0.05; done
  setsid "$0" serve >>.assay/engine.log 2>&1 </dev/null &
  for n in $(seq 100); do
    ! curl -fsS -o /dev/null http://127.0.0.1:11434/api/version 2>/dev/null || exit 0
    sleep 0.1
  done
  exit 1 ;;
list) echo "NAME ID"; echo "$(cat pulled 2>/dev/null) 0f" ;;
esac
`

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
		mib := b.VRAM >> 20
		m.Program("nvidia-smi", fmt.Sprintf("#!/bin/sh\ncase $1 in\n--query-gpu=*) echo 'NVIDIA GeForce %s, GPU-%s, 550.54.15, %d, %d' ;;\n*) echo 'CUDA Version   : 12.4' ;;\nesac\n", b.GPU, b.ID, mib, mib-400))
		m.Program("ollama", ollama)
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

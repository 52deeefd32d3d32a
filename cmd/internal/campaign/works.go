package campaign

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/campaign/flow"
	"github.com/assay-bench/assay/campaign/node"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/native"
	"github.com/assay-bench/assay/internal/disk"
)

// stateFlags say where the files of campaigns are.
type stateFlags struct{ dir string }

func (f *stateFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.dir, "state", "campaigns", "`directory` of what is no row: the master key, results, Temporal's database")
}

// directory is the state directory, which it makes.
func (f *stateFlags) directory() (string, error) {
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return "", err
	}
	return dir, disk.MkdirAll(dir, 0o700)
}

// temporalFlags say which Temporal.
type temporalFlags struct{ address, namespace, binary string }

func (f *temporalFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.address, "temporal", "", "`HOST:PORT` of a Temporal server; by default one is started for as long as the command runs")
	fs.StringVar(&f.namespace, "temporal-namespace", "", "`name` of the namespace there; by default \"default\"")
	fs.StringVar(&f.binary, "temporal-binary", "", "`file` of the program that a server is started with; by default temporal on the PATH")
}

// connect connects to a server, and starts one where none was named.
func (f *temporalFlags) connect(ctx context.Context, dir string) (*flow.Client, func(), error) {
	address, stop := f.address, func() {}
	if address == "" {
		supervisor, err := native.Command("supervise")
		if err != nil {
			return nil, nil, err
		}
		s, err := flow.StartServer(ctx, flow.ServerOptions{Binary: f.binary, Dir: filepath.Join(dir, "temporal"), Supervisor: supervisor, Env: os.Environ()})
		if err != nil {
			return nil, nil, err
		}
		address, stop = s.Address, s.Stop
	}
	c, err := flow.Dial(ctx, flow.ClientOptions{Address: address, Namespace: f.namespace, Log: cli.Log(ctx)})
	if err != nil {
		stop()
		return nil, nil, err
	}
	return c, func() { c.Close(); stop() }, nil
}

// worksFlags are those of commands that rent and measure.
type worksFlags struct {
	credentialFlags
	databaseFlags
	stateFlags
	temporalFlags
	nodeFile string
	quiet    bool
}

func (f *worksFlags) register(fs *pflag.FlagSet) {
	f.credentialFlags.register(fs)
	f.databaseFlags.register(fs)
	f.stateFlags.register(fs)
	f.temporalFlags.register(fs)
	fs.StringVar(&f.nodeFile, "node-binary", "", "`file` of assay-node that is sent to machines; ARCH in it stands for amd64 or arm64; by default assay-node beside this program")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print no progress")
}

// activities are what the worker does.
func (f *worksFlags) activities(s *store.Store, accounts map[string]account, scale float64, dir string) (*flow.Activities, error) {
	master, err := node.OpenMaster(filepath.Join(dir, "master.key"))
	if err != nil {
		return nil, err
	}
	var clouds []rent.Cloud
	for _, a := range accounts {
		clouds = append(clouds, rent.Cloud{Provider: a.provider, Traits: a.traits})
	}
	return &flow.Activities{
		Store: s, Rent: rent.New(s, clouds, rent.Options{Scale: scale}), Master: master, Pins: s,
		Binary: f.nodeBinary, Results: filepath.Join(dir, "results"),
		Order: func(cell store.Cell, o provider.Order, lease time.Duration) provider.Order {
			o.Image = image(cell)
			o.OnStart = node.DeadMan(accounts[cell.Provider].traits.DeadMan.End, lease)
			return o
		},
	}, nil
}

// image is what a machine boots: a container's at Vast.ai, a system's at TensorDock.
func image(c store.Cell) string {
	switch {
	case c.Provider == "tensordock":
		return "ubuntu2204"
	case c.Engine == string(node.VLLM):
		return "vllm/vllm-openai:latest"
	}
	return "ollama/ollama:latest"
}

// nodeBinary reads the node binary for a processor.
func (f *worksFlags) nodeBinary(arch string) ([]byte, error) {
	path := f.nodeFile
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(filepath.Dir(self), "assay-node")
		if arch != runtime.GOARCH {
			path += "-" + arch
		}
	}
	path = filepath.Clean(replaceArch(path, arch))
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the node binary for %s: %w; build it with CGO_ENABLED=0 GOARCH=%s go build ./cmd/assay-node, and name it with --node-binary", arch, err, arch)
	}
	return b, nil
}

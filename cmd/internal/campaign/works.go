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
	"github.com/assay-bench/assay/cmd/internal/cli/clouds"
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

// worksFlags are those of commands that rent and measure.
type worksFlags struct {
	clouds.Credentials
	databaseFlags
	stateFlags
	temporalFlags
	nodeFile string
	quiet    bool
}

func (f *worksFlags) register(fs *pflag.FlagSet) {
	f.Credentials.Register(fs)
	f.databaseFlags.register(fs)
	f.stateFlags.register(fs)
	f.temporalFlags.register(fs)
	fs.StringVar(&f.nodeFile, "node-binary", "", "`file` of assay-node that is sent to machines; ARCH in it stands for amd64 or arm64; by default assay-node beside this program")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print no progress")
}

// activities are what the worker does.
func (f *worksFlags) activities(ctx context.Context, s *store.Store, accounts map[string]clouds.Account, scale float64, dir string) (*flow.Activities, error) {
	master, err := node.OpenMaster(filepath.Join(dir, "master.key"))
	if err != nil {
		return nil, err
	}
	sign, err := archiver(ctx, master, dir)
	if err != nil {
		return nil, err
	}
	return &flow.Activities{
		Store: s, Rent: rent.New(s, clouds.Rentable(accounts), rent.Options{Scale: scale}), Master: master, Pins: s,
		Binary: f.nodeBinary, Results: filepath.Join(dir, "results"), Sign: sign,
		Order: func(cell store.Cell, o provider.Order, lease time.Duration) provider.Order {
			o.Image = clouds.Image(cell.Provider, cell.Engine)
			o.OnStart = node.DeadMan(accounts[cell.Provider].Traits.DeadMan.End, lease)
			return o
		},
	}, nil
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

package campaign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/assay-bench/assay/campaign/node"
	"github.com/assay-bench/assay/campaign/record"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/ledger"
)

// archiveStatement is the statement about the key that results are signed with: what
// whoever verifies them trusts. An authority may certify it, and its own takes this
// one's place.
const archiveStatement = "archive.pub"

// archiveYears is how long that key is good.
const archiveYears = 10

// archiver signs run directories that came home. Its key derives from the master, so
// that every worker signs with the same; it may sign runs of any machine, as rented
// ones have no key of their own that anybody knows.
func archiver(ctx context.Context, m *node.Master, dir string) (func(ctx context.Context, dir string) error, error) {
	private, err := m.ArchiveKey()
	if err != nil {
		return nil, err
	}
	signer := ledger.HeldKey(private)
	path := filepath.Join(dir, archiveStatement)
	key, err := keys.ReadKeyStatement(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = ledger.StateKey(ctx, signer.Public(), signer, ledger.KeyOptions{
			Node: "campaigns", Owner: "campaigns", Roles: []ledger.Role{ledger.RoleAuthority}, NotAfter: time.Now().AddDate(archiveYears, 0, 0),
		})
		if err == nil {
			err = disk.Replace(path, 0o644, disk.Bytes(key.Envelope))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the key that results are signed with: %w", err)
	}
	if !signer.Public().Equal(key.Public) {
		return nil, fmt.Errorf("%s is about another key than the one of master.key beside it: put the right one there, or remove it", path)
	}
	return func(ctx context.Context, dir string) error {
		_, err := ledger.SignRun(ctx, dir, signer, key, ledger.SignOptions{})
		return err
	}, nil
}

// archived says where the results of a report lie, and by which key they are signed.
func archived(list []store.Benchmark) []record.Archived {
	var out []record.Archived
	for _, b := range list {
		if b.Directory == "" {
			continue
		}
		a := record.Archived{GPU: b.GPUType, Provider: b.Provider, Model: b.Model, Directory: b.Directory}
		switch info, err := os.Stat(b.Directory); {
		case err != nil:
			a.Missing = true
		case info.IsDir():
			if envelope, err := keys.ReadSmall(filepath.Join(b.Directory, ledger.TestResultFile), ledger.MaxValue); err == nil {
				a.Key, _ = ledger.SignedBy(envelope)
			}
		}
		out = append(out, a)
	}
	return out
}

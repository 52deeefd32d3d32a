package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/assay-bench/assay/ledger"
)

// nodeKey is a node that may sign.
type nodeKey struct {
	signer ledger.Signer
	key    ledger.Key // as the authority states it
}

// openKeys makes the keys at the first start and finds the same ones later. Their
// private halves follow from one seed that lies in the clear: these keys are worth
// nothing.
func openKeys(ctx context.Context, dir string, nodes int) ([]nodeKey, error) {
	seed, err := once(filepath.Join(dir, "seed"), func() ([]byte, error) {
		b := make([]byte, 32)
		_, err := rand.Read(b)
		return b, err
	})
	if err != nil {
		return nil, err
	}
	authority := derived(seed, "authority")
	if _, err := once(filepath.Join(dir, "authority.pub"), func() ([]byte, error) {
		k, err := ledger.StateKey(ctx, authority.Public(), authority, ledger.KeyOptions{
			Node: "authority", Owner: "Statements", Roles: []ledger.Role{ledger.RoleAuthority},
		})
		return k.Envelope, err
	}); err != nil {
		return nil, err
	}
	var out []nodeKey
	for i := range nodes {
		name := fmt.Sprintf("node-%03d", i)
		s := derived(seed, name)
		// The statement must be the same at each start: it goes out again each time,
		// as with each run of a real node, and is logged once.
		envelope, err := once(filepath.Join(dir, name+".pub"), func() ([]byte, error) {
			k, err := ledger.StateKey(ctx, s.Public(), authority, ledger.KeyOptions{Node: name, Owner: "Statements"})
			return k.Envelope, err
		})
		if err != nil {
			return nil, err
		}
		k, err := ledger.ParseKey(envelope)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, nodeKey{s, k})
	}
	return out, nil
}

func derived(seed []byte, name string) ledger.Signer {
	sum := sha256.Sum256(append([]byte(name+"\n"), seed...))
	return ledger.HeldKey(ed25519.NewKeyFromSeed(sum[:]))
}

// once reads a file, or makes it whole where it is not there: a kill leaves either
// none or all of it.
func once(path string, make func() ([]byte, error)) ([]byte, error) {
	b, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	if b, err = make(); err != nil {
		return nil, err
	}
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return nil, err
	}
	return b, os.Rename(path+".new", path)
}

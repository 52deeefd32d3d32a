package node

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/assay-bench/assay/internal/disk"
)

// Master is the secret that the keys of all machines derive from, so that any
// worker that has the file can go on with any machine, and no key is kept.
type Master struct{ secret []byte }

// masterBytes is the secret's length.
const masterBytes = 32

// OpenMaster reads the secret, and makes the file when there is none. One that
// others may read is refused.
func OpenMaster(path string) (*Master, error) {
	m, err := readMaster(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	if err := disk.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	secret := make([]byte, masterBytes)
	_, _ = rand.Read(secret) // it never fails
	err = disk.Create(path, 0o600, disk.Bytes([]byte(hex.EncodeToString(secret)+"\n")))
	if err != nil && !errors.Is(err, fs.ErrExist) { // another process was first: its secret counts
		return nil, fmt.Errorf("make the master key: %w", err)
	}
	return readMaster(path)
}

func readMaster(path string) (*Master, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the master key %s is readable by others (mode %s): chmod 600 it, and if somebody else had access, cancel the campaigns and make a new one", path, info.Mode())
	}
	b, err := io.ReadAll(io.LimitReader(f, 4*masterBytes))
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(secret) != masterBytes {
		return nil, fmt.Errorf("%s is no master key: it must hold %d bytes in hexadecimal", path, masterBytes)
	}
	return &Master{secret}, nil
}

// Signer derives the key pair of a label.
func (m *Master) Signer(label string) (ssh.Signer, error) {
	seed, err := hkdf.Key(sha256.New, m.secret, nil, "assay/campaign/ssh/v1 "+label, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	return ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed))
}

// PublicKey gives the public half of a label's key pair, as a line of
// authorized_keys.
func (m *Master) PublicKey(label string) (string, error) {
	s, err := m.Signer(label)
	if err != nil {
		return "", err
	}
	return marshal(s.PublicKey()), nil
}

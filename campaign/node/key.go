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
	err = disk.CreateWhole(path, 0o600, disk.Bytes([]byte(hex.EncodeToString(secret)+"\n")))
	if err != nil && !errors.Is(err, fs.ErrExist) { // another process was first: its secret counts
		return nil, fmt.Errorf("make the master key: %w", err)
	}
	return readMaster(path)
}

func readMaster(path string) (*Master, error) {
	b, err := readSecret(path, 4*masterBytes)
	if errors.Is(err, errReadable) {
		err = fmt.Errorf("the master key %w, and if somebody else had access, cancel the campaigns and make a new one", err)
	}
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(secret) != masterBytes {
		return nil, fmt.Errorf("%s is no master key: it must hold %d bytes in hexadecimal", path, masterBytes)
	}
	return &Master{secret}, nil
}

// errReadable says that others could have read a secret.
var errReadable = errors.New("chmod 600 it")

// readSecret reads a file that is for its owner only.
func readSecret(path string, most int64) ([]byte, error) {
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
		return nil, fmt.Errorf("%s is readable by others (mode %s): %w", path, info.Mode(), errReadable)
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// maxKeyFile bounds a private key's file.
const maxKeyFile = 64 << 10

// ReadKey reads the private key of a machine of one's own, which somebody has installed
// there. One with a passphrase is refused: nobody is there to type it.
func ReadKey(path string) (ssh.Signer, error) {
	b, err := readSecret(path, maxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("the SSH key: %w", err)
	}
	s, err := ssh.ParsePrivateKey(b)
	if err != nil {
		return nil, fmt.Errorf("the SSH key %s: %w", path, err)
	}
	return s, nil
}

// Signer derives the key pair of a label.
func (m *Master) Signer(label string) (ssh.Signer, error) {
	key, err := m.derive("assay/campaign/ssh/v1 " + label)
	if err != nil {
		return nil, err
	}
	return ssh.NewSignerFromKey(key)
}

// ArchiveKey derives the key that results are signed with. It opens no machine.
func (m *Master) ArchiveKey() (ed25519.PrivateKey, error) {
	return m.derive("assay/campaign/archive/v1")
}

func (m *Master) derive(what string) (ed25519.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, m.secret, nil, what, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
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

package server

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/server"
)

// Files of the state directory. All processes of one network have the same.
const (
	enrolName      = "enrol"      // .key and .pub: certifies the keys of nodes
	serverName     = "server"     // .key and .pub: signs what the server decides
	passphraseFile = "passphrase" // of both, unless another file has it
	originFile     = "origin"     // what agents sign their log-ins for
)

const (
	maxOrigin  = 200
	keyYears   = 10
	maxSecrets = 4096
)

// state is where a server keeps its keys.
type state struct {
	Dir        string
	Passphrase string // a file; empty: in Dir
	database   string
}

func (s *state) register(fs *pflag.FlagSet) {
	fs.StringVar(&s.Dir, "state", "", "`directory` of the server's keys; by default FILE.keys beside an SQLite file, else assay/server in the user's state directory")
	fs.StringVar(&s.Passphrase, "key-passphrase-file", "", "`file` with the passphrase of the server's keys, for its owner only; by default DIRECTORY/passphrase, which init makes")
}

// dir is the directory, found where it was not given.
func (s *state) dir() (string, error) {
	if s.Dir != "" {
		return s.Dir, nil
	}
	if file, ok := strings.CutPrefix(s.database, "sqlite:"); ok && file != "" {
		return file + ".keys", nil
	}
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		home := os.Getenv("HOME")
		if home == "" {
			return "", errors.New("neither XDG_STATE_HOME nor HOME is set: give --state DIRECTORY")
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "assay", "server"), nil
}

// create makes what is missing: a key that is there is never replaced.
func (s *state) create(ctx context.Context, origin string, now time.Time) error {
	dir, err := s.dir()
	if err != nil {
		return err
	}
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	if s.Passphrase == "" {
		if err := absent(disk.Create(filepath.Join(dir, passphraseFile), 0o600, disk.Bytes([]byte(rand.Text()+rand.Text()+"\n")))); err != nil {
			return fmt.Errorf("make the keys' passphrase: %w", err)
		}
	}
	if origin == "" {
		origin = "assay-" + strings.ToLower(rand.Text())
	}
	if err := checkOrigin(origin); err != nil {
		return err
	}
	if err := absent(disk.Create(filepath.Join(dir, originFile), 0o644, disk.Bytes([]byte(origin+"\n")))); err != nil {
		return fmt.Errorf("write the server's origin: %w", err)
	}
	if origin, err = readOrigin(dir); err != nil {
		return err
	}
	for name, role := range map[string]ledger.Role{enrolName: ledger.RoleEnrol, serverName: ledger.RoleServer} {
		if err := s.createKey(ctx, filepath.Join(dir, name), origin, role, now); err != nil {
			return err
		}
	}
	return nil
}

// absent is for files that may be there already.
func absent(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func checkOrigin(origin string) error {
	if origin == "" || len(origin) > maxOrigin || !foreign.Plain(origin) || strings.ContainsAny(origin, " \t") {
		return fmt.Errorf("--origin: 1 to %d letters without spaces are allowed, as assay.example.org", maxOrigin)
	}
	return nil
}

func readOrigin(dir string) (string, error) {
	b, err := keys.ReadSmall(filepath.Join(dir, originFile), maxOrigin+1)
	if err != nil {
		return "", fmt.Errorf("read the server's origin: %w", err)
	}
	origin := strings.TrimSpace(string(b))
	return origin, checkOrigin(origin)
}

func (s *state) createKey(ctx context.Context, name, origin string, role ledger.Role, now time.Time) error {
	if _, err := os.Lstat(name + ".key"); err == nil {
		return nil
	}
	phrase, err := s.passphrase()
	if err != nil {
		return err
	}
	defer clear(phrase)
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("make the server's key: %w", err)
	}
	k, err := ledger.StateKey(ctx, pub, ledger.HeldKey(priv), ledger.KeyOptions{Node: origin, Owner: origin, Roles: []ledger.Role{role}, Now: now, NotAfter: now.AddDate(keyYears, 0, 0)})
	if err != nil {
		return fmt.Errorf("make the server's key: %w", err)
	}
	// The statement first: a key without one would be in the way of the next try.
	if err := disk.Replace(name+".pub", 0o644, disk.Bytes(k.Envelope)); err != nil {
		return fmt.Errorf("write the key's statement: %w", err)
	}
	return ledger.WriteKeyFile(name+".key", priv, phrase, string(role)+" "+origin)
}

func (s *state) passphrase() ([]byte, error) {
	file := s.Passphrase
	if file == "" {
		dir, err := s.dir()
		if err != nil {
			return nil, err
		}
		file = filepath.Join(dir, passphraseFile)
	}
	b, err := ledger.ReadSecretFile(file, maxSecrets)
	if err != nil {
		return nil, fmt.Errorf("read the passphrase of the server's keys: %w", err)
	}
	if b = bytes.TrimSpace(b); len(b) == 0 {
		return nil, fmt.Errorf("read the passphrase of the server's keys: %s: %w", file, ledger.ErrNoPhrase)
	}
	return b, nil
}

// open reads what create made.
func (s *state) open() (server.Identity, error) {
	dir, err := s.dir()
	if err != nil {
		return server.Identity{}, err
	}
	var id server.Identity
	if id.Origin, err = readOrigin(dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return server.Identity{}, fmt.Errorf("%w: `assay server init` makes the server's keys; if they are elsewhere, give --state DIRECTORY", err)
		}
		return server.Identity{}, err
	}
	if id.Enrol, id.EnrolKey, err = s.openKey(filepath.Join(dir, enrolName)); err != nil {
		return server.Identity{}, err
	}
	id.Own, id.OwnKey, err = s.openKey(filepath.Join(dir, serverName))
	return id, err
}

func (s *state) openKey(name string) (ledger.Signer, ledger.Key, error) {
	k, err := keys.ReadKeyStatement(name + ".pub")
	if err != nil {
		return nil, ledger.Key{}, fmt.Errorf("read the server's key: %w", err)
	}
	signer, err := ledger.ReadKeyFile(name+".key", s.passphrase)
	if err != nil {
		return nil, ledger.Key{}, fmt.Errorf("read the server's key: %w", err)
	}
	if !signer.Public().Equal(k.Public) {
		return nil, ledger.Key{}, fmt.Errorf("%s.pub is about another key than that in %s.key: put the right statement beside the key", name, name)
	}
	return signer, k, nil
}

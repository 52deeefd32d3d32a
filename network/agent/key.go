package agent

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/ledger"
)

// maxPhrase bounds a passphrase's file.
const maxPhrase = 4096

// vault keeps the node's keys as the ledger keeps all private keys: encrypted, in
// files that only their owner reads. Nobody is there to type a passphrase, so it
// comes from a file: one that the operator gives (a systemd credential, which the
// machine's TPM can hold), or one beside the keys that is made at random. The
// second protects a copy of keys/ alone, not a copy of the whole directory; it
// keeps one format and one way to read it.
type vault struct {
	state  *state
	phrase func() ([]byte, error) // the operator's; nil: our own file
}

func (v vault) passphrase() ([]byte, error) {
	if v.phrase != nil {
		return v.phrase()
	}
	path := v.state.path(phraseFile)
	b, err := ledger.ReadSecretFile(path, maxPhrase)
	if errors.Is(err, fs.ErrNotExist) {
		return v.newPassphrase()
	}
	if err != nil {
		return nil, fmt.Errorf("the key's passphrase: %w", err)
	}
	if b = bytes.TrimRight(b, "\r\n"); len(b) == 0 {
		return nil, fmt.Errorf("the key's passphrase: %s: %w", path, ledger.ErrNoPhrase)
	}
	return b, nil
}

func (v vault) newPassphrase() ([]byte, error) {
	text := []byte(rand.Text())
	if err := disk.Create(v.state.path(phraseFile), 0o600, disk.Bytes(append(bytes.Clone(text), '\n'))); err != nil {
		return nil, fmt.Errorf("make a passphrase: %w", err)
	}
	return text, nil
}

// create makes a key and gives its id.
func (v vault) create() (string, error) {
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	phrase, err := v.passphrase()
	if err != nil {
		return "", err
	}
	defer clear(phrase)
	id := ledger.KeyID(priv.Public().(ed25519.PublicKey))
	return id, ledger.WriteKeyFile(v.file(id, ".key"), priv, phrase, "assay agent")
}

// open reads a key that create made.
func (v vault) open(id string) (ledger.Signer, error) {
	if b, err := hex.DecodeString(id); err != nil || len(b) != 32 {
		return nil, fmt.Errorf("%s names no key", v.state.path(nodeFile))
	}
	s, err := ledger.ReadKeyFile(v.file(id, ".key"), v.passphrase)
	if err != nil {
		return nil, err
	}
	if ledger.KeyID(s.Public()) != id {
		return nil, fmt.Errorf("%s holds another key than its name says", v.file(id, ".key"))
	}
	return s, nil
}

// certify keeps the statement that the server made about a key, if it is one.
func (v vault) certify(id, node string, envelope []byte) (ledger.Key, error) {
	k, err := checkStatement(id, node, envelope)
	if err != nil {
		return k, err
	}
	if err := disk.Replace(v.file(id, ".pub"), 0o644, disk.Bytes(envelope)); err != nil && !errors.Is(err, disk.ErrUnsynced) {
		return k, fmt.Errorf("keep the key's statement: %w", err)
	}
	return k, nil
}

// statement reads what certify kept.
func (v vault) statement(id, node string) (ledger.Key, error) {
	b, err := os.ReadFile(v.file(id, ".pub"))
	if err != nil {
		return ledger.Key{}, fmt.Errorf("the key's statement: %w", err)
	}
	return checkStatement(id, node, b)
}

// checkStatement takes a statement that makes the key good for runs of the node.
// Who signed it is for those to judge who trust somebody; a node has no choice.
func checkStatement(id, node string, envelope []byte) (ledger.Key, error) {
	k, err := ledger.ParseKey(envelope)
	switch {
	case err != nil:
		return k, fmt.Errorf("the key's statement: %w", err)
	case k.ID != id:
		return k, fmt.Errorf("the key's statement is about key %s, not %s", k.ID, id)
	case k.Node != node:
		return k, fmt.Errorf("the key's statement is about another node than %s", node)
	case !k.Has(ledger.RoleRun):
		return k, errors.New("the key's statement does not let it sign runs")
	}
	return k, nil
}

// forget removes a key that was replaced.
func (v vault) forget(id string) error {
	err := os.Remove(v.file(id, ".key"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (v vault) file(id, ending string) string { return v.state.path(keysDir, id+ending) }

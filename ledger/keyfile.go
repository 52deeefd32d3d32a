package ledger

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"golang.org/x/crypto/ssh"

	"github.com/assay-bench/assay/internal/disk"
)

// maxKeyFile bounds a private key's file; one of ours has 500 bytes.
const maxKeyFile = 64 << 10

// Errors of files that hold secrets. Each is a different thing to do.
var (
	ErrSecretMode  = errors.New("others can read the file")
	ErrSecretOwner = errors.New("the file belongs to somebody else")
	ErrSecretFile  = errors.New("not a file that can hold a secret")

	ErrKeyFile    = errors.New("not an OpenSSH private key file")
	ErrKeyPlain   = errors.New("the private key is not encrypted")
	ErrKeyKind    = errors.New("the private key is not an ed25519 key")
	ErrKeyBroken  = errors.New("the private key is broken: its public half is that of another key")
	ErrPassphrase = errors.New("wrong passphrase")
	ErrNoPhrase   = errors.New("an empty passphrase protects nothing")
)

// WriteKeyFile writes a private key, encrypted, to a new file that only its owner
// can read. A file that is there stays as it is: a key that is overwritten is
// lost for ever.
func WriteKeyFile(path string, priv ed25519.PrivateKey, passphrase []byte, comment string) error {
	if len(passphrase) == 0 {
		return fmt.Errorf("write private key %s: %w", path, ErrNoPhrase)
	}
	if len(priv) != ed25519.PrivateKeySize {
		return fmt.Errorf("write private key %s: %w", path, ErrKeyKind)
	}
	err := disk.Create(path, 0o600, func(w io.Writer) error {
		block, err := ssh.MarshalPrivateKeyWithPassphrase(priv, comment, passphrase)
		if err != nil {
			return err
		}
		return pem.Encode(w, block)
	})
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("write private key %s: %w: choose another name, or move the old key away yourself", path, fs.ErrExist)
	case err != nil:
		return fmt.Errorf("write private key %s: %w", path, err)
	}
	return nil
}

// ReadKeyFile opens a private key. passphrase is asked only when the file is one
// that would be taken: nobody types a passphrase for nothing. The bytes that it
// gives are overwritten.
func ReadKeyFile(path string, passphrase func() ([]byte, error)) (Signer, error) {
	b, err := ReadSecretFile(path, maxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("read private key: %w", err)
	}
	defer clear(b)
	s, err := openKey(b, path, passphrase)
	if err != nil {
		return nil, fmt.Errorf("read private key %s: %w", path, err)
	}
	return s, nil
}

func openKey(b []byte, path string, passphrase func() ([]byte, error)) (Signer, error) {
	if block, _ := pem.Decode(b); block == nil || block.Type != "OPENSSH PRIVATE KEY" {
		return nil, fmt.Errorf("%w: make one with `assay ledger keygen` or `ssh-keygen -t ed25519`", ErrKeyFile)
	}
	_, err := ssh.ParseRawPrivateKey(b)
	var encrypted *ssh.PassphraseMissingError
	switch {
	case err == nil:
		return nil, fmt.Errorf("%w: encrypt it with `ssh-keygen -p -f %s`", ErrKeyPlain, path)
	case !errors.As(err, &encrypted):
		return nil, fmt.Errorf("%w: %w", ErrKeyFile, err)
	case encrypted.PublicKey == nil || encrypted.PublicKey.Type() != ssh.KeyAlgoED25519:
		return nil, fmt.Errorf("%w: make one with `assay ledger keygen`", ErrKeyKind)
	}
	phrase, err := passphrase()
	if err != nil {
		return nil, fmt.Errorf("ask for the passphrase: %w", err)
	}
	defer clear(phrase)
	if len(phrase) == 0 {
		return nil, fmt.Errorf("%w: none was given", ErrPassphrase)
	}
	raw, err := ssh.ParseRawPrivateKeyWithPassphrase(b, phrase)
	if errors.Is(err, x509.IncorrectPasswordError) {
		return nil, ErrPassphrase
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeyFile, err)
	}
	priv, ok := raw.(*ed25519.PrivateKey)
	if !ok {
		return nil, ErrKeyKind
	}
	// A public half that is not the seed's would give signatures from which the
	// private key can be computed.
	if !ed25519.NewKeyFromSeed(priv.Seed()).Equal(*priv) {
		return nil, ErrKeyBroken
	}
	return HeldKey(*priv), nil
}

// ReadSecretFile reads a file of at most so many bytes that only its owner, who
// must be who runs this, can read. It is the opened file that is judged, so a
// symbolic link is as good as what it leads to, and nothing can be exchanged in
// between.
func ReadSecretFile(path string, most int) ([]byte, error) {
	f, err := openSecret(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: it is %s", path, ErrSecretFile, info.Mode().Type())
	}
	if err := secretInfo(path, info); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(b) > most {
		return nil, fmt.Errorf("%s: %w: it has more than %d bytes", path, ErrSecretFile, most)
	}
	return b, nil
}

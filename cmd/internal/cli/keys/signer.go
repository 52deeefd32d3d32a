// Package keys finds and opens the keys that a command signs with: a file and its
// passphrase, or a command that holds the key outside.
package keys

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/assay-bench/assay/ledger"
)

// PassphraseVariable is the environment's word for a key's passphrase.
const PassphraseVariable = "ASSAY_PASSPHRASE"

// maxPassphrase bounds a passphrase in a file.
const maxPassphrase = 4096

// Secrets is where a command finds what is not for its command line.
type Secrets struct {
	Getenv func(string) string
	// Ask asks a person for words that are not shown.
	Ask func(ctx context.Context, prompt string) ([]byte, error)
	Now func() time.Time
}

// ProcessSecrets are those of this process: its environment and its terminal.
func ProcessSecrets() Secrets { return Secrets{Getenv: os.Getenv, Ask: askTerminal, Now: time.Now} }

// SignerFlags say with which key a command signs.
type SignerFlags struct {
	Key            string // NAME.key, or NAME.pub with Signer; empty: the node's own
	Signer         string // a command that holds the key outside
	PassphraseFile string
}

// Register adds the flags. The name of the first is for the command to choose;
// "key" is usual.
func (f *SignerFlags) Register(fl *pflag.FlagSet, key string) {
	fl.StringVar(&f.Key, key, "", "private key `file`, with its NAME.pub beside it; by default assay/node.key in the user's configuration directory")
	fl.StringVar(&f.Signer, "signer", "", "`command` that holds the key outside: it gets the bytes and writes the signature as base64; it is split at spaces")
	fl.StringVar(&f.PassphraseFile, "passphrase-file", "", "`file` with the key's passphrase, for its owner only; by default "+PassphraseVariable+" in the environment, else the terminal is asked")
}

// Statement reads the statement about the key, NAME.pub, which may be the key's
// own or the one that an authority signed. A key that is not valid now is
// refused: better before a run than at its end.
func (f SignerFlags) Statement(s Secrets) (ledger.Key, error) {
	name, err := f.name(s)
	if err != nil {
		return ledger.Key{}, err
	}
	k, err := ReadKeyStatement(name + ".pub")
	if errors.Is(err, fs.ErrNotExist) {
		return ledger.Key{}, fmt.Errorf("the key's statement: %w: `assay ledger keygen` makes a key and its statement", err)
	}
	if err != nil {
		return ledger.Key{}, fmt.Errorf("the key's statement: %w", err)
	}
	switch now := s.Now(); {
	case now.Before(k.NotBefore):
		return ledger.Key{}, fmt.Errorf("%s.pub: %s: %w: it begins at %s, and the clock says %s", name, k, ledger.ErrKeyNotYetValid, k.NotBefore.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case now.After(k.NotAfter):
		return ledger.Key{}, fmt.Errorf("%s.pub: %s: %w at %s: make a new key with `assay ledger keygen`, or have an authority certify this one for longer", name, k, ledger.ErrKeyExpired, k.NotAfter.Format(time.RFC3339))
	}
	return k, nil
}

// Open opens the key, which may ask a person for its passphrase, and gives its
// Statement too.
func (f SignerFlags) Open(ctx context.Context, s Secrets) (ledger.Signer, ledger.Key, error) {
	k, err := f.Statement(s)
	if err != nil {
		return nil, ledger.Key{}, err
	}
	name, err := f.name(s)
	if err != nil {
		return nil, ledger.Key{}, err
	}
	signer, err := f.signer(ctx, s, name, k.Public)
	if err != nil {
		return nil, ledger.Key{}, err
	}
	if !signer.Public().Equal(k.Public) {
		return nil, ledger.Key{}, fmt.Errorf("%s.pub is about another key than that in %s.key: put the right statement beside the key", name, name)
	}
	return signer, k, nil
}

// OpenNote opens the key of a log or a witness, which has no statement. A signer
// command's public key is taken from NAME.vkey.
func (f SignerFlags) OpenNote(ctx context.Context, s Secrets) (ledger.Signer, error) {
	name, err := f.name(s)
	if err != nil {
		return nil, err
	}
	var pub ed25519.PublicKey
	if f.Signer != "" {
		if pub, err = readVKey(name + ".vkey"); err != nil {
			return nil, fmt.Errorf("the key's public half: %w", err)
		}
	}
	return f.signer(ctx, s, name, pub)
}

// name is the key's path without its ending.
func (f SignerFlags) name(s Secrets) (string, error) {
	if f.Key == "" {
		return DefaultName(s)
	}
	for _, ending := range []string{".key", ".pub", ".vkey"} {
		if name, ok := strings.CutSuffix(f.Key, ending); ok && name != "" {
			return name, nil
		}
	}
	return "", fmt.Errorf("key %s: its name must end in .key, so that its .pub or .vkey can be found beside it", f.Key)
}

func (f SignerFlags) signer(ctx context.Context, s Secrets, name string, pub ed25519.PublicKey) (ledger.Signer, error) {
	if f.Signer != "" {
		argv := strings.Fields(f.Signer)
		if len(argv) == 0 {
			return nil, errors.New("--signer: give a command")
		}
		return ledger.Command(argv, pub, 0), nil
	}
	return ledger.ReadKeyFile(name+".key", func() ([]byte, error) {
		return s.Passphrase(ctx, f.PassphraseFile, "Passphrase of "+name+".key: ", false)
	})
}

// Passphrase finds the passphrase: in the file, the environment, or a person's
// head. A new one is asked for twice.
func (s Secrets) Passphrase(ctx context.Context, file, prompt string, again bool) ([]byte, error) {
	if file != "" {
		b, err := ledger.ReadSecretFile(file, maxPassphrase)
		if err != nil {
			return nil, fmt.Errorf("--passphrase-file: %w", err)
		}
		b = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
		if len(b) == 0 {
			return nil, fmt.Errorf("--passphrase-file %s: %w", file, ledger.ErrNoPhrase)
		}
		return b, nil
	}
	if p := s.Getenv(PassphraseVariable); p != "" {
		return []byte(p), nil
	}
	p, err := s.Ask(ctx, prompt)
	if err != nil || !again {
		return p, err
	}
	if len(p) == 0 {
		return nil, ledger.ErrNoPhrase
	}
	q, err := s.Ask(ctx, "Once more: ")
	if err != nil {
		return nil, err
	}
	defer clear(q)
	if !bytes.Equal(p, q) {
		return nil, errors.New("the two passphrases are not the same; nothing was made")
	}
	return p, nil
}

// askTerminal asks on the terminal that the process belongs to, whatever its
// standard input is.
func askTerminal(ctx context.Context, prompt string) ([]byte, error) {
	in, out := os.Stdin, os.Stderr
	if tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
		defer tty.Close()
		in, out = tty, tty
	}
	fd := int(in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, fmt.Errorf("there is no terminal to ask on: give --passphrase-file FILE, or %s in the environment", PassphraseVariable)
	}
	type answer struct {
		words []byte
		err   error
	}
	got := make(chan answer, 1)
	fmt.Fprint(out, prompt)
	go func() {
		words, err := term.ReadPassword(fd)
		got <- answer{words, err}
	}()
	select {
	case a := <-got:
		fmt.Fprintln(out)
		return a.words, a.err
	case <-ctx.Done():
		// The reader is still waiting; the terminal must not stay without echo.
		fmt.Fprintln(out)
		return nil, errors.Join(errors.New("interrupted"), term.Restore(fd, before))
	}
}

// DefaultName is where the node's own key lies, without its ending.
func DefaultName(s Secrets) (string, error) {
	dir := s.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // as the convention says: others are to be ignored
		home := s.Getenv("HOME")
		if home == "" {
			return "", errors.New("neither XDG_CONFIG_HOME nor HOME is set: name the key's file")
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "assay", "node"), nil
}

// ReadKeyStatement reads a statement about a key from a file.
func ReadKeyStatement(path string) (ledger.Key, error) {
	b, err := ReadSmall(path, ledger.MaxValue)
	if err != nil {
		return ledger.Key{}, err
	}
	k, err := ledger.ParseKey(b)
	if err != nil {
		return ledger.Key{}, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// readVKey gives the public key of a note verifier key.
func readVKey(path string) (ed25519.PublicKey, error) {
	b, err := ReadSmall(path, ledger.MaxValue)
	if err != nil {
		return nil, err
	}
	vkey := strings.TrimSpace(string(b))
	name, rest, _ := strings.Cut(vkey, "+")
	_, key, _ := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.Strict().DecodeString(key)
	if err == nil && len(raw) == 1+ed25519.PublicKeySize {
		pub := ed25519.PublicKey(raw[1:])
		if vkey == ledger.NoteVerifierKey(name, pub) || vkey == ledger.CosignatureVerifierKey(name, pub) {
			return pub, nil
		}
	}
	return nil, fmt.Errorf("%s: not a verifier key of a log or a witness", path)
}

// ReadSmall reads a file that has at most so many bytes.
func ReadSmall(path string, most int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(b) > most {
		return nil, fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return b, nil
}

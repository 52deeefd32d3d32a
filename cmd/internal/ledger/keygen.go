package ledger

import (
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

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/telemetry"
)

// KeyTerms are the flags of what a statement about a key says.
type KeyTerms struct {
	Owner, Node string
	Days        int
	Roles       []string
}

// maxDays bounds a key's life: a hundred years.
const maxDays = 36525

// Options are what the terms mean now.
func (t KeyTerms) Options(now time.Time) (ledger.KeyOptions, error) {
	if t.Days < 1 || t.Days > maxDays {
		return ledger.KeyOptions{}, fmt.Errorf("--days %d: 1 to %d are allowed", t.Days, maxDays)
	}
	o := ledger.KeyOptions{Node: t.Node, Owner: t.Owner, Now: now, NotAfter: now.AddDate(0, 0, t.Days)}
	for _, r := range t.Roles {
		o.Roles = append(o.Roles, ledger.Role(r))
	}
	if err := ledger.CheckRoles(o.Roles); err != nil {
		return ledger.KeyOptions{}, fmt.Errorf("--role: %w", err)
	}
	return o, nil
}

// KeyDescription is a key for a person, or for a program with --format json.
type KeyDescription struct {
	KeyID     string        `json:"key_id"`
	Owner     string        `json:"owner"`
	Node      string        `json:"node"`
	Roles     []ledger.Role `json:"roles"`
	NotBefore time.Time     `json:"not_before"`
	NotAfter  time.Time     `json:"not_after"`
	SignedBy  string        `json:"signed_by"` // key id
}

// DescribeKey describes a key.
func DescribeKey(k ledger.Key) KeyDescription {
	return KeyDescription{k.ID, k.Owner, k.Node, k.Roles, k.NotBefore, k.NotAfter, k.SignedBy}
}

// Text prints it.
func (d KeyDescription) Text(w io.Writer) {
	var roles []string
	for _, r := range d.Roles {
		roles = append(roles, string(r))
	}
	by := d.SignedBy
	if by == d.KeyID {
		by = "itself"
	}
	fmt.Fprintf(w, "key id     %s\nowner      %s\nnode       %s\nmay sign   %s\nvalid      %s to %s\nsigned by  %s\n",
		d.KeyID, d.Owner, d.Node, strings.Join(roles, ", "), d.NotBefore.Format(time.RFC3339), d.NotAfter.Format(time.RFC3339), by)
}

type keygenFlags struct {
	KeyTerms
	kind, name, publicKey, signer, passphraseFile, format string
}

// Kinds of keys that keygen makes.
const (
	kindStatement = "statement"
	kindLog       = "log"
	kindWitness   = "witness"
)

func newLedgerKeygen() *cobra.Command {
	var f keygenFlags
	cmd := &cobra.Command{
		Use:   "keygen [NAME]",
		Short: "Make a key that signs runs, a log's checkpoints or a witness's cosignatures",
		Long: `Keygen makes an ed25519 key: NAME.key, the private half, encrypted with a
passphrase and for its owner only, and NAME.pub, a statement whose key it is,
which is for everybody. For a log or a witness it is NAME.vkey, and the line for
a policy is printed. No file is ever overwritten.

NAME.key is an OpenSSH file: "ssh-keygen -p -f NAME.key" changes its passphrase.
With --signer and --public-key the key stays where it is, and only its statement
or verifier key is made.`,
		Example: `  assay ledger keygen --owner "Example GmbH"
  assay ledger keygen authority --owner "Example GmbH" --role authority --days 3650
  assay ledger keygen server --owner "Example GmbH" --role enrol
  assay ledger keygen log --kind log --name log.example.org/gpu`,
		Args: cli.Takes(0, 1, "one name of a key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, flag := range []string{"owner", "node", "days", "role"} {
				if f.kind != kindStatement && cmd.Flags().Changed(flag) {
					return fmt.Errorf("--%s is for --kind %s: a log or a witness has a --name only", flag, kindStatement)
				}
			}
			return f.run(cmd.Context(), args, keys.ProcessSecrets(), cmd.OutOrStdout())
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.Owner, "owner", "", "whose key it is: a person or an organisation, in `words`")
	fl.StringVar(&f.Node, "node", "", "the node's `id`; by default this machine's, as in run.json")
	fl.IntVar(&f.Days, "days", 365, "how long it is valid")
	fl.StringSliceVar(&f.Roles, "role", []string{string(ledger.RoleRun)}, "what it may sign: run (runs of its node), enrol (keys of nodes, for a server that takes them in), server (what a server decides about nodes) or authority (keys and revocations of others, and runs of any node)")
	fl.StringVar(&f.kind, "kind", kindStatement, "what it is for: statement, log or witness")
	fl.StringVar(&f.name, "name", "", "of the log (its origin) or the witness")
	fl.StringVar(&f.passphraseFile, "passphrase-file", "", "`file` with the passphrase, for its owner only; by default "+keys.PassphraseVariable+" in the environment, else the terminal is asked")
	fl.StringVar(&f.signer, "signer", "", "`command` that holds the key outside; goes with --public-key")
	fl.StringVar(&f.publicKey, "public-key", "", "of the key outside: 32 bytes as base64, or a line \"ssh-ed25519 …\"")
	cli.FormatFlag(fl, &f.format, "text or json", "text", "json")
	return cmd
}

// madeKey is what --format json prints.
type madeKey struct {
	Kind       string          `json:"kind"`
	KeyFile    string          `json:"key_file,omitempty"` // absent: the key is outside
	PublicFile string          `json:"public_file"`
	Statement  *KeyDescription `json:"statement,omitempty"`
	VKey       string          `json:"vkey,omitempty"`
	Policy     string          `json:"policy,omitempty"` // the line for a policy file

	public []byte // what goes into PublicFile
}

func (f keygenFlags) run(ctx context.Context, args []string, s keys.Secrets, stdout io.Writer) error {
	if f.format != "text" && f.format != "json" {
		return cli.BadFormat(f.format)
	}
	if (f.signer == "") != (f.publicKey == "") {
		return errors.New("--signer and --public-key go together: the command signs, and its public key is to be known")
	}
	if f.kind == kindStatement && f.Node == "" {
		f.Node = telemetry.DescribeNode().ID
	}
	if err := f.check(); err != nil {
		return err
	}
	name, err := f.place(args, s)
	if err != nil {
		return err
	}
	signer, priv, err := f.key()
	if err != nil {
		return err
	}
	m, err := f.make(ctx, name, signer, s.Now())
	if err != nil {
		return err
	}
	if priv != nil {
		m.KeyFile = name + ".key"
	}
	for _, path := range []string{m.KeyFile, m.PublicFile} {
		if path == "" {
			continue
		}
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s: %w: choose another NAME, or move the old key away yourself", path, fs.ErrExist)
		}
	}
	if err := m.write(ctx, f, s, priv); err != nil {
		return err
	}
	if f.format == "json" {
		return cli.WriteJSON(stdout, m)
	}
	m.text(stdout)
	return nil
}

// check refuses what would be found wrong only after a person typed a passphrase.
func (f keygenFlags) check() error {
	switch f.kind {
	case kindStatement:
		switch {
		case f.name != "":
			return errors.New("--name is for --kind log and witness; whose key it is says --owner, and where it signs --node")
		case f.Owner == "":
			return errors.New("whose key is it? give --owner with the name of a person or an organisation")
		case f.Node == "":
			return errors.New("this machine has no host name: give --node ID")
		}
	case kindLog, kindWitness:
		if f.name == "" {
			return fmt.Errorf("a %s needs a --name that nobody else has, best a host and path that you own, as %s.example.org/gpu", f.kind, f.kind)
		}
	default:
		return fmt.Errorf("unknown kind %q; known are %s, %s, %s", f.kind, kindStatement, kindLog, kindWitness)
	}
	return nil
}

// place says where the key goes, without an ending, and makes the directory when
// it is the usual one.
func (f keygenFlags) place(args []string, s keys.Secrets) (string, error) {
	if len(args) == 1 {
		name := strings.TrimSuffix(args[0], ".key")
		if base := filepath.Base(name); base == "." || base == ".." || base == string(filepath.Separator) || strings.HasSuffix(args[0], string(filepath.Separator)) {
			return "", fmt.Errorf("%q is no name for a key's files", args[0])
		}
		return name, nil
	}
	if f.kind != kindStatement {
		return "", fmt.Errorf("give a NAME for the %s's files: `assay ledger keygen NAME --kind %s …`", f.kind, f.kind)
	}
	name, err := keys.DefaultName(s)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return "", fmt.Errorf("make a directory for the key: %w", err)
	}
	return name, nil
}

// key makes a key, or names the one that is outside.
func (f keygenFlags) key() (ledger.Signer, ed25519.PrivateKey, error) {
	if f.publicKey != "" {
		pub, err := parsePublicKey(f.publicKey)
		if err != nil {
			return nil, nil, err
		}
		return ledger.Command(strings.Fields(f.signer), pub, 0), nil, nil
	}
	_, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	return ledger.HeldKey(priv), priv, nil
}

func parsePublicKey(s string) (ed25519.PublicKey, error) {
	if b, err := base64.StdEncoding.Strict().DecodeString(s); err == nil && len(b) == ed25519.PublicKeySize {
		return b, nil
	}
	if k, _, _, _, err := ssh.ParseAuthorizedKey([]byte(s)); err == nil {
		if c, ok := k.(ssh.CryptoPublicKey); ok {
			if pub, ok := c.CryptoPublicKey().(ed25519.PublicKey); ok {
				return pub, nil
			}
		}
	}
	return nil, errors.New("--public-key is neither 32 bytes as base64 nor a line \"ssh-ed25519 …\"")
}

// make makes the public half. It signs, so that a command that cannot is found
// out now.
func (f keygenFlags) make(ctx context.Context, name string, by ledger.Signer, now time.Time) (madeKey, error) {
	m := madeKey{Kind: f.kind}
	if f.kind == kindStatement {
		o, err := f.Options(now)
		if err != nil {
			return madeKey{}, err
		}
		k, err := ledger.StateKey(ctx, by.Public(), by, o)
		if err != nil {
			return madeKey{}, err
		}
		d := DescribeKey(k)
		m.Statement, m.PublicFile, m.public = &d, name+".pub", k.Envelope
		return m, nil
	}
	signer, err := ledger.NoteSigner(ctx, f.name, by)
	if err != nil {
		return madeKey{}, err
	}
	if _, err := signer.Sign([]byte(f.name + "\n0\n\n")); err != nil {
		return madeKey{}, err
	}
	if f.kind == kindLog {
		m.VKey = ledger.NoteVerifierKey(f.name, by.Public())
		m.Policy = "log " + m.VKey
	} else {
		m.VKey = ledger.CosignatureVerifierKey(f.name, by.Public())
		m.Policy = "witness " + f.name + " " + m.VKey
	}
	m.PublicFile, m.public = name+".vkey", []byte(m.VKey+"\n")
	return m, nil
}

// write writes both files, or none.
func (m madeKey) write(ctx context.Context, f keygenFlags, s keys.Secrets, priv ed25519.PrivateKey) error {
	if priv != nil {
		phrase, err := s.Passphrase(ctx, f.passphraseFile, "Passphrase for the new key: ", true)
		if err != nil {
			return fmt.Errorf("passphrase: %w", err)
		}
		defer clear(phrase)
		comment := f.name
		if m.Statement != nil {
			comment = m.Statement.Owner
		}
		if err := ledger.WriteKeyFile(m.KeyFile, priv, phrase, comment); err != nil {
			return err
		}
	}
	err := disk.Create(m.PublicFile, 0o644, disk.Bytes(m.public))
	if err == nil {
		return nil
	}
	err = fmt.Errorf("write the key's public half, %s: %w", m.PublicFile, err)
	if priv != nil {
		// Nothing was signed with it: the next attempt makes another.
		err = errors.Join(err, os.Remove(m.KeyFile))
	}
	return err
}

func (m madeKey) text(w io.Writer) {
	if m.KeyFile != "" {
		fmt.Fprintf(w, "private    %s (encrypted; keep a copy of it and of its passphrase)\n", m.KeyFile)
	}
	fmt.Fprintf(w, "public     %s\n", m.PublicFile)
	if m.Statement != nil {
		m.Statement.Text(w)
		fmt.Fprintf(w, "\nWho is to trust it gets %s from you: --trust %s.\n", m.PublicFile, filepath.Base(m.PublicFile))
		return
	}
	fmt.Fprintf(w, "\nLine for a policy:\n%s\n", m.Policy)
}

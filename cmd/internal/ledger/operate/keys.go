package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	command "github.com/assay-bench/assay/cmd/internal/ledger"
	"github.com/assay-bench/assay/ledger"
)

type certifyFlags struct {
	command.KeyTerms
	key         keys.SignerFlags
	out, format string
}

func newLedgerCertify() *cobra.Command {
	var f certifyFlags
	cmd := &cobra.Command{
		Use:   "certify NODE.pub",
		Short: "State, as an authority or for its server, whose key this is",
		Long: `Certify makes a statement about somebody's key, signed by an authority's: whoever
trusts the authority then takes what the key signs. Look at what it prints before
you give the file away: owner and node are what NODE.pub says, unless you say
otherwise; the role is run, whatever NODE.pub says.

A key with the role enrol certifies keys of nodes too. It is for a server that
takes in nodes: have the authority, which stays offline, certify the server's key
with --role enrol, and whoever trusts the authority takes the nodes' runs.

The node puts the file in the place of its own NODE.pub. A second statement for
the same key extends its time; to shorten it, revoke it.`,
		Example: `  assay ledger certify node.pub --key authority.key --out node.certified.pub
  assay ledger certify server.pub --key authority.key --role enrol --out server.certified.pub`,
		Args: cli.Takes(1, 1, "the statement about a key, NAME.pub"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0], keys.ProcessSecrets(), cmd.OutOrStdout())
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	f.key.Register(fl, "key")
	fl.StringVar(&f.Owner, "owner", "", "whose key it is, in `words`; by default as in NODE.pub")
	fl.StringVar(&f.Node, "node", "", "the node's `id`; by default as in NODE.pub")
	fl.IntVar(&f.Days, "days", 365, "how long it is valid from now on")
	fl.StringSliceVar(&f.Roles, "role", []string{string(ledger.RoleRun)}, "what it may sign: run, enrol (keys of nodes) or authority (runs of any node)")
	fl.StringVar(&f.out, "out", "", "write the statement to this `file`")
	cli.FormatFlag(fl, &f.format, "text or json", "text", "json")
	return cmd
}

func (f certifyFlags) run(ctx context.Context, path string, s keys.Secrets, stdout io.Writer) error {
	if err := checkMade(f.format, f.out); err != nil {
		return err
	}
	k, err := keys.ReadKeyStatement(path)
	if err != nil {
		return err
	}
	if f.Owner == "" {
		f.Owner = k.Owner
	}
	if f.Node == "" {
		f.Node = k.Node
	}
	o, err := f.Options(s.Now())
	if err != nil {
		return err
	}
	authority, err := f.key.Statement(s)
	if err != nil {
		return err
	}
	if err := ledger.CheckCertifier(authority, o.Roles); err != nil {
		return err
	}
	if authority.ID == k.ID {
		return fmt.Errorf("%s cannot certify itself", k)
	}
	if err := f.vouched(k, authority); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	signer, _, err := f.key.Open(ctx, s)
	if err != nil {
		return err
	}
	made, err := ledger.StateKey(ctx, k.Public, signer, o)
	if err != nil {
		return err
	}
	d := command.DescribeKey(made)
	return saveMade(f.format, f.out, made.Envelope, stdout, d, d.Text)
}

// vouched refuses a key of which nobody has shown that its holder wants this
// name: its own signature shows it, or ours of an earlier time.
func (f certifyFlags) vouched(k, authority ledger.Key) error {
	if k.SelfSigned() {
		return nil // ParseKey has checked it
	}
	e, err := ledger.ReadEnvelope(k.Envelope)
	if err != nil {
		return err
	}
	if k.SignedBy != authority.ID || e.Verify(authority.Public) != nil {
		return errors.New("it is signed by somebody else: ask for the key's own statement, the NAME.pub that keygen made")
	}
	return nil
}

type revokeFlags struct {
	key                       keys.SignerFlags
	from, reason, out, format string
}

func newLedgerRevoke() *cobra.Command {
	var f revokeFlags
	cmd := &cobra.Command{
		Use:   "revoke KEY.pub",
		Short: "State that a key is not to be trusted",
		Long: `Revoke makes a statement that a key is not to be trusted since a time, signed by
an authority or by the key itself. It cannot be taken back. What was logged
before that time stays good with its receipt; what has no receipt is worthless.

Publish the file to the log, and give it to who verifies: nobody knows of a
revocation that was not shown to them.`,
		Example: `  assay ledger revoke node.pub --key authority.key --from 2026-11-15T08:00:00Z --reason "the machine was stolen" --out node.revoked`,
		Args:    cli.Takes(1, 1, "the statement about a key, NAME.pub"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0], keys.ProcessSecrets(), cmd.OutOrStdout())
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	f.key.Register(fl, "key")
	fl.StringVar(&f.from, "from", "now", "since when: 2026-11-15T08:00:00Z, 2026-11-15 (its first second, UTC) or now")
	fl.StringVar(&f.reason, "reason", "", "why, in `words`")
	fl.StringVar(&f.out, "out", "", "write the statement to this `file`")
	cli.FormatFlag(fl, &f.format, "text or json", "text", "json")
	return cmd
}

// revoked is what --format json prints.
type revoked struct {
	KeyID    string    `json:"key_id"`
	Owner    string    `json:"owner"`
	Node     string    `json:"node"`
	From     time.Time `json:"from"`
	Reason   string    `json:"reason"`
	SignedBy string    `json:"signed_by"`
}

func (r revoked) text(w io.Writer) {
	fmt.Fprintf(w, "key id     %s\nowner      %s\nnode       %s\nrevoked    since %s\nreason     %s\nsigned by  %s\n",
		r.KeyID, r.Owner, r.Node, r.From.Format(time.RFC3339), r.Reason, r.SignedBy)
}

func (f revokeFlags) run(ctx context.Context, path string, s keys.Secrets, stdout io.Writer) error {
	if err := checkMade(f.format, f.out); err != nil {
		return err
	}
	if f.reason == "" {
		return errors.New("why is it revoked? give --reason: it is what everybody will read")
	}
	from, err := parseSince(f.from, s.Now())
	if err != nil {
		return err
	}
	k, err := keys.ReadKeyStatement(path)
	if err != nil {
		return err
	}
	by, err := f.key.Statement(s)
	if err != nil {
		return err
	}
	if by.ID != k.ID && !by.Has(ledger.RoleAuthority) {
		return fmt.Errorf("%s: %w: only the key itself or an authority revokes %s", by, ledger.ErrRole, k)
	}
	signer, _, err := f.key.Open(ctx, s)
	if err != nil {
		return err
	}
	v, err := ledger.StateRevocation(ctx, k, signer, from, f.reason, ledger.RevocationOptions{Now: s.Now()})
	if err != nil {
		return err
	}
	r := revoked{v.KeyID, k.Owner, v.Node, v.From, v.Reason, v.SignedBy}
	return saveMade(f.format, f.out, v.Envelope, stdout, r, r.text)
}

// parseSince reads --from.
func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "now" {
		return now, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("--from %q: write 2026-11-15T08:00:00Z, 2026-11-15 or now", s)
}

func checkMade(format, out string) error {
	if format != "text" && format != "json" {
		return fmt.Errorf("unknown format %q; known are text, json", format)
	}
	if out == "" {
		return errors.New("where to? give --out FILE")
	}
	return nil
}

// saveMade writes a statement and shows what it says.
func saveMade(format, out string, envelope []byte, stdout io.Writer, v any, text func(io.Writer)) error {
	if err := cli.SaveProof(out, envelope); err != nil {
		return err
	}
	if format == "json" {
		return cli.WriteJSON(stdout, v)
	}
	text(stdout)
	fmt.Fprintf(stdout, "\nwritten to %s\n", out)
	return nil
}

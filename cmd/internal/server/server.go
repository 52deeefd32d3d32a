// Package server has the commands of a network's server: make one, run it, and ask
// it for tokens and policies.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/store"
)

// New is the command "server".
func New() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "server --database URL",
		Short: "Run a network's server: who may serve, who is failing, who is lying",
		Long: `Run the server of a network: it takes in nodes, hears their agents, and decides
which of them may serve. Make one first with "assay server init".

The database is sqlite:FILE, for one process, or postgres://USER@HOST/DATABASE, for
any number of them. An address that others reach needs --tls-cert and --tls-key;
--insecure is for a proxy in front that has TLS.`,
		Example: `  assay server init --database sqlite:assay.db --admin-token-file admin.token
  assay server --database sqlite:assay.db --listen :8700`,
		Args: cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.ErrOrStderr()) },
	}
	f.register(cmd.Flags())
	cmd.AddCommand(newInit(), newMigrate(), newRestored(), newToken(), newAccess(), newAudit(), newBreaker(), newPolicy(), newCapacity(), newPlace(), newReference(), newHAProxy())
	return cmd
}

// open opens the database.
func open(ctx context.Context, url string) (*database.DB, *store.Store, error) {
	if url == "" {
		return nil, nil, errors.New("--database URL is needed: sqlite:FILE, or postgres://USER@HOST/DATABASE")
	}
	db, err := database.Open(ctx, url)
	if err != nil {
		return nil, nil, fmt.Errorf("--database: %w", err)
	}
	return db, store.New(db), nil
}

// openOld opens a database that has to be there: a name that was mistyped makes no
// new file.
func openOld(ctx context.Context, url string) (*database.DB, *store.Store, error) {
	if file, ok := strings.CutPrefix(url, "sqlite:"); ok && file != "" {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("--database: there is no file %s: \"assay server init\" makes a new one", file)
		}
	}
	return open(ctx, url)
}

func newMigrate() *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use:   "migrate --database URL",
		Short: "Bring the database's tables to this program's version",
		Long: `Bring the database's tables to this program's version. A server runs on the tables
of its own version and of the next one: so migrate first, with the new program, and
exchange the servers one by one after it.`,
		Args: cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, st, err := openOld(cmd.Context(), url)
			if err != nil {
				return err
			}
			defer db.Close()
			return migrate(cmd.Context(), st, db, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&url, "database", "", "`URL`: sqlite:FILE or postgres://…")
	return cmd
}

func migrate(ctx context.Context, st *store.Store, db *database.DB, w io.Writer) error {
	from, to, err := st.Migrate(ctx)
	if err != nil {
		return err
	}
	if from == to {
		fmt.Fprintf(w, "%s has version %d already\n", db, to)
		return nil
	}
	fmt.Fprintf(w, "%s went from version %d to %d\n", db, from, to)
	return nil
}

type initFlags struct {
	state
	adminTokenFile, origin string
}

func newInit() *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:   "init --database URL --admin-token-file FILE",
		Short: "Make a new server: its tables, its keys and an admin's token",
		Long: `Make a new server: tables in the database, the server's keys in a directory, and
an API token that may everything in a new file that only you can read. The token is
printed nowhere, and the server keeps only its hash.

What is there stays: run it again to get another admin's token in place of a lost
one, which is good until it is revoked: "assay server access list" has its id, and
"assay server access revoke" takes it back. An admin's token ends after ten years. All processes of one network need the same state directory.`,
		Args: cli.Takes(0, 0, "no words"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.database, "database", "", "`URL`: sqlite:FILE or postgres://…")
	fs.StringVar(&f.adminTokenFile, "admin-token-file", "", "write the admin's token to this new `file`")
	fs.StringVar(&f.origin, "origin", "", "the server's `name`, for which agents sign their log-ins; by default one that is made up. It cannot be changed later")
	f.register(fs)
	return cmd
}

// ours refuses to make other keys for a database that has nodes: they enrolled with
// a server of another name, and would refuse this one.
func (f *initFlags) ours(ctx context.Context, st *store.Store) error {
	dir, err := f.dir()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, originFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	counts, err := st.CountNodes(ctx, store.Scope{All: true})
	if err != nil {
		return err
	}
	if len(counts) > 0 {
		return fmt.Errorf("the database has nodes, and %s has no keys of the server that took them in: give --state with its directory, or copy that from where the server ran; with other keys all nodes would have to enrol again", dir)
	}
	return nil
}

func (f *initFlags) run(ctx context.Context, w io.Writer) error {
	if f.adminTokenFile == "" {
		return errors.New("--admin-token-file FILE is needed: where the admin's token goes")
	}
	if _, err := os.Lstat(f.adminTokenFile); err == nil {
		return fmt.Errorf("--admin-token-file: %s is there already: name a new file, or move the old one away yourself", f.adminTokenFile)
	}
	db, st, err := open(ctx, f.database)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := migrate(ctx, st, db, w); err != nil {
		return err
	}
	if err := f.ours(ctx, st); err != nil {
		return err
	}
	if err := f.create(ctx, f.origin, time.Now()); err != nil {
		return err
	}
	id, err := f.open()
	if err != nil {
		return err
	}
	if f.origin != "" && f.origin != id.Origin {
		return fmt.Errorf("--origin %s: the server in this state directory is %s already, and its nodes know it by that name", f.origin, id.Origin)
	}
	if err := writeToken(f.adminTokenFile, func() (string, error) { return server.CreateAdmin(ctx, st.RecordedBy(id.Record), "admin", time.Now()) }); err != nil {
		return fmt.Errorf("--admin-token-file: %w", err)
	}
	dir, err := f.dir()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "the server is %s; its keys are in %s\nthe admin's token is in %s\n", id.Origin, dir, f.adminTokenFile)
	if err := admins(ctx, st, w); err != nil {
		return err
	}
	if id.EnrolKey.SelfSigned() {
		fmt.Fprintf(w, `Its keys vouch for themselves. Where an authority is trusted, have it certify both,
and put what it signed in their place:
  assay ledger certify %[1]s --key authority.key --role enrol --out enrol.certified.pub
  assay ledger certify %[2]s --key authority.key --role server --out server.certified.pub
  mv enrol.certified.pub %[1]s && mv server.certified.pub %[2]s
`, strings.TrimSuffix(dir, "/")+"/enrol.pub", strings.TrimSuffix(dir, "/")+"/server.pub")
	}
	return nil
}

// admins says until when the new admin's token is good, and which others are: a
// token that was lost is somebody's.
func admins(ctx context.Context, st *store.Store, w io.Writer) error {
	tokens, err := st.Tokens(ctx, store.Scope{All: true}, store.Page{Limit: 1000})
	if err != nil {
		return err
	}
	now := time.Now()
	var good []store.Token // the newest first
	for _, t := range tokens {
		if t.Role == string(api.RoleAdmin) && t.Revoked.IsZero() && t.Expires.After(now) {
			good = append(good, t)
		}
	}
	if len(good) == 0 {
		return errors.New("the admin's token that was made is not in the database")
	}
	fmt.Fprintf(w, "it ends %s; \"assay server access revoke %s\" ends it at once\n", stamp(good[0].Expires), good[0].ID)
	if others := good[1:]; len(others) > 0 {
		ids := make([]string, 0, maxAdmins)
		for _, t := range others[:min(len(others), maxAdmins)] {
			ids = append(ids, t.ID)
		}
		fmt.Fprintf(w, "%d other admins' tokens are still good. Those that were lost are ended by\n  assay server access revoke %s\n", len(others), strings.Join(ids, " "))
	}
	fmt.Fprintln(w)
	return nil
}

// maxAdmins bounds how many tokens are named.
const maxAdmins = 10

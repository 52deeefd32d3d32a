package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/clouds"
	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/server/rentals"
)

// rentalFlags say what the server knows of rented machines.
type rentalFlags struct {
	database    string
	credentials clouds.Credentials
	budget      string
	listen      cli.Listener
}

func (f *rentalFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.database, "campaigns", "", "`URL` of the database of campaigns, as assay campaign has it; by default this server's own, if campaigns are kept there")
	fs.StringVar(&f.credentials.File, "credentials", "", "`file` of mode 0600 with keys of clouds, as VAST_API_KEY=…: show what they offer, and rent; without it neither")
	fs.StringVar(&f.budget, "rent-budget", "", "what machines may cost in a UTC day, in `USD`, with those of campaigns; without it people rent none here")
	f.listen = cli.Listener{Flag: "compat-listen", Local: true}
	fs.StringVar(&f.listen.Address, f.listen.Flag, "", "answer GET /api/v1/sessions and /api/v1/inventory there without a token, as bare arrays: `HOST:PORT` of this machine only, as 127.0.0.1:8080")
}

// rental is what was opened of it.
type rental struct {
	db      *database.DB // nil: the server's own
	rentals server.Rentals
	renting server.Renting
}

func (r *rental) close() {
	if r.db != nil {
		_ = r.db.Close()
	}
}

func (r *rental) add(o *server.Options) { o.Rentals, o.Renting = r.rentals, r.renting }

// open opens the campaigns. Those of the server's own database are there when
// somebody has begun one in it.
func (f *rentalFlags) open(ctx context.Context, own *database.DB) (*rental, error) {
	r := &rental{}
	if f.listen.Address != "" {
		if err := f.listen.Check(); err != nil {
			return r, err
		}
	}
	db := own
	if f.database != "" {
		var err error
		if db, err = database.Open(ctx, f.database); err != nil {
			return r, fmt.Errorf("--campaigns: %w", err)
		}
		r.db = db
	}
	there, err := db.Version(ctx, store.Schema())
	switch {
	case err == nil && there == 0 && f.database == "" && f.credentials.File == "" && f.budget == "":
		return r, nil // nobody has campaigns here
	case err == nil:
		err = f.fill(ctx, r, store.New(db))
	}
	if err != nil {
		r.close()
	}
	return r, err
}

// fill opens what there is, and the clouds.
func (f *rentalFlags) fill(ctx context.Context, r *rental, s *store.Store) error {
	if err := s.Migrate(ctx); err != nil {
		return fmt.Errorf("--campaigns: %w", err)
	}
	r.rentals = rentals.Rentals{Store: s}
	o := rentals.Options{Store: s, Log: cli.Log(ctx), Image: func(cloud string) string { return clouds.Image(cloud, "") }}
	if f.budget != "" {
		var err error
		if o.Budget, err = assay.ParseMoney(strings.TrimSuffix(f.budget, "/day"), provider.Currency); err != nil {
			return fmt.Errorf("--rent-budget: %w", err)
		}
		if f.credentials.File == "" {
			return errors.New("--rent-budget is for clouds: --credentials names the file with their keys")
		}
	}
	if f.credentials.File == "" {
		return nil
	}
	accounts, scale, err := f.credentials.Shared(ctx, s)
	if err != nil {
		return fmt.Errorf("--credentials: %w", err)
	}
	if len(accounts) == 0 {
		return fmt.Errorf("--credentials: %s has no key of a cloud: it has lines as %s=…", f.credentials.File, clouds.VastKey)
	}
	o.Renter = rent.New(s, clouds.Rentable(accounts), rent.Options{Scale: scale})
	r.renting = rentals.NewDesk(o)
	return nil
}

// compat runs the server, and beside it the listener for scripts without a token.
func (f *rentalFlags) compat(ctx context.Context, s *server.Server, out io.Writer, run func(context.Context) error) error {
	if f.listen.Address == "" {
		return run(ctx)
	}
	h, err := s.Compat()
	if err != nil {
		return err
	}
	l, err := f.listen.Open(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "sessions and inventory are answered without a token at %s\n", l.URL)
	return beside(ctx, func(ctx context.Context) error { return l.Serve(ctx, h) }, run)
}

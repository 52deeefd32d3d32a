package rentals

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/crypto/ssh"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/node"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/server"
)

// Options are what a desk rents with.
type Options struct {
	Store  *store.Store
	Renter *rent.Renter
	// Budget is what may be reserved and spent in a UTC day, by everybody on the
	// database; nothing: nothing is rented.
	Budget assay.Money
	// Image is what a machine of a cloud boots where nobody says it.
	Image func(cloud string) string
	Log   *slog.Logger
	Now   func() time.Time // nil: the clock
}

// Desk rents machines for people. It is safe for concurrent use.
type Desk struct {
	o       Options
	mu      sync.Mutex
	shelves map[string]*shelf
}

// NewDesk makes one.
func NewDesk(o Options) *Desk {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Desk{o: o, shelves: map[string]*shelf{}}
}

// Bandwidth that is reserved where nobody says how much it will be.
const (
	usualDownGB = 50
	usualUpGB   = 1
	giga        = 1e9
)

// rentedFor is the status of the campaign of a session: it takes no second machine.
const rentedFor = "session"

// Rent rents a machine, once, and gives its session, which there may be although the
// cloud gave an error: it is ended then.
func (d *Desk) Rent(ctx context.Context, n api.NewSession) (string, error) {
	if d.o.Budget.Nano <= 0 {
		return "", fmt.Errorf("%w: nothing is rented without a budget: --rent-budget says what a day may cost", server.ErrRefused)
	}
	key, err := publicKey(n.SshPublicKey)
	if err != nil {
		return "", err
	}
	cloud, offer, err := d.find(ctx, n.OfferId)
	if err != nil {
		return "", err
	}
	intent, err := d.intend(ctx, cloud, offer, n)
	if err != nil {
		return "", refused(err)
	}
	o := provider.Order{Label: intent.Label, Offer: offer, DiskGB: max(offer.DiskGB, value(n.DiskGb)), SSHKey: key, OnStart: node.DeadMan(cloud.Traits.DeadMan.End, intent.Life)}
	if o.Image = value(n.Image); o.Image == "" {
		o.Image = d.o.Image(cloud.Traits.Name)
	}
	instance, err := d.o.Renter.Create(ctx, o)
	switch {
	case instance.ID != "" && !errors.Is(err, store.ErrLease):
		return intent.Label, nil // an error that comes with an instance is an instance
	case errors.Is(err, provider.ErrNoCapacity):
		d.stale(cloud.Traits.Name)
		return intent.Label, fmt.Errorf("%w: %s", server.ErrStaleOffer, foreign.Line(err.Error(), maxText))
	case err == nil:
		err = fmt.Errorf("%w: %s gave no machine", server.ErrClouds, cloud.Traits.Name)
	}
	// Whatever there may be of it is ended: nobody will ask for it under an id that
	// nobody was told.
	if e := d.o.Store.End(context.WithoutCancel(ctx), intent.Label, foreign.Line(err.Error(), maxText), !errors.Is(err, provider.ErrNotSent)); e != nil {
		err = errors.Join(err, e)
	}
	return intent.Label, refused(err)
}

// find finds an offer among those that its cloud has now.
func (d *Desk) find(ctx context.Context, id string) (rent.Cloud, provider.Offer, error) {
	name, of, _ := strings.Cut(id, ":")
	cloud, err := d.o.Renter.Cloud(name)
	if err != nil {
		return rent.Cloud{}, provider.Offer{}, fmt.Errorf("%w: offer_id is none of this server's: it begins with one of %s and a colon", server.ErrRefused, strings.Join(d.o.Renter.Clouds(), ", "))
	}
	list, _, err := d.offers(ctx, cloud)
	if err != nil {
		return rent.Cloud{}, provider.Offer{}, fmt.Errorf("%w: %s: %s", server.ErrClouds, name, foreign.Line(err.Error(), maxText))
	}
	for _, o := range list {
		if o.ID == of {
			return cloud, o, nil
		}
	}
	return rent.Cloud{}, provider.Offer{}, fmt.Errorf("%w: %s does not list it: ask for the inventory again", server.ErrStaleOffer, name)
}

// intend commits a session with its money, under a campaign of its own that takes
// nothing more.
func (d *Desk) intend(ctx context.Context, c rent.Cloud, o provider.Offer, n api.NewSession) (store.Intent, error) {
	id := "session-" + strings.ToLower(ulid.Make().String())
	cell := store.Cell{ID: id + "-1", Campaign: id, Number: 1, GPU: o.GPU, Provider: c.Traits.Name, Spec: "{}", Progress: store.Progress{Status: store.Running}}
	caps := store.Caps{Cell: d.o.Budget, Campaign: d.o.Budget, Day: d.o.Budget}
	if err := d.o.Store.AddCampaign(ctx, store.Campaign{ID: id, Name: "session", Caps: caps}, []store.Cell{cell}); err != nil {
		return store.Intent{}, err
	}
	lease := hours(n.Hours)
	w := rent.Want{
		Cell: cell.ID, Provider: c.Traits.Name, Offer: o, Lease: lease, Life: max(lease, hours(value(n.MaxHours))),
		Down: gigabytes(n.DownloadGb, usualDownGB), Up: gigabytes(n.UploadGb, usualUpGB),
	}
	i, err := d.o.Renter.Intend(ctx, w)
	return i, errors.Join(err, d.o.Store.EndCampaign(context.WithoutCancel(ctx), id, rentedFor))
}

// refused makes what was refused a word for whoever asked; other errors are ours.
func refused(err error) error {
	said := foreign.Line(fmt.Sprint(err), maxText)
	switch {
	case errors.Is(err, store.ErrCap), errors.Is(err, store.ErrOffer), errors.Is(err, provider.ErrNoMoney), errors.Is(err, store.ErrLease):
		return fmt.Errorf("%w: %s", server.ErrRefused, said)
	case errors.Is(err, store.ErrHeld), errors.Is(err, provider.ErrKey), errors.Is(err, provider.ErrRate), errors.Is(err, rent.ErrLost), errors.Is(err, provider.ErrNotSent), errors.Is(err, provider.ErrMalformed):
		return fmt.Errorf("%w: %s", server.ErrClouds, said)
	case errors.Is(err, store.ErrNotFound):
		return server.ErrNoSession
	}
	return err
}

// End begins the end of a session and asks its cloud to destroy it, once: reap goes on
// until that is proved.
func (d *Desk) End(ctx context.Context, session string, done bool) error {
	why := store.WhyDeleted
	if done {
		why = store.WhyDone
	}
	if err := d.o.Store.End(ctx, session, why, true); err != nil {
		return refused(err)
	}
	i, err := d.o.Store.Intent(ctx, session)
	if err != nil {
		return refused(err)
	}
	if err := d.o.Renter.Destroy(ctx, i); err != nil {
		d.o.Log.Warn("a session's machine was not destroyed yet: reap goes on", "session", session, "error", foreign.Line(err.Error(), maxText))
	}
	return nil
}

// Extend lets a session live so long from now on.
func (d *Desk) Extend(ctx context.Context, session string, by time.Duration) error {
	_, err := d.o.Renter.Renew(ctx, session, by)
	return refused(err)
}

// publicKey reads a line of authorized_keys and writes it anew, without options.
func publicKey(line string) (string, error) {
	key, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || len(strings.TrimSpace(string(rest))) > 0 {
		return "", fmt.Errorf("%w: ssh_public_key is not one line of authorized_keys", server.ErrRefused)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))), nil
}

func hours(h float64) time.Duration { return time.Duration(h * float64(time.Hour)) }

// gigabytes is what may be transferred, in bytes.
func gigabytes(gb *float64, usual float64) int64 {
	if gb != nil {
		usual = *gb
	}
	return int64(usual * giga)
}

func value[T any](v *T) (out T) {
	if v != nil {
		out = *v
	}
	return out
}

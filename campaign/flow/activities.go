package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"

	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/node"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/record"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/internal/foreign"
)

// Activities are the steps of cells and campaigns.
type Activities struct {
	Store  *store.Store
	Rent   *rent.Renter
	Master *node.Master
	Pins   node.Pins
	// Binary gives the node binary for a processor, as Go names it.
	Binary func(arch string) ([]byte, error)
	// Results is the directory that run directories are brought home to.
	Results string
	// Sign signs a run directory that came home; nil: nobody does.
	Sign func(ctx context.Context, dir string) error
	// Take bounds what is taken from a machine.
	Take node.Limits
	// Order completes an order: image, disk and the script that starts the dead man.
	Order func(cell store.Cell, o provider.Order, lease time.Duration) provider.Order

	offers shared[[]provider.Offer]
	lists  shared[[]provider.Instance]
}

// Rented is what an intent was made for.
type Rented struct {
	Ref
	Label string         `json:"label"`
	Offer provider.Offer `json:"offer"`
}

// nodeBytes is what our binary may have.
const nodeBytes = 20_000_000

// Intend chooses an offer and commits it with its money. One that was committed
// before, of which nobody heard, is ended first: create was not called for it.
func (a *Activities) Intend(ctx context.Context, ref Ref) (Rented, error) {
	j, err := a.plan(ctx, ref)
	if err != nil {
		return Rented{}, coded(err)
	}
	if err := a.Store.SetCell(ctx, ref.Cell, store.Progress{Status: string(campaign.Running), Stage: string(campaign.Provision)}); err != nil {
		return Rented{}, err
	}
	open, err := a.open(ctx, ref.Cell)
	if err != nil {
		return Rented{}, err
	}
	for _, i := range open {
		if i.State == store.Intended {
			if err := a.Store.End(ctx, i.Label, "nobody heard of it", false); err != nil {
				return Rented{}, err
			}
		}
	}
	defer beating(ctx)()
	patience, stop := context.WithTimeout(ctx, within(ctx))
	defer stop()
	for {
		r, err := a.choose(ctx, j)
		if err == nil || !a.passes(patience, j, err) {
			return r, coded(err)
		}
	}
}

// passes waits for what stands in the way of an intent, where that goes by itself: a
// provider that does not destroy, or whose list is not believed; money that others have
// reserved; offers that other cells have. It reports whether to try again.
func (a *Activities) passes(ctx context.Context, j job, why error) bool {
	passed := func() bool { return true }
	switch {
	case errors.Is(why, store.ErrHeld):
		passed = func() bool { return !errors.Is(a.Store.Held(ctx, j.cell.Provider), store.ErrHeld) }
	case errors.Is(why, store.ErrCap):
		before := a.reserved(ctx, j)
		if before == 0 {
			return false // nobody has anything to give back
		}
		passed = func() bool { return a.reserved(ctx, j) < before }
	case !errors.Is(why, store.ErrBusy) && !errors.Is(why, store.ErrAlive):
		return false
	}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(paced(10*time.Second, j.settings.Pace)):
		}
		if passed() {
			return true
		}
	}
}

// reserved is what is reserved of the money of a cell's campaign, and of the day.
func (a *Activities) reserved(ctx context.Context, j job) (nano int64) {
	now, err := a.Store.Now(ctx)
	if err != nil {
		return 0
	}
	for scope, name := range map[store.Scope]string{store.OfCampaign: j.ref.Campaign, store.OfDay: now.UTC().Format(time.DateOnly)} {
		if b, err := a.Store.Budget(ctx, scope, name); err == nil {
			nano += b.Reserved.Nano
		}
	}
	return nano
}

// open are the intents of a cell that have no end.
func (a *Activities) open(ctx context.Context, cell string) ([]store.Intent, error) {
	list, err := a.Store.Intents(ctx, cell)
	return slices.DeleteFunc(list, func(i store.Intent) bool { return i.State == store.Ended || i.State == store.Unproved }), err
}

// offersAge is how old the offers may be that a cell chooses from. What other cells
// have taken meanwhile is in the database.
const offersAge = 30 * time.Second

// choose takes the cheapest offer that may be tried, by its price and by how far its
// location is trusted.
func (a *Activities) choose(ctx context.Context, j job) (Rented, error) {
	c, err := a.Rent.Cloud(j.cell.Provider)
	if err != nil {
		return Rented{}, refuse(campaign.CauseKey, err)
	}
	q := provider.Query{GPU: j.cell.GPU, GPUs: max(1, j.spec.Count), DiskGB: j.settings.DiskGB}
	offers, err := a.offers.get(ctx, fmt.Sprint(j.cell.Provider, q), paced(offersAge, j.settings.Pace), func() ([]provider.Offer, error) {
		return c.Provider.Offers(ctx, q)
	})
	if err != nil {
		return Rented{}, err
	}
	offers = slices.Clone(offers)
	trust, err := a.Store.Confidence(ctx, j.cell.Provider)
	if err != nil {
		return Rented{}, err
	}
	slices.SortStableFunc(offers, func(x, y provider.Offer) int { return compareOffers(x, y, trust) })
	w := rent.Want{Cell: j.cell.ID, Provider: j.cell.Provider, Lease: j.settings.Lease, Life: j.settings.life(j.spec), Up: node.MaxResults, Down: nodeBytes}
	if e, ok := campaign.EngineOf(j.cell.Engine); ok {
		w.Down += e.Image
	}
	if j.spec.Memory != nil {
		w.Down += j.spec.Memory.Weights
	}
	refused, busy := errors.New("the provider has none"), error(nil)
	for _, o := range offers {
		if hour := j.settings.HourCap; hour > 0 && o.Price.Hour.Nano > hour {
			continue
		}
		w.Offer = o
		i, err := a.Rent.Intend(ctx, w)
		switch {
		case err == nil:
			return Rented{j.ref, i.Label, o}, nil
		case errors.Is(err, store.ErrBusy):
			busy = err
		case !errors.Is(err, store.ErrOffer):
			return Rented{}, err
		}
		refused = err
	}
	if busy == nil && c.Traits.Owned { // only those that are free are offered
		busy = fmt.Errorf("%w: no machine is free", store.ErrBusy)
	}
	if busy != nil {
		return Rented{}, busy
	}
	return Rented{}, refuse(campaign.CauseNoOffer, fmt.Errorf("no offer is left for %s at %s: %w", j.cell.GPU, j.cell.Provider, refused))
}

// compareOffers weighs a price by how often its location fails: half the trust is
// worth twice the price.
func compareOffers(x, y provider.Offer, trust map[string]float64) int {
	worth := func(o provider.Offer) float64 {
		t, ok := trust[o.Location]
		if !ok {
			t = 0.5
		}
		return float64(o.Price.Hour.Nano) / max(t, 0.01)
	}
	if a, b := worth(x), worth(y); a != b {
		if a < b {
			return -1
		}
		return 1
	}
	return strings.Compare(x.ID, y.ID)
}

// Create rents what was intended.
func (a *Activities) Create(ctx context.Context, r Rented) error {
	defer beating(ctx)()
	cell, err := a.Store.Cell(ctx, r.Cell)
	if err != nil {
		return err
	}
	j, err := a.plan(ctx, r.Ref)
	if err != nil {
		return err
	}
	key, err := a.Master.PublicKey(r.Label)
	if err != nil {
		return err
	}
	o := a.Order(cell, provider.Order{Label: r.Label, Offer: r.Offer, DiskGB: j.settings.DiskGB, SSHKey: key}, j.settings.Lease)
	patience, stop := context.WithTimeout(ctx, within(ctx))
	defer stop()
	n, err := a.Rent.Create(ctx, o)
	for a.unsent(patience, j, r.Label, err) {
		n, err = a.Rent.Create(ctx, o)
	}
	if errors.Is(err, provider.ErrNoCapacity) {
		err = errors.Join(err, a.Store.Learn(ctx, cell.Provider, r.Offer.Location, false))
	}
	if n.ID != "" && !errors.Is(err, store.ErrLease) {
		return nil // an error that comes with an instance is an instance
	}
	return coded(err)
}

// unsent reports whether to call create again, as nothing was sent: the list or the
// balance could not be read, nobody had a turn, or the provider is held. It waits a
// while, and keeps the intent.
func (a *Activities) unsent(ctx context.Context, j job, label string, err error) bool {
	switch {
	case !errors.Is(err, provider.ErrNotSent) || errors.Is(err, store.ErrLease) || errors.Is(err, provider.ErrKey) || errors.Is(err, provider.ErrNoMoney):
		return false
	case errors.Is(err, store.ErrHeld):
		if !a.passes(ctx, j, err) {
			return false
		}
	default:
		select {
		case <-ctx.Done():
			return false
		case <-time.After(paced(3*time.Second, j.settings.Pace)):
		}
	}
	_, err = a.Rent.Renew(ctx, label, j.settings.Lease)
	return err == nil
}

// beating tells Temporal that an activity is alive, until it is stopped.
func beating(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	go func() {
		for {
			activity.RecordHeartbeat(ctx)
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-time.After(300 * time.Millisecond):
			}
		}
	}()
	return func() { close(done) }
}

var errStopped = errors.New("the provider stopped the machine")

// reach waits until the provider knows the machine's address, and then until SSH
// lets us in. It fails at once when the provider says that the machine stopped.
func (a *Activities) reach(ctx context.Context, j *job) (*node.Node, error) {
	c, err := a.Rent.Cloud(j.intent.Provider)
	if err != nil {
		return nil, err
	}
	pause := max(c.Traits.MinInterval[provider.CallGet], paced(3*time.Second, j.settings.Pace))
	alive := func(ctx context.Context) error {
		n, err := a.page(ctx, c, j.instance.ID, pause)
		switch {
		case errors.Is(err, provider.ErrGone), err == nil && (n.State == provider.Dead || n.State == provider.Stopped):
			return refuse(campaign.CauseStopped, fmt.Errorf("%w: %s", errStopped, n.Said))
		case err != nil:
			return nil // says nothing about the machine
		}
		if n.Host != "" && (n.Host != j.instance.Host || n.Port != j.instance.Port) {
			j.instance.Host, j.instance.Port = n.Host, n.Port
			_, err = a.Store.Created(ctx, j.intent.Label, n)
		}
		return err
	}
	for end := time.Now().Add(within(ctx)); j.instance.Host == ""; {
		if err := alive(ctx); err != nil {
			return nil, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%w: the provider gives no address", node.ErrNotReady)
		}
		if j.instance.Host != "" {
			break
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
	return a.connect(ctx, *j, node.Patience{Within: within(ctx), Every: pause, AuthGrace: max(time.Minute, c.Traits.KeyLag), Alive: alive})
}

// within is most of the time that an activity has left, so that it can say itself
// what it waited for.
func within(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return time.Hour
	}
	return time.Until(end) * 9 / 10
}

// page is what a provider says of one instance: in a list that is not older than age
// and serves all cells, else on its own page, where it has one.
func (a *Activities) page(ctx context.Context, c rent.Cloud, id string, age time.Duration) (provider.Instance, error) {
	list, err := a.lists.get(ctx, c.Traits.Name, age, func() ([]provider.Instance, error) { return c.Provider.List(ctx) })
	for _, n := range list {
		if n.ID == id {
			return n, nil
		}
	}
	if g, ok := c.Provider.(provider.Getter); ok {
		return g.Get(ctx, id)
	}
	return provider.Instance{}, errors.Join(errors.New("its list does not have it"), err)
}

// Import writes what was collected into the database.
func (a *Activities) Import(ctx context.Context, ref Ref) error {
	j, err := a.plan(ctx, ref)
	if err != nil {
		return err
	}
	intents, err := a.Store.Intents(ctx, ref.Cell)
	if err != nil {
		return err
	}
	o := record.Origin{
		ID: ref.Cell, Campaign: ref.Campaign, GPU: j.cell.GPU, Count: max(1, j.spec.Count), Provider: j.cell.Provider, Engine: j.cell.Engine,
	}
	if len(intents) > 0 {
		i := intents[len(intents)-1]
		o.Location, o.Session, o.Price = i.Location, i.Label, &i.Hour
		for _, n := range i.Instances {
			o.IP, o.Port = n.Host, n.Port
		}
	}
	dir := filepath.Join(a.dir(ref), "run")
	r, err := record.FromRun(dir, o)
	if err != nil && !errors.Is(err, record.ErrNothing) {
		return coded(errors.Join(node.ErrForged, err))
	}
	if err != nil {
		return refuse(campaign.CauseMissing, err)
	}
	if a.Sign != nil {
		if err := a.Sign(ctx, dir); err != nil { // what was measured counts all the same
			r.Manifest.Notes = foreign.Line("its results are not signed: "+err.Error(), maxMessage)
		}
	}
	return a.Store.PutResult(ctx, r.Benchmark, r.Manifest)
}

// Destroy asks the provider to destroy whatever the cell has.
func (a *Activities) Destroy(ctx context.Context, ref Ref) error {
	defer beating(ctx)()
	open, err := a.open(ctx, ref.Cell)
	if err != nil {
		return err
	}
	var all error
	for _, i := range open {
		if err := a.Store.End(ctx, i.Label, "its try is over", true); err != nil {
			all = errors.Join(all, err)
			continue
		}
		if i, err = a.Store.Intent(ctx, i.Label); err == nil {
			err = a.Rent.Destroy(ctx, i)
		}
		all = errors.Join(all, err)
	}
	return all
}

// Prove comes back when the end of whatever the cell had is proved, or cannot be and
// waits for an operator.
func (a *Activities) Prove(ctx context.Context, ref Ref) error {
	defer beating(ctx)()
	open, err := a.open(ctx, ref.Cell)
	for _, i := range open {
		if _, e := a.Rent.End(ctx, i.Label, "its try is over", nil); e != nil && !errors.Is(e, provider.ErrUnproved) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// Finish records what became of a cell.
func (a *Activities) Finish(ctx context.Context, e Ended) error {
	c, err := a.Store.Cell(ctx, e.Cell)
	if err != nil {
		return err
	}
	if e.Status != string(campaign.Success) { // whose row has its figures
		m, err := a.manifest(ctx, e, c)
		if err != nil {
			return err
		}
		m.Status, m.FailureReason, m.FailureStage, m.ErrorMessage = e.Status, e.Cause, e.Stage, e.Message
		if err := a.Store.PutManifest(ctx, m); err != nil {
			return err
		}
	}
	return a.Store.SetCell(ctx, e.Cell, store.Progress{Status: e.Status, Stage: e.Stage, Cause: e.Cause, Message: e.Message})
}

// manifest is a cell's row: with the figures of a partial result, or a new one.
func (a *Activities) manifest(ctx context.Context, e Ended, c store.Cell) (store.Manifest, error) {
	list, err := a.Store.Manifests(ctx, e.Campaign)
	if err != nil {
		return store.Manifest{}, err
	}
	for _, m := range list {
		if m.ID == e.Cell {
			return m, nil
		}
	}
	now, err := a.Store.Now(ctx)
	return store.Manifest{ID: e.Cell, RunID: e.Campaign, Created: now, GPUType: c.GPU, Provider: c.Provider, Model: c.Model, Completed: now}, err
}

// Pending gives the next cells of a campaign.
func (a *Activities) Pending(ctx context.Context, n Next) ([]Planned, error) {
	cells, err := a.Store.NextCells(ctx, n.Campaign, n.After, n.Most, string(campaign.Pending), string(campaign.Running))
	if err != nil {
		return nil, err
	}
	c, err := a.Store.Campaign(ctx, n.Campaign)
	if err != nil {
		return nil, err
	}
	var s Settings
	if err := json.Unmarshal([]byte(c.Settings), &s); err != nil {
		return nil, err
	}
	out := []Planned{}
	for _, l := range cells {
		var p campaign.Planned
		if err := json.Unmarshal([]byte(l.Spec), &p); err != nil {
			return nil, err
		}
		out = append(out, Planned{l.ID, l.Number, s.limits(p)})
	}
	return out, nil
}

// Lost gives the cells whose workflows do not run any more. One that has no outcome was
// terminated from outside: what it rented is given back, and it is recorded as failed.
func (a *Activities) Lost(ctx context.Context, w Waited) ([]string, error) {
	defer beating(ctx)()
	temporal, gone := activity.GetClient(ctx), []string{}
	for _, cell := range w.Cells {
		d, err := temporal.DescribeWorkflowExecution(ctx, CellID(cell), "")
		var none *serviceerror.NotFound
		switch {
		case err == nil && d.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
			continue
		case err != nil && !errors.As(err, &none):
			return nil, fmt.Errorf("look whether cell %s is under way: %w", cell, err)
		}
		if err := a.abandon(ctx, Ref{Campaign: w.Campaign, Cell: cell}); err != nil {
			return nil, err
		}
		gone = append(gone, cell)
	}
	return gone, nil
}

// abandon ends what a cell's workflow has left, unless it came to its own end.
func (a *Activities) abandon(ctx context.Context, ref Ref) error {
	c, err := a.Store.Cell(ctx, ref.Cell)
	if err != nil || c.Status != string(campaign.Pending) && c.Status != string(campaign.Running) {
		return err
	}
	if err := a.Destroy(ctx, ref); err != nil {
		return err
	}
	if err := a.Prove(ctx, ref); err != nil {
		return err
	}
	stage := c.Stage
	if stage == "" {
		stage = string(campaign.Provision)
	}
	return a.Finish(ctx, Ended{ref, Outcome{
		Status: string(campaign.Failed), Stage: stage, Cause: string(campaign.CauseKilled), Message: "its workflow was terminated from outside",
	}})
}

// Close records that a campaign has ended.
func (a *Activities) Close(ctx context.Context, c Closed) error {
	status := "done"
	if c.Cancelled {
		status = "cancelled"
	}
	return a.Store.EndCampaign(ctx, c.Campaign, status)
}

package reap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/provider/tensordock"
	"github.com/assay-bench/assay/campaign/provider/vast"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/campaign/sandbox"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/parttest"
)

// One time scale for clouds, leases, limits and reap: a minute is 600 ms.
const (
	scale  = 100
	period = time.Minute / scale
	lease  = 5 * time.Minute / scale
	life   = 20 * time.Minute / scale
)

// How many campaigns share an account and a database, and of how many cells each is.
const (
	perAccount = 10
	cells      = 3
)

// Campaigns of three cells whose workers are killed at every point, on an account that
// does everything wrong that accounts do; one of each ten is a process of its own and
// killed -9. The sandbox' own book says what lived and what it cost.
func TestFiftyCampaigns(t *testing.T) {
	accounts := 5
	if os.Getenv("ASSAY_LONG") == "1" {
		accounts = 50
	}
	var all sums
	limit := make(chan struct{}, 10) // what most of them do is wait
	var wg sync.WaitGroup
	for n := range accounts {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			all.add(runAccount(t, uint64(n+1)))
		})
	}
	wg.Wait()
	all.figure(t, fmt.Sprintf("%d campaigns", accounts*perAccount), scale, period)
}

// sums are figures over all accounts.
type sums struct {
	mu                       sync.Mutex
	instances, kills, kills9 int
	early, calls             int
	orphans, late            int           // that outlived their lease; by more than a period
	beyond, pair             time.Duration // the longest
}

// figure prints them, on the clouds' clock.
func (s *sums) figure(t *testing.T, what string, scale float64, period time.Duration) {
	t.Helper()
	parttest.Figure(t, "money: %s, %d instances in the book, %d workers killed (%d by kill -9), %d outlived their lease, %d of them by more than a period of %.0f s, the longest by %.1f s, longest pair of one cell %.1f s, %d of %d calls too early (on the clouds' clock)",
		what, s.instances, s.kills, s.kills9, s.orphans, s.late, period.Seconds()*scale, s.beyond.Seconds()*scale, s.pair.Seconds()*scale, s.early, s.calls)
}

func (s *sums) add(o *sums) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instances, s.kills, s.kills9, s.early, s.calls = s.instances+o.instances, s.kills+o.kills, s.kills9+o.kills9, s.early+o.early, s.calls+o.calls
	s.orphans, s.late = s.orphans+o.orphans, s.late+o.late
	s.beyond, s.pair = max(s.beyond, o.beyond), max(s.pair, o.pair)
}

// account is one sandbox' accounts with a database, and all who work on them.
type account struct {
	URL, Database    string
	Vast, TensorDock string // keys
	Scale            float64
	Period           time.Duration // of reap

	store  *store.Store
	clouds map[string]rent.Cloud
}

// open connects to the database and to the clouds.
func (a *account) open(ctx context.Context) (closeAll func(), err error) {
	db, err := database.Open(ctx, "sqlite:"+a.Database)
	if err != nil {
		return nil, err
	}
	a.store = store.New(db)
	v := vast.Config{Base: a.URL + sandbox.VastPath, Key: a.Vast}
	vt, tt := vast.Traits(v).Scaled(a.Scale), tensordock.Traits().Scaled(a.Scale)
	v.Wait = a.store.Limits(vt)
	td := tensordock.Config{Base: a.URL + sandbox.TensorDockPath, Key: a.TensorDock, Wait: a.store.Limits(tt)}
	a.clouds = map[string]rent.Cloud{
		sandbox.Vast:       {Provider: vast.New(v), Traits: vt},
		sandbox.TensorDock: {Provider: tensordock.New(td), Traits: tt},
	}
	return func() { db.Close() }, a.store.Migrate(ctx)
}

// renter is one whose steps a worker may die at.
func (a *account) renter(clouds map[string]rent.Cloud, step func(string)) *rent.Renter {
	timeout := max(time.Second, time.Duration(float64(time.Minute)/a.Scale))
	return rent.New(a.store, slices.Collect(maps.Values(clouds)), rent.Options{Period: a.Period, Scale: a.Scale, Timeout: timeout, Step: step})
}

// faults are those of the sandbox' own, and some more of those that cost money.
func faults() map[string]float64 {
	f := sandbox.Nasty()
	f[sandbox.FaultCreateLost], f[sandbox.FaultStorm], f[sandbox.FaultListEmpty], f[sandbox.FaultDestroyRefuse] = 0.1, 0.05, 0.05, 0.08
	f[sandbox.FaultNoCapacity], f[sandbox.SettingBoot], f[sandbox.FaultLimits] = 0.2, 10, 0
	return f
}

func runAccount(t *testing.T, seed uint64) *sums {
	cloud, err := sandbox.New(sandbox.Config{Scale: scale, Seed: seed})
	must(t, err)
	t.Cleanup(cloud.Close)
	server := httptest.NewServer(cloud.Handler())
	t.Cleanup(server.Close)
	w := newWatch(t, cloud, &account{URL: server.URL, Database: filepath.Join(parttest.MemoryDir(t), "campaign.db"), Scale: scale, Period: period})
	for n := range perAccount {
		must(t, addCampaign(t.Context(), w.a.store, fmt.Sprint("c", n)))
	}
	must(t, cloud.Set(faults()))
	end := w.begin(seed)
	defer end()
	var workers sync.WaitGroup
	// For a while the list is retired: it answers, with nothing in it.
	defer retire(cloud, time.Second, time.Second)()
	for n := range perAccount {
		id, s := fmt.Sprint("c", n), seed<<8+uint64(n)
		if n == 0 {
			workers.Go(func() { w.processes(id, s) })
			continue
		}
		workers.Go(func() { w.worker(id, s) })
	}
	workers.Wait()
	w.settled()
	end()
	return w.check(cloud.Book())
}

// retire has the lists of the clouds answer with nothing in them, after a time and for
// a while.
func retire(cloud *sandbox.Sandbox, after, during time.Duration) (stop func()) {
	set := func(v float64) func() { return func() { _ = cloud.Set(map[string]float64{sandbox.FaultRetired: v}) } }
	on, off := time.AfterFunc(after, set(1)), time.AfterFunc(after+during, set(0))
	return func() {
		on.Stop()
		off.Stop()
	}
}

// bystander rents a machine that is none of ours, before anything goes wrong.
func bystander(ctx context.Context, c rent.Cloud) (id string, err error) {
	offers, err := c.Provider.Offers(ctx, provider.Query{})
	if err != nil || len(offers) == 0 {
		return "", errors.Join(errors.New("no offers"), err)
	}
	n, err := c.Provider.Create(ctx, provider.Order{Label: "my-notebook", Offer: offers[0], Image: "jupyter", DiskGB: 10, SSHKey: someKey})
	return n.ID, err
}

// someKey is a key of machines that nobody signs in to.
const someKey = "ssh-ed25519 AAAA"

func addCampaign(ctx context.Context, s *store.Store, id string) error {
	var list []store.Cell
	for n := range cells {
		at := sandbox.Vast
		if n == cells-1 {
			at = sandbox.TensorDock
		}
		list = append(list, store.Cell{ID: fmt.Sprintf("%s-%d", id, n), Number: n, Provider: at, Progress: store.Progress{Status: "pending"}})
	}
	return s.AddCampaign(ctx, store.Campaign{ID: id, Caps: store.Caps{Cell: usd(0.5), Campaign: usd(0.6), Day: usd(4)}}, list)
}

// killed is what a worker dies of.
type killed struct{}

// driver measures the cells of one campaign, as a worker does, until it is killed.
type driver struct {
	a      *account
	renter *rent.Renter
	mu     sync.Mutex
	rand   *rand.Rand
	dead   atomic.Bool
	deadly float64 // the chance to die at a step
}

func newDriver(a *account, clouds map[string]rent.Cloud, seed uint64, deadly float64) *driver {
	d := &driver{a: a, rand: rand.New(rand.NewPCG(seed, 2)), deadly: deadly}
	d.renter = a.renter(clouds, d.step)
	return d
}

func (d *driver) float() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.Float64()
}

// step ends the worker at random, and all that it does with it.
func (d *driver) step(string) {
	if d.deadly > 0 && d.float() < d.deadly {
		d.dead.Store(true)
	}
	if d.dead.Load() {
		panic(killed{})
	}
}

// run measures all cells, and reports whether it was killed.
func (d *driver) run(ctx context.Context, campaign string) bool {
	var wg sync.WaitGroup
	for n := range cells {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil && p != (killed{}) {
					panic(p)
				}
			}()
			d.cell(ctx, fmt.Sprintf("%s-%d", campaign, n))
		})
	}
	wg.Wait()
	return d.dead.Load()
}

// cell tries to measure a cell, up to four times in all.
func (d *driver) cell(ctx context.Context, id string) {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && ctx.Err() == nil; {
		intents, err := d.a.store.Intents(ctx, id)
		if err != nil {
			continue
		}
		c, err := d.a.store.Cell(ctx, id)
		if err != nil || c.Status == "success" || called(intents) >= 4 {
			return
		}
		d.leftovers(ctx, intents)
		i, offer, err := d.intend(ctx, c)
		if err != nil {
			time.Sleep(period / 5) // another offer, or something has to end first
			continue
		}
		n, err := d.renter.Create(ctx, provider.Order{Label: i.Label, Offer: offer, Image: "ollama", DiskGB: 10, SSHKey: someKey})
		if n.ID != "" && err == nil {
			d.use(ctx, id, i.Label)
		}
		if _, err := d.renter.End(ctx, i.Label, "done", nil); err != nil && ctx.Err() == nil && !errors.Is(err, provider.ErrUnproved) {
			panic(err)
		}
	}
}

// called is for how many create was called.
func called(intents []store.Intent) (n int) {
	for _, i := range intents {
		if !i.Called.IsZero() {
			n++
		}
	}
	return n
}

// leftovers goes on with what a worker before this one has left, or forgets it.
func (d *driver) leftovers(ctx context.Context, intents []store.Intent) {
	for _, i := range intents {
		if i.State == store.Ended || d.float() < 0.5 {
			continue
		}
		if i.State == store.Creating {
			_, _ = d.renter.Create(ctx, provider.Order{Label: i.Label})
		}
		_, _ = d.renter.End(ctx, i.Label, "left over", nil)
	}
}

func (d *driver) intend(ctx context.Context, c store.Cell) (store.Intent, provider.Offer, error) {
	offers, err := d.a.clouds[c.Provider].Provider.Offers(ctx, provider.Query{MaxOffer: 50})
	if err != nil || len(offers) == 0 {
		return store.Intent{}, provider.Offer{}, errors.Join(errors.New("no offers"), err)
	}
	o := offers[int(d.float()*float64(len(offers)))]
	i, err := d.renter.Intend(ctx, rent.Want{Cell: c.ID, Provider: c.Provider, Offer: o, Lease: lease, Life: life, Down: 14e9, Up: 1e8})
	return i, o, err
}

// use measures for a while.
func (d *driver) use(ctx context.Context, cell, label string) {
	for range 4 {
		if _, err := d.renter.Renew(ctx, label, lease); err != nil {
			return
		}
		time.Sleep(lease / 5)
	}
	_ = d.a.store.SetCell(ctx, cell, store.Progress{Status: "success"})
}

// child is what a worker in a process of its own is told.
type child struct {
	Account  account
	Campaign string
	Seed     uint64
}

const childVariable = "ASSAY_TEST_MONEY"

// TestMoneyWorker is the process that TestFiftyCampaigns kills.
func TestMoneyWorker(t *testing.T) {
	var c child
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &c); err != nil {
		t.Skip("it is started by TestFiftyCampaigns")
	}
	closeAll, err := c.Account.open(t.Context())
	must(t, err)
	defer closeAll()
	newDriver(&c.Account, c.Account.clouds, c.Seed, 0).run(t.Context(), c.Campaign)
}

// processes runs a worker as a process, kills it some times, and lets the last one end.
func (w *watch) processes(campaign string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	for n := range uint64(4) {
		told, err := json.Marshal(child{*w.a, campaign, seed + n<<32})
		must(w.t, err)
		cmd := exec.CommandContext(w.ctx, os.Args[0], "-test.run=^TestMoneyWorker$")
		cmd.Env = append(os.Environ(), childVariable+"="+string(told))
		must(w.t, cmd.Start())
		if n < 3 {
			kill := time.AfterFunc(lease/4+time.Duration(r.Int64N(int64(lease))), func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait()
			if !kill.Stop() {
				w.kills9.Add(1)
			}
			continue
		}
		if err := cmd.Wait(); err != nil {
			w.t.Error(err)
		}
	}
}

// worker runs a worker that dies at random steps, again and again.
func (w *watch) worker(campaign string, seed uint64) {
	for n := range uint64(4) {
		deadly := 0.04
		if n == 3 {
			deadly = 0
		}
		if !newDriver(w.a, w.observed(), seed+n<<32, deadly).run(w.ctx, campaign) {
			return
		}
		w.kills.Add(1)
		time.Sleep(period / 3)
	}
}

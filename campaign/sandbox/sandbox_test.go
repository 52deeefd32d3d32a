package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/provider/providertest"
	"github.com/assay-bench/assay/campaign/provider/tensordock"
	"github.com/assay-bench/assay/campaign/provider/vast"
	"github.com/assay-bench/assay/campaign/sandbox"
	"github.com/assay-bench/assay/campaign/sandbox/sandboxtest"
)

// clouds starts a sandbox with both adapters.
func clouds(t *testing.T, c sandbox.Config) (*sandbox.Sandbox, *vast.Cloud, *tensordock.Cloud, string) {
	t.Helper()
	s, url := sandboxtest.Start(t, c)
	return s, vast.New(vast.Config{Base: url + sandbox.VastPath, Key: s.Key(sandbox.Vast)}),
		tensordock.New(tensordock.Config{Base: url + sandbox.TensorDockPath, Key: s.Key(sandbox.TensorDock)}), url
}

func rent(t *testing.T, p provider.Provider, label string, disk int) (provider.Offer, provider.Instance) {
	t.Helper()
	offers, err := p.Offers(t.Context(), provider.Query{GPU: "RTX 4090", DiskGB: disk})
	if err != nil || len(offers) == 0 {
		t.Fatalf("%d offers, %v", len(offers), err)
	}
	i, err := p.Create(t.Context(), provider.Order{Label: label, Offer: offers[0], DiskGB: disk, SSHKey: providertest.Key})
	if err != nil {
		t.Fatal(err)
	}
	return offers[0], i
}

// ask makes a request as a program on an instance would.
func ask(t *testing.T, method, url, key string) (int, string, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b), res.Header.Get("Content-Type")
}

// The price of an offer is what the book bills: storage as it was asked for is in it,
// and bandwidth comes on top.
func TestPriceIsTheBooks(t *testing.T) {
	t.Parallel()
	s, v, td, _ := clouds(t, sandbox.Config{Scale: 3600, Faults: map[string]float64{sandbox.SettingImageGB: 8}})
	small, err := v.Offers(t.Context(), provider.Query{GPU: "RTX 4090", DiskGB: 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		p   provider.Provider
		net bool
	}{{v, true}, {td, false}} {
		o, i := rent(t, c.p, "a", 400)
		time.Sleep(20 * time.Millisecond)
		if err := c.p.Destroy(t.Context(), i.ID); err != nil {
			t.Fatal(err)
		}
		e := entry(t, s, i.ID)
		if !(math.Abs(float64(e.Hour.Nano-o.Price.Hour.Nano)) <= 10) {
			t.Errorf("%s: the offer costs %v an hour, the book has %v", e.Cloud, o.Price.Hour, e.Hour)
		}
		hours := e.Ended.Sub(e.Created).Hours() * 3600
		if want := e.Hour.Units() * hours; !(math.Abs(e.Running.Units()-want) <= want/1000) {
			t.Errorf("%s: %.4f hours cost %v, want %.6f", e.Cloud, hours, e.Running, want)
		}
		if got := e.Bandwidth.Units(); c.net != (got > 0) || c.net && !(math.Abs(got-8*o.Price.DownGB.Units()) <= 1e-6) {
			t.Errorf("%s: 8 GB cost %v", e.Cloud, e.Bandwidth)
		}
		if c.net && o.Price.Hour.Nano <= small[0].Price.Hour.Nano {
			t.Errorf("400 GB cost %v an hour, 20 GB %v", o.Price.Hour, small[0].Price.Hour)
		}
	}
}

func entry(t *testing.T, s *sandbox.Sandbox, id string) sandbox.Entry {
	t.Helper()
	for _, e := range s.Book().Entries {
		if e.ID == id {
			return e
		}
	}
	t.Fatalf("the book has no %s", id)
	return sandbox.Entry{}
}

// A stopped instance does nothing, and bills its disk until it is destroyed.
func TestStoppedBillsItsDisk(t *testing.T) {
	t.Parallel()
	s, v, td, _ := clouds(t, sandbox.Config{Scale: 3600, Faults: map[string]float64{sandbox.FaultBootStopped: 1}})
	for _, p := range []interface {
		provider.Provider
		provider.Getter
	}{v, td} {
		_, i := rent(t, p, "a", 200)
		eventually(t, func() bool { got, err := p.Get(t.Context(), i.ID); return err == nil && got.State == provider.Stopped })
		time.Sleep(10 * time.Millisecond)
		e := entry(t, s, i.ID)
		if e.Disk.Nano <= 0 || e.Ended != nil || e.Halted == nil {
			t.Errorf("%+v", e)
		}
		if list, err := p.List(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, err)
		}
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("it does not happen")
}

// What an instance is given destroys that instance, and nothing else.
func TestOwnKeyEndsOnlyItself(t *testing.T) {
	t.Parallel()
	keys := make(chan sandbox.Boot, 2)
	s, v, _, url := clouds(t, sandbox.Config{Scale: 1000, Start: func(ctx context.Context, b sandbox.Boot) (string, int, func(), error) {
		keys <- b
		return sandbox.Nothing(ctx, b)
	}})
	rent(t, v, "a", 20)
	rent(t, v, "b", 20)
	first, second := <-keys, <-keys
	key := strings.TrimPrefix(first.Env[1], "CONTAINER_API_KEY=")
	page := func(id string) string { return url + sandbox.VastPath + "/api/v0/instances/" + id + "/" }
	if status, body, _ := ask(t, http.MethodDelete, page(second.ID), key); status < 400 {
		t.Errorf("another one: %d %s", status, body)
	}
	if status, body, _ := ask(t, http.MethodGet, url+sandbox.VastPath+"/api/v1/instances/", key); status < 400 {
		t.Errorf("the list: %d %s", status, body)
	}
	if status, body, _ := ask(t, http.MethodDelete, page(first.ID), key); status != 200 {
		t.Errorf("itself: %d %s", status, body)
	}
	if e := entry(t, s, first.ID); e.EndedBy != "self" || e.Ended == nil {
		t.Errorf("%+v", e)
	}
	if e := entry(t, s, second.ID); e.Ended != nil {
		t.Errorf("%+v", e)
	}
}

// The dead man that the traits state ends an instance from the inside, by whichever
// program there is.
func TestDeadManEndsItsInstance(t *testing.T) {
	t.Parallel()
	s, v, _, url := clouds(t, sandbox.Config{Scale: 1000, Start: sandbox.Scripts})
	traits := vast.Traits(vast.Config{Base: url + sandbox.VastPath})
	offers, err := v.Offers(t.Context(), provider.Query{GPU: "RTX 4090"})
	if err != nil {
		t.Fatal(err)
	}
	i, err := v.Create(t.Context(), provider.Order{Label: "a", Offer: offers[0], OnStart: "sleep 0.05; " + traits.DeadMan.End})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return s.Book().Alive == 0 })
	if e := entry(t, s, i.ID); e.EndedBy != "self" {
		t.Errorf("%+v", e)
	}
	look, err := provider.Look(t.Context(), v, i.ID)
	if err != nil || len(look.Gone) != 1 {
		t.Errorf("%+v, %v", look, err)
	}
}

// Calls that come too early are counted, and answered 429 where that is switched on.
func TestLimitsAreCounted(t *testing.T) {
	t.Parallel()
	s, v, td, url := clouds(t, sandbox.Config{Scale: 1})
	for range 2 {
		if _, err := v.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := td.List(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b := s.Book()
	if len(b.Violations) != 2 || b.Calls["vast list"] != 2 {
		t.Fatalf("%+v", b)
	}
	if err := s.Set(map[string]float64{sandbox.FaultLimits: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.List(t.Context()); !errors.Is(err, provider.ErrRate) {
		t.Error(err)
	}
	if _, err := td.List(t.Context()); !errors.Is(err, provider.ErrRate) {
		t.Error(err)
	}
	if status, body, kind := ask(t, http.MethodGet, url+sandbox.VastPath+"/api/v1/instances/", s.Key(sandbox.Vast)); status != 429 || !strings.HasPrefix(kind, "text/plain") || json.Valid([]byte(body)) {
		t.Errorf("%d %s %s", status, kind, body)
	}
}

// Whoever keeps to the traits breaks no limit of the book's.
func TestTraitsKeepTheLimits(t *testing.T) {
	t.Parallel()
	const scale = 20
	s, url := sandboxtest.Start(t, sandbox.Config{Scale: scale})
	wait := func(traits provider.Traits) provider.Wait {
		last := map[provider.Call]time.Time{}
		var any time.Time
		return func(_ context.Context, c provider.Call) error {
			time.Sleep(time.Until(later(last[c].Add(traits.MinInterval[c]), any.Add(traits.MinAny))))
			last[c], any = time.Now(), time.Now()
			return nil
		}
	}
	vc := vast.Config{Base: url + sandbox.VastPath, Key: s.Key(sandbox.Vast)}
	vc.Wait = wait(vast.Traits(vc).Scaled(scale))
	tc := tensordock.Config{Base: url + sandbox.TensorDockPath, Key: s.Key(sandbox.TensorDock), Wait: wait(tensordock.Traits().Scaled(scale))}
	for n, p := range []provider.Provider{vast.New(vc), tensordock.New(tc)} {
		for range 2 {
			_, i := rent(t, p, fmt.Sprintf("cell-%d", n), 100)
			if err := p.Destroy(t.Context(), i.ID); err != nil {
				t.Fatal(err)
			}
			if look, err := provider.Look(t.Context(), p, i.ID); err != nil || len(look.Gone) != 1 {
				t.Fatalf("%+v, %v", look, err)
			}
		}
	}
	if b := s.Book(); len(b.Violations) != 0 {
		t.Errorf("%+v", b.Violations)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Lists are late: what was created is not there yet, and what was destroyed still is.
func TestListsLag(t *testing.T) {
	t.Parallel()
	s, v, td, _ := clouds(t, sandbox.Config{Scale: 100, Faults: map[string]float64{sandbox.SettingListLag: 60}})
	for _, p := range []provider.Provider{v, td} {
		_, i := rent(t, p, "a", 100)
		early, err := p.List(t.Context())
		if err != nil || len(early) != 0 {
			t.Fatalf("%v, %v", early, err)
		}
		look, err := provider.Look(t.Context(), p, i.ID)
		if err != nil || !look.Has(i.ID) || len(look.Gone) != 0 { // its own page is up to date
			t.Errorf("%+v, %v", look, err)
		}
		eventually(t, func() bool { l, err := p.List(t.Context()); return err == nil && len(l) == 1 })
		if err := p.Destroy(t.Context(), i.ID); err != nil {
			t.Fatal(err)
		}
		if late, err := p.List(t.Context()); err != nil || len(late) != 1 {
			t.Errorf("%v, %v", late, err)
		}
		eventually(t, func() bool { l, err := p.List(t.Context()); return err == nil && len(l) == 0 })
	}
	if s.Book().Alive != 0 {
		t.Error("some live")
	}
}

// An endpoint that is retired in the middle answers with nothing in it, and nothing
// that lives is taken for gone.
func TestRetiredInTheMiddle(t *testing.T) {
	t.Parallel()
	s, v, td, _ := clouds(t, sandbox.Config{Scale: 1000, Faults: map[string]float64{sandbox.FaultRetiredAfter: 200}})
	for _, p := range []provider.Provider{v, td} {
		_, i := rent(t, p, "a", 100)
		eventually(t, func() bool { l, err := p.List(t.Context()); return err == nil && len(l) == 0 })
		look, err := provider.Look(t.Context(), p, i.ID)
		if err != nil || !look.Has(i.ID) || len(look.Gone) != 0 || len(look.Missed) != 1 {
			t.Errorf("%+v, %v", look, err)
		}
		if err := p.Destroy(t.Context(), i.ID); err != nil {
			t.Fatal(err)
		}
		if look, err := provider.Look(t.Context(), p, i.ID); err != nil || len(look.Gone) != 1 {
			t.Errorf("%+v, %v", look, err)
		}
	}
	if s.Book().Alive != 0 {
		t.Error("some live")
	}
}

// Vast's old list is gone, and its list has pages: all of them are read.
func TestListHasPages(t *testing.T) {
	t.Parallel()
	s, v, _, url := clouds(t, sandbox.Config{Scale: 1000, Faults: map[string]float64{sandbox.SettingPageSize: 3}})
	if status, _, _ := ask(t, http.MethodGet, url+sandbox.VastPath+"/api/v0/instances/", s.Key(sandbox.Vast)); status != http.StatusGone {
		t.Errorf("the old list answers %d", status)
	}
	for n := range 8 {
		rent(t, v, fmt.Sprintf("cell-%d", n), 20)
	}
	list, err := v.List(t.Context())
	if err != nil || len(list) != 8 || s.Book().Calls["vast list"] != 4 {
		t.Errorf("%d instances in %d requests, %v", len(list), s.Book().Calls["vast list"], err)
	}
	if err := s.Next(sandbox.FaultPageError, 1); err != nil {
		t.Fatal(err)
	}
	if list, err := v.List(t.Context()); err == nil || list != nil {
		t.Errorf("a list whose second page fails: %v, %v", list, err)
	}
}

// What TensorDock refuses it refuses with status 200.
func TestErrorsWithStatus200(t *testing.T) {
	t.Parallel()
	s, _, td, _ := clouds(t, sandbox.Config{Scale: 1000})
	for _, c := range []struct {
		fault string
		want  error
	}{{sandbox.FaultNoIP, provider.ErrNoCapacity}, {sandbox.FaultNoCapacity, provider.ErrNoCapacity}} {
		offers, err := td.Offers(t.Context(), provider.Query{GPU: "A100 80GB"})
		if err != nil || len(offers) == 0 {
			t.Fatal(offers, err)
		}
		if offers[0].DiskGB < 100 {
			t.Errorf("an offer with %d GB", offers[0].DiskGB)
		}
		if err := s.Next(c.fault, 1); err != nil {
			t.Fatal(err)
		}
		if i, err := td.Create(t.Context(), provider.Order{Label: "a", Offer: offers[0], SSHKey: providertest.Key}); !errors.Is(err, c.want) || i.ID != "" {
			t.Errorf("%s: %+v, %v", c.fault, i, err)
		}
	}
	if s.Book().Alive != 0 {
		t.Error("some live")
	}
}

// A machine has no address before it runs, and at TensorDock for a while after that;
// a host that dies takes the address with it.
func TestStatesAndAddresses(t *testing.T) {
	t.Parallel()
	s, v, td, _ := clouds(t, sandbox.Config{Scale: 100, Faults: map[string]float64{
		sandbox.SettingIPLate: 20, sandbox.FaultHostDies: 1, sandbox.SettingDiesAfter: 60,
	}})
	for _, p := range []interface {
		provider.Provider
		provider.Getter
	}{v, td} {
		_, i := rent(t, p, "a", 100)
		var seen []string
		eventually(t, func() bool {
			got, err := p.Get(t.Context(), i.ID)
			if err != nil {
				t.Fatal(err)
			}
			now := string(got.State)
			if got.Reachable() {
				now = "reachable"
			}
			if len(seen) == 0 || seen[len(seen)-1] != now {
				seen = append(seen, now)
			}
			return got.State == provider.Dead
		})
		if order := strings.Join(seen, " "); !strings.HasPrefix(order, "starting") || !strings.HasSuffix(order, "reachable dead") {
			t.Errorf("%s: %s", entry(t, s, i.ID).Cloud, order)
		}
	}
}

// With faults at the rates that were seen, about two of three first tries fail.
func TestNastyRates(t *testing.T) {
	t.Parallel()
	faults := sandbox.Nasty()
	faults[sandbox.FaultLimits] = 0 // this test is in a hurry
	faults[sandbox.SettingListLag] = 0
	s, v, td, _ := clouds(t, sandbox.Config{Scale: 2000, Seed: 7, Faults: faults})
	const tries = 48
	good := 0
	for n := range tries {
		p, disk := provider.Provider(v), 40
		if n%2 == 1 {
			p, disk = td, 100
		}
		if tryOnce(t, s, p, n, disk) {
			good++
		}
	}
	// About 35 %: 17, give or take 3.3; the bounds are three times that.
	if good < 7 || good > 27 {
		t.Errorf("%d of %d first tries were good", good, tries)
	}
	t.Logf("%d of %d first tries were good; %v", good, tries, s.Book().Hits)
}

// tryOnce rents the nth offer once, and reports whether a machine ran and its host
// lived.
func tryOnce(t *testing.T, s *sandbox.Sandbox, p provider.Provider, n, disk int) bool {
	offers, err := p.Offers(t.Context(), provider.Query{GPU: "RTX 3090", DiskGB: disk})
	if err != nil || len(offers) == 0 {
		return false
	}
	before := len(s.Book().Entries)
	_, err = p.Create(t.Context(), provider.Order{Label: fmt.Sprintf("cell-%d", n), Offer: offers[n%len(offers)], SSHKey: providertest.Key})
	if err != nil || len(s.Book().Entries) == before {
		return false
	}
	id := s.Book().Entries[before].ID
	for range 200 { // at least 400 s of the clouds' clock
		switch entry(t, s, id).State {
		case "running":
			time.Sleep(150 * time.Millisecond) // longer than a host takes to die
			return entry(t, s, id).State == "running"
		case "stopped", "exited", "offline":
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// The control endpoint changes switches and shows the book.
func TestControl(t *testing.T) {
	t.Parallel()
	s, v, _, _ := clouds(t, sandbox.Config{Scale: 1000})
	control := httptest.NewServer(s.Control())
	defer control.Close()
	_, i := rent(t, v, "a", 20)
	send := func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, control.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(b)
	}
	if status, body := send("PUT", "/switches", `{"vast:list-retired": 1}`); status != 200 || !strings.Contains(body, "list-retired") {
		t.Errorf("%d %s", status, body)
	}
	if l, err := v.List(t.Context()); err != nil || len(l) != 0 {
		t.Errorf("%v, %v", l, err)
	}
	for _, wrong := range []string{`{"nonsense": 1}`, `{"storm": 2}`, `{"storm": -1}`, `[`} {
		if status, body := send("PUT", "/switches", wrong); status != 400 {
			t.Errorf("%s: %d %s", wrong, status, body)
		}
	}
	if status, _ := send("POST", "/instances/"+i.ID+"/kill", ""); status != 200 {
		t.Errorf("kill: %d", status)
	}
	_, book := send("GET", "/book", "")
	var b sandbox.Book
	if err := json.Unmarshal([]byte(book), &b); err != nil || len(b.Entries) != 1 || b.Entries[0].State != "offline" || b.Alive != 1 {
		t.Errorf("%s, %v", book, err)
	}
}

// An account without money rents nothing, and a price that jumps is seen.
func TestMoneyRunsOut(t *testing.T) {
	t.Parallel()
	s, v, td, _ := clouds(t, sandbox.Config{Scale: 1000, Faults: map[string]float64{sandbox.FaultPriceJump: 1}})
	o, i := rent(t, v, "a", 20)
	if got, err := v.Get(t.Context(), i.ID); err != nil || got.Hour.Nano <= o.Price.Hour.Nano*5/4 {
		t.Errorf("offered at %v, rented at %v, %v", o.Price.Hour, got.Hour, err)
	}
	if err := s.Set(map[string]float64{sandbox.SettingBalance: 0}); err != nil {
		t.Fatal(err)
	}
	if left, err := v.Balance(t.Context()); err != nil || left.Nano != 0 {
		t.Errorf("%v, %v", left, err)
	}
	for _, p := range []provider.Provider{v, td} {
		offers, err := p.Offers(t.Context(), provider.Query{GPU: "RTX 3090", DiskGB: 100})
		if err != nil || len(offers) == 0 {
			t.Fatal(offers, err)
		}
		if i, err := p.Create(t.Context(), provider.Order{Label: "b", Offer: offers[0], SSHKey: providertest.Key}); !errors.Is(err, provider.ErrNoMoney) || i.ID != "" {
			t.Errorf("%+v, %v", i, err)
		}
	}
}

// Each switch is in the table of docs/providers.md, with a test that is there.
func TestSwitchesAreInTheTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "## What clouds do, and where it is tried")
	if !ok {
		t.Fatal("the table is gone")
	}
	for _, w := range sandbox.Switches() {
		if !strings.Contains(table, "`"+w.Name+"`") {
			t.Errorf("docs/providers.md lacks %s", w.Name)
		}
	}
	dirs := map[string]string{"sandbox": ".", "vast": "../provider/vast", "tensordock": "../provider/tensordock"}
	for _, m := range regexp.MustCompile("`(sandbox|vast|tensordock)\\.((?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(table, -1) {
		files, _ := filepath.Glob(filepath.Join(dirs[m[1]], "*_test.go"))
		found := false
		for _, f := range files {
			text, err := os.ReadFile(f)
			found = found || err == nil && strings.Contains(string(text), "func "+m[2]+"(")
		}
		if !found {
			t.Errorf("%s has no %s", m[1], m[2])
		}
	}
}

// A request whose connection closes is not made again behind the caller's back: it
// has had one turn.
func TestOneRequestIsOne(t *testing.T) {
	t.Parallel()
	s, v, td, _ := clouds(t, sandbox.Config{Scale: 1000})
	for name, p := range map[string]provider.Provider{sandbox.Vast: v, sandbox.TensorDock: td} {
		for range 3 {
			if _, err := p.List(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Next(name+":"+sandbox.FaultHang, 1); err != nil {
			t.Fatal(err)
		}
		if list, err := p.List(t.Context()); err == nil || list != nil {
			t.Errorf("%s: %v, %v", name, list, err)
		}
		if n := s.Book().Calls[name+" list"]; n != 4 {
			t.Errorf("%s: 4 lists were %d requests", name, n)
		}
	}
}

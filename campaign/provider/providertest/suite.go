// Package providertest is what every provider must pass: a struct of factories, and
// the contract of campaign/provider as tests over it.
package providertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
)

// Suite makes what the tests need. A function that is nil skips what it is for.
type Suite struct {
	// New gives a provider of an account that is empty, with a good key.
	New func(t *testing.T) Cloud
}

// Cloud is a provider and what can be done to the cloud behind it.
type Cloud struct {
	Provider provider.Provider
	Traits   provider.Traits
	Query    provider.Query

	// Faults are the names, of those below, of what can go wrong with this cloud,
	// and Fault makes it go wrong the next time.
	Faults []string
	Fault  func(t *testing.T, name string)
	// Alive counts what really lives.
	Alive func() int
	// Boot waits until an instance runs or fails; nil: it does at once.
	Boot func(t *testing.T, id string)
}

// Names of faults.
const (
	NoCapacity    = "no-capacity"
	CreateLost    = "create-lost"
	Despite       = "created-despite-error"
	ListEmpty     = "list-empty"
	ListMalformed = "list-malformed"
	ListPartial   = "list-partial"
	Retired       = "list-retired"
	KeyRevoked    = "key-revoked"
	Rate          = "storm"
	ServerError   = "server-error"
	Huge          = "huge-answer"
	Hostile       = "hostile-text"
	DestroyLost   = "destroy-lost"
	DestroyRefuse = "destroy-refused"
	DestroyIgnore = "destroy-ignored"
)

// All are the names of all faults.
func All() []string {
	return []string{
		NoCapacity, CreateLost, Despite, ListEmpty, ListMalformed, ListPartial, Retired, KeyRevoked, Rate, ServerError, Huge,
		Hostile, DestroyLost, DestroyRefuse, DestroyIgnore,
	}
}

// Run runs the contract.
func Run(t *testing.T, s Suite) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Cloud)
	}{
		{"life", life},
		{"offers", offers},
		{"label is kept", labelIsKept},
		{"order is checked", orderIsChecked},
		{"no capacity", noCapacity},
		{"created although the answer is lost", createLost},
		{"created although it failed", despite},
		{"empty list", func(t *testing.T, c Cloud) { missingFromList(t, c, ListEmpty) }},
		{"partial list", func(t *testing.T, c Cloud) { missingFromList(t, c, ListPartial) }},
		{"retired list", func(t *testing.T, c Cloud) { missingFromList(t, c, Retired) }},
		{"malformed list", func(t *testing.T, c Cloud) { listFails(t, c, ListMalformed, provider.ErrMalformed) }},
		{"huge list", func(t *testing.T, c Cloud) { listFails(t, c, Huge, provider.ErrMalformed) }},
		{"rate", func(t *testing.T, c Cloud) { listFails(t, c, Rate, provider.ErrRate) }},
		{"server error", func(t *testing.T, c Cloud) { listFails(t, c, ServerError, nil) }},
		{"revoked key", revokedKey},
		{"hostile text", hostile},
		{"destroy whose answer is lost", destroyLost},
		{"destroy that is refused", destroyRefused},
		{"destroy that does not happen", destroyIgnored},
		{"destroy twice", destroyTwice},
		{"context", ended},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, s.New(t)) })
	}
}

// label is one as campaigns make them, of the greatest length.
func label(n string) string {
	return ("inst01-cell-" + n + "-" + strings.Repeat("x", provider.MaxLabel))[:provider.MaxLabel]
}

// Key is a public key that nobody has the other half of.
const Key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g assay"

// needs skips a test of what cannot go wrong.
func (c Cloud) needs(t *testing.T, name string) {
	t.Helper()
	if !slices.Contains(c.Faults, name) {
		t.Skipf("this provider cannot have %s", name)
	}
}

// order makes an order of the cheapest offer.
func (c Cloud) order(t *testing.T, n string) provider.Order {
	t.Helper()
	all, err := c.Provider.Offers(t.Context(), c.Query)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d offers: %v", len(all), err)
	}
	return provider.Order{Label: label(n), Offer: all[0], Image: "vllm/vllm-openai:latest", DiskGB: all[0].DiskGB, SSHKey: Key, OnStart: "true"}
}

func (c Cloud) rent(t *testing.T, n string) provider.Instance {
	t.Helper()
	i, err := c.Provider.Create(t.Context(), c.order(t, n))
	if err != nil || i.ID == "" {
		t.Fatalf("create: %+v, %v", i, err)
	}
	if c.Boot != nil {
		c.Boot(t, i.ID)
	}
	return i
}

// proves reports whether a provider can prove an end.
func (c Cloud) proves() bool {
	_, pages := c.Provider.(provider.Getter)
	_, key := c.Provider.(provider.KeyProver)
	_, balance := c.Provider.(provider.Balancer)
	return pages && (key || balance)
}

func life(t *testing.T, c Cloud) {
	before, err := c.Provider.List(t.Context())
	if err != nil || len(before) != 0 || before == nil {
		t.Fatalf("an empty account lists %v, %v; want a list that is empty and there", before, err)
	}
	i := c.rent(t, "a")
	look, err := provider.Look(t.Context(), c.Provider, i.ID)
	if err != nil || !look.Has(i.ID) || len(find(look, label("a"))) != 1 || len(look.Gone) != 0 {
		t.Fatalf("after create: %+v, %v", look, err)
	}
	if found := find(look, label("a"))[0]; found.State != provider.Running || !found.Reachable() {
		t.Errorf("a booted instance is %+v", found)
	}
	if g, ok := c.Provider.(provider.Getter); ok {
		if own, err := g.Get(t.Context(), i.ID); err != nil || own.ID != i.ID || own.Label != label("a") {
			t.Errorf("its page: %+v, %v", own, err)
		}
	}
	if err := c.Provider.Destroy(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	if n := c.Alive(); n != 0 {
		t.Errorf("%d live after destroy", n)
	}
	c.gone(t, i.ID)
}

// find gives the instances of a census with a label.
func find(c provider.Census, label string) []provider.Instance {
	var out []provider.Instance
	for _, i := range c.Instances {
		if i.Label == label {
			out = append(out, i)
		}
	}
	return out
}

// gone checks that an end is proved, or that none is claimed.
func (c Cloud) gone(t *testing.T, id string) {
	t.Helper()
	look, err := provider.Look(t.Context(), c.Provider, id)
	if c.proves() {
		if err != nil || !slices.Contains(look.Gone, id) {
			t.Errorf("the end is not proved: %+v, %v", look, err)
		}
		return
	}
	if !errors.Is(err, provider.ErrUnproved) || look.Unproved[id] == nil || len(look.Gone) != 0 {
		t.Errorf("an end that nothing proves: %+v, %v", look, err)
	}
}

func offers(t *testing.T, c Cloud) {
	all, err := c.Provider.Offers(t.Context(), c.Query)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d offers, %v", len(all), err)
	}
	for n, o := range all {
		if !c.Query.Accepts(o) || o.ID == "" || o.Price.Hour.Currency != provider.Currency {
			t.Errorf("offer %+v was not asked for", o)
		}
		if !c.Traits.Owned && o.Price.Hour.Nano <= 0 {
			t.Errorf("offer %+v costs nothing", o)
		}
		if n > 0 && all[n-1].Price.Hour.Nano > o.Price.Hour.Nano {
			t.Errorf("offer %d is cheaper than the one before it", n)
		}
	}
	none := c.Query
	none.GPU = "GPU of nobody 9999"
	if all, err := c.Provider.Offers(t.Context(), none); err != nil || len(all) != 0 {
		t.Errorf("a GPU that nobody has: %v, %v", all, err)
	}
}

func labelIsKept(t *testing.T, c Cloud) {
	i := c.rent(t, "kept")
	list, err := c.Provider.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Label != label("kept") || list[0].ID != i.ID {
		t.Errorf("%+v, %v", list, err)
	}
}

func orderIsChecked(t *testing.T, c Cloud) {
	for _, wrong := range []string{"", "UPPER", "a b", "../x", strings.Repeat("x", provider.MaxLabel+1)} {
		o := c.order(t, "x")
		o.Label = wrong
		if i, err := c.Provider.Create(t.Context(), o); !errors.Is(err, provider.ErrNotSent) || i.ID != "" {
			t.Errorf("label %q: %+v, %v", wrong, i, err)
		}
	}
	if n := c.Alive(); n != 0 {
		t.Errorf("%d live", n)
	}
}

func noCapacity(t *testing.T, c Cloud) {
	c.needs(t, NoCapacity)
	o := c.order(t, "a")
	c.Fault(t, NoCapacity)
	if i, err := c.Provider.Create(t.Context(), o); !errors.Is(err, provider.ErrNoCapacity) || i.ID != "" {
		t.Errorf("%+v, %v", i, err)
	}
	if n := c.Alive(); n != 0 {
		t.Errorf("%d live", n)
	}
}

// createLost: the caller learns nothing, and finds the instance by its label.
func createLost(t *testing.T, c Cloud) {
	c.needs(t, CreateLost)
	o := c.order(t, "lost")
	c.Fault(t, CreateLost)
	i, err := c.Provider.Create(t.Context(), o)
	if err == nil || errors.Is(err, provider.ErrNotSent) || errors.Is(err, provider.ErrNoCapacity) || i.ID != "" {
		t.Errorf("a lost answer gave %+v, %v", i, err)
	}
	list, err := c.Provider.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Label != label("lost") {
		t.Errorf("%+v, %v", list, err)
	}
}

// despite: the error comes with the instance.
func despite(t *testing.T, c Cloud) {
	c.needs(t, Despite)
	o := c.order(t, "despite")
	c.Fault(t, Despite)
	i, err := c.Provider.Create(t.Context(), o)
	if err == nil || i.ID == "" || i.Label != label("despite") {
		t.Fatalf("%+v, %v", i, err)
	}
	if err := c.Provider.Destroy(t.Context(), i.ID); err != nil || c.Alive() != 0 {
		t.Errorf("%v, %d live", err, c.Alive())
	}
}

// missingFromList: a list without an instance that lives never makes it gone.
func missingFromList(t *testing.T, c Cloud, fault string) {
	c.needs(t, fault)
	i := c.rent(t, "a")
	c.Fault(t, fault)
	look, err := provider.Look(t.Context(), c.Provider, i.ID)
	if len(look.Gone) != 0 {
		t.Fatalf("a living instance is gone: %+v, %v", look, err)
	}
	if err == nil && !look.Has(i.ID) {
		t.Errorf("no error, and not there: %+v", look)
	}
	if c.proves() && err == nil && len(find(look, label("a"))) != 1 {
		t.Errorf("its own page shows it, the look does not: %+v", look)
	}
}

func listFails(t *testing.T, c Cloud, fault string, want error) {
	c.needs(t, fault)
	i := c.rent(t, "a")
	c.Fault(t, fault)
	list, err := c.Provider.List(t.Context())
	if err == nil || list != nil || want != nil && !errors.Is(err, want) {
		t.Errorf("%v, %v; want no list and %v", list, err, want)
	}
	if want == nil {
		return
	}
	c.Fault(t, fault)
	if look, err := provider.Look(t.Context(), c.Provider, i.ID); err == nil || len(look.Gone) != 0 || errors.Is(err, provider.ErrUnproved) {
		t.Errorf("a look at it: %+v, %v", look, err)
	}
}

// revokedKey: nothing is gone because a key is refused, and the error says it.
func revokedKey(t *testing.T, c Cloud) {
	c.needs(t, KeyRevoked)
	i := c.rent(t, "a")
	c.Fault(t, KeyRevoked)
	if _, err := c.Provider.List(t.Context()); !errors.Is(err, provider.ErrKey) {
		t.Errorf("list: %v", err)
	}
	if g, ok := c.Provider.(provider.Getter); ok {
		if _, err := g.Get(t.Context(), i.ID); !errors.Is(err, provider.ErrKey) || errors.Is(err, provider.ErrGone) {
			t.Errorf("get: %v", err)
		}
	}
	if err := c.Provider.Destroy(t.Context(), i.ID); !errors.Is(err, provider.ErrKey) {
		t.Errorf("destroy: %v", err)
	}
	if look, err := provider.Look(t.Context(), c.Provider, i.ID); err == nil || len(look.Gone) != 0 {
		t.Errorf("look: %+v, %v", look, err)
	}
}

func hostile(t *testing.T, c Cloud) {
	c.needs(t, Hostile)
	c.rent(t, "a")
	c.Fault(t, Hostile)
	list, err := c.Provider.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		for _, s := range []string{i.ID, i.Label, i.Said, i.GPU, i.Location, i.Host, i.Machine} {
			if strings.ContainsAny(s, "\x1b\a\u202e\n") {
				t.Errorf("%q reaches a terminal", s)
			}
		}
	}
	all, err := c.Provider.Offers(t.Context(), provider.Query{})
	for _, o := range all {
		if strings.ContainsAny(o.ID+o.GPU+o.Location+o.Machine, "\x1b\a\u202e\n") {
			t.Errorf("%q reaches a terminal", o.ID+o.GPU+o.Location+o.Machine)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func destroyLost(t *testing.T, c Cloud) {
	c.needs(t, DestroyLost)
	i := c.rent(t, "a")
	c.Fault(t, DestroyLost)
	if err := c.Provider.Destroy(t.Context(), i.ID); err == nil {
		t.Error("a lost answer is no success")
	}
	c.gone(t, i.ID)
}

func destroyRefused(t *testing.T, c Cloud) {
	c.needs(t, DestroyRefuse)
	i := c.rent(t, "a")
	c.Fault(t, DestroyRefuse)
	if err := c.Provider.Destroy(t.Context(), i.ID); err == nil {
		t.Error("a refusal is no success")
	}
	if look, err := provider.Look(t.Context(), c.Provider, i.ID); err != nil || !look.Has(i.ID) || len(look.Gone) != 0 {
		t.Errorf("%+v, %v", look, err)
	}
}

// destroyIgnored: what was accepted is not believed until it is seen.
func destroyIgnored(t *testing.T, c Cloud) {
	c.needs(t, DestroyIgnore)
	i := c.rent(t, "a")
	c.Fault(t, DestroyIgnore)
	if err := c.Provider.Destroy(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	if look, err := provider.Look(t.Context(), c.Provider, i.ID); err != nil || !look.Has(i.ID) || len(look.Gone) != 0 {
		t.Errorf("%+v, %v", look, err)
	}
	if err := c.Provider.Destroy(t.Context(), i.ID); err != nil || c.Alive() != 0 {
		t.Errorf("%v, %d live", err, c.Alive())
	}
}

func destroyTwice(t *testing.T, c Cloud) {
	i := c.rent(t, "a")
	for range 2 {
		if err := c.Provider.Destroy(t.Context(), i.ID); err != nil {
			t.Error(err)
		}
	}
}

// ended: a caller that has gone sends nothing.
func ended(t *testing.T, c Cloud) {
	o := c.order(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	start := time.Now()
	if i, err := c.Provider.Create(ctx, o); err == nil || i.ID != "" {
		t.Errorf("%+v, %v", i, err)
	}
	if list, err := c.Provider.List(ctx); err == nil || list != nil {
		t.Errorf("%v, %v", list, err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	if n := c.Alive(); n != 0 {
		t.Errorf("%d live", n)
	}
}

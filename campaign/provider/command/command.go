// Package command is a cloud behind a program that somebody else wrote: a request as
// JSON on its standard input, an answer as JSON on its standard output, one run a
// call. docs/providers.md has the protocol and an example in shell.
//
// It promises that a program which fails, hangs, floods or answers what the protocol
// does not have is an error, and never an empty list: an answer counts only when the
// program ended with status 0 and wrote the member that was asked for.
//
// It refuses to guess what a program can: optional verbs are those that it lists when
// it is asked to describe itself.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/internal/child"
	"github.com/assay-bench/assay/internal/foreign"
)

// Protocol is the version that a request names.
const Protocol = "assay/provider/v1"

// Config is which program, and how long it may take.
type Config struct {
	// Name is the provider's name in a matrix.
	Name string
	// Command is the program and its first arguments; the verb follows them.
	Command []string
	// Env is its environment; nil: that of this process.
	Env []string
	// Wait gives each run its turn; nil: at once.
	Wait provider.Wait
	// Timeout is for one run; 0: a minute.
	Timeout time.Duration
}

// Cloud is the program as a provider.
type Cloud struct{ c Config }

// withPage and the others are programs with optional verbs.
type (
	withPage    struct{ *Cloud }
	withBalance struct{ *Cloud }
	withBoth    struct{ *Cloud }
)

func (p withPage) Get(ctx context.Context, id string) (provider.Instance, error) {
	return p.get(ctx, id)
}
func (p withBoth) Get(ctx context.Context, id string) (provider.Instance, error) {
	return p.get(ctx, id)
}
func (p withBalance) Balance(ctx context.Context) (assay.Money, error) { return p.balance(ctx) }
func (p withBoth) Balance(ctx context.Context) (assay.Money, error)    { return p.balance(ctx) }

// Open asks the program to describe itself, and gives it with the optional methods
// that it has.
func Open(ctx context.Context, c Config) (provider.Provider, provider.Traits, error) {
	if len(c.Command) == 0 {
		return nil, provider.Traits{}, errors.New("no command is given")
	}
	p := &Cloud{c: c}
	var d description
	err := p.run(ctx, "", "describe", request{}, &d)
	if err != nil {
		return nil, provider.Traits{}, fmt.Errorf("%s: describe: %w", foreign.Line(c.Name, maxName), err)
	}
	traits, err := d.traits(c.Name)
	if err != nil {
		return nil, provider.Traits{}, fmt.Errorf("%s: describe: %w", foreign.Line(c.Name, maxName), err)
	}
	get, balance := slices.Contains(d.Verbs, "get"), slices.Contains(d.Verbs, "balance")
	switch {
	case get && balance:
		return withBoth{p}, traits, nil
	case get:
		return withPage{p}, traits, nil
	case balance:
		return withBalance{p}, traits, nil
	}
	return p, traits, nil
}

// run runs the program once. A call of "" has no turn of its own.
func (p *Cloud) run(ctx context.Context, call provider.Call, verb string, r request, into any) error {
	if call != "" {
		if err := p.c.Wait.Turn(ctx, call); err != nil {
			return fmt.Errorf("%w: wait for a turn to %s: %w", provider.ErrNotSent, call, err)
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotSent, context.Cause(ctx))
	}
	r.Protocol, r.Verb = Protocol, verb
	in, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotSent, err)
	}
	timeout := p.c.Timeout
	if timeout <= 0 {
		timeout = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	spec := child.Spec{Command: append(slices.Clone(p.c.Command), verb), Env: p.c.Env, MaxLine: maxAnswer, MaxAnswer: maxAnswer}
	out, err := child.Output(ctx, spec, append(in, '\n'))
	return decode(out, err, verb, into)
}

// maxAnswer bounds what a program may write, and maxName a name in it.
const (
	maxAnswer = 4 << 20
	maxName   = 80
)

// decode reads an answer. What a program that failed wrote is still looked at: a
// create that failed may carry an instance.
func decode(out child.Result, ended error, verb string, into any) error {
	decoded := json.Unmarshal(out.Stdout, into)
	var e struct {
		Error json.RawMessage `json:"error"`
	}
	if decoded == nil {
		_ = json.Unmarshal(out.Stdout, &e) // it is an object, or has no error
	}
	switch {
	case errors.Is(ended, child.ErrFlood):
		return fmt.Errorf("%w: %s: %w", provider.ErrMalformed, verb, ended)
	case len(e.Error) > 0 && string(e.Error) != "null":
		return fmt.Errorf("%s: %w", verb, failed(e.Error))
	case ended != nil:
		return fmt.Errorf("%s: %w", verb, ended)
	case decoded != nil:
		return fmt.Errorf("%w: %s: %s: %s", provider.ErrMalformed, verb, foreign.Line(decoded.Error(), maxSaid), foreign.Line(out.Stdout, maxSaid))
	}
	return nil
}

// maxSaid is how much of a program's words goes into an error.
const maxSaid = 200

// Offers asks what can be rented.
func (p *Cloud) Offers(ctx context.Context, q provider.Query) ([]provider.Offer, error) {
	var a struct {
		Offers *[]offer `json:"offers"`
	}
	limit := q.MaxOffer
	if limit <= 0 {
		limit = 100
	}
	r := request{Query: &query{GPU: q.GPU, GPUs: max(q.GPUs, 1), MinVRAMGB: float64(q.MinVRAM) / (1 << 30), DiskGB: q.DiskGB}}
	if err := p.run(ctx, provider.CallOffers, "offers", r, &a); err != nil {
		return nil, err
	}
	if a.Offers == nil {
		return nil, fmt.Errorf("%w: offers: the answer has no offers", provider.ErrMalformed)
	}
	out := []provider.Offer{}
	for _, w := range *a.Offers {
		if o, err := w.offer(q.DiskGB); err == nil && q.Accepts(o) {
			out = append(out, o)
		}
	}
	slices.SortStableFunc(out, func(a, b provider.Offer) int { return int(min(1, max(-1, a.Price.Hour.Nano-b.Price.Hour.Nano))) })
	return out[:min(len(out), limit)], nil
}

// Create rents.
func (p *Cloud) Create(ctx context.Context, o provider.Order) (provider.Instance, error) {
	if err := o.Check(); err != nil {
		return provider.Instance{}, err
	}
	var a struct {
		Instance *instance `json:"instance"`
	}
	err := p.run(ctx, provider.CallCreate, "create", request{Order: &order{
		Label: o.Label, Offer: o.Offer.ID, GPUs: o.Offer.GPUs, Image: o.Image, DiskGB: max(o.DiskGB, o.Offer.DiskGB), SSHKey: o.SSHKey, OnStart: o.OnStart,
	}}, &a)
	if a.Instance == nil {
		if err == nil {
			err = fmt.Errorf("%w: create: the answer has no instance", provider.ErrMalformed)
		}
		return provider.Instance{}, err
	}
	i, bad := a.Instance.instance()
	if bad != nil {
		return provider.Instance{}, errors.Join(err, bad)
	}
	i.Label = o.Label
	return i, err
}

// List asks for all instances.
func (p *Cloud) List(ctx context.Context) ([]provider.Instance, error) {
	var a struct {
		Instances *[]instance `json:"instances"`
	}
	if err := p.run(ctx, provider.CallList, "list", request{}, &a); err != nil {
		return nil, err
	}
	if a.Instances == nil {
		return nil, fmt.Errorf("%w: list: the answer has no instances", provider.ErrMalformed)
	}
	out := []provider.Instance{}
	for _, w := range *a.Instances {
		i, err := w.instance()
		if err != nil {
			return nil, err // one that cannot be read may be ours
		}
		out = append(out, i)
	}
	return out, nil
}

// Destroy ends an instance.
func (p *Cloud) Destroy(ctx context.Context, id string) error {
	if err := provider.PlainID(id); err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotSent, err)
	}
	var a struct {
		Destroyed *bool `json:"destroyed"`
	}
	err := p.run(ctx, provider.CallDestroy, "destroy", request{ID: id}, &a)
	switch {
	case errors.Is(err, provider.ErrGone):
		return nil
	case err == nil && (a.Destroyed == nil || !*a.Destroyed):
		return fmt.Errorf("%w: destroy: the answer does not say that it was accepted", provider.ErrMalformed)
	}
	return err
}

// get asks for one instance; a null is its end.
func (p *Cloud) get(ctx context.Context, id string) (provider.Instance, error) {
	if err := provider.PlainID(id); err != nil {
		return provider.Instance{}, fmt.Errorf("%w: %w", provider.ErrNotSent, err)
	}
	a := map[string]json.RawMessage{}
	if err := p.run(ctx, provider.CallGet, "get", request{ID: id}, &a); err != nil {
		return provider.Instance{}, err
	}
	raw, ok := a["instance"]
	if !ok {
		return provider.Instance{}, fmt.Errorf("%w: get: the answer has no instance", provider.ErrMalformed)
	}
	if string(raw) == "null" {
		return provider.Instance{}, provider.ErrGone
	}
	var w instance
	if err := json.Unmarshal(raw, &w); err != nil {
		return provider.Instance{}, fmt.Errorf("%w: get: %s", provider.ErrMalformed, foreign.Line(raw, maxSaid))
	}
	i, err := w.instance()
	if err == nil && i.ID != id {
		return provider.Instance{}, fmt.Errorf("%w: get: the answer is about %s", provider.ErrMalformed, i.ID)
	}
	return i, err
}

func (p *Cloud) balance(ctx context.Context) (assay.Money, error) {
	var a struct {
		USD *float64 `json:"balance_usd"`
	}
	if err := p.run(ctx, provider.CallBalance, "balance", request{}, &a); err != nil {
		return assay.Money{}, err
	}
	if a.USD == nil {
		return assay.Money{}, fmt.Errorf("%w: balance: the answer has no balance_usd", provider.ErrMalformed)
	}
	return provider.USD(max(*a.USD, 0))
}

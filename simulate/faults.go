package simulate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Faults are what the engine does wrong on request. Shares are of requests,
// from 0 to 1, and exclude each other: one request has at most one of them,
// so their sum is at most 1.
type Faults struct {
	Status      map[int]float64 // answers with this error status; 429 and 503 carry Retry-After
	Reset       float64         // connection reset after some tokens
	Truncate    float64         // body ends properly after some tokens, without finish or [DONE]
	Cut         float64         // connection closed in the middle of a chunk
	Malformed   float64         // one event holds broken JSON; the stream goes on
	Empty       float64         // status 200, ends properly, no token
	StreamError float64         // an error event in the stream, as vLLM sends it
	Hang        float64         // read and never answered

	Usage     float64       // token counts in usage are multiplied by this; 0: true counts
	SlowStart time.Duration // after the start, /health and requests get 503 for so long
	ColdStart time.Duration // the first request waits so much longer for its first token
	Drift     float64       // gaps grow by this ratio a minute: gap × (1 + Drift × minutes since start)
	SlowAt    time.Duration // from so long after the start on …
	SlowBy    float64       // … gaps are this many times as long, as on a GPU that throttles; 0: never
	Leak      int           // bytes really kept for each request
	StallAt   time.Duration // one stall of all streams, this long after the start …
	StallFor  time.Duration // … and of this length; 0: none
}

func (f Faults) check() error {
	var sum float64
	add := func(name string, p float64) error {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("fault %s: share %v is not between 0 and 1", name, p)
		}
		sum += p
		return nil
	}
	for code, p := range f.Status {
		if code < 400 || code > 599 {
			return fmt.Errorf("fault status %d: want an error status, 400 to 599", code)
		}
		if err := add(fmt.Sprintf("status %d", code), p); err != nil {
			return err
		}
	}
	for _, k := range f.shares() {
		if err := add(k.kind.String(), k.share); err != nil {
			return err
		}
	}
	switch {
	case sum > 1+1e-9:
		return fmt.Errorf("fault shares add up to %v, more than every request", sum)
	case !(f.Usage >= 0) || !(f.Drift >= 0) || !(f.SlowBy >= 0) || f.Leak < 0:
		return errors.New("fault usage, drift, slow-by and leak cannot be negative")
	case f.SlowStart < 0 || f.ColdStart < 0 || f.StallAt < 0 || f.StallFor < 0 || f.SlowAt < 0:
		return errors.New("fault times cannot be negative")
	case f.StallFor > maxStall:
		return fmt.Errorf("stall of %v: at most %v", f.StallFor, maxStall)
	}
	return nil
}

type faultKind uint8

const (
	faultNone faultKind = iota
	faultStatus
	faultReset
	faultTruncate
	faultCut
	faultMalformed
	faultEmpty
	faultStreamError
	faultHang
)

func (k faultKind) String() string {
	return [...]string{"none", "status", "reset", "truncate", "cut", "malformed", "empty", "stream-error", "hang"}[k]
}

type faultShare struct {
	kind  faultKind
	share float64
}

func (f Faults) shares() []faultShare {
	return []faultShare{
		{faultReset, f.Reset}, {faultTruncate, f.Truncate}, {faultCut, f.Cut},
		{faultMalformed, f.Malformed}, {faultEmpty, f.Empty},
		{faultStreamError, f.StreamError}, {faultHang, f.Hang},
	}
}

// plan is what goes wrong with one request, drawn before it starts.
type plan struct {
	kind   faultKind
	status int // of faultStatus
	at     int // tokens given before it happens
}

// dice draws plans. The draw depends on the seed and on how many requests
// came before, and on nothing else, so a sequence of requests can be repeated.
type dice struct {
	seed  uint64
	edges []edge
}

type edge struct {
	upTo float64
	plan plan
}

func newDice(seed uint64, f Faults) dice {
	d := dice{seed: seed}
	var sum float64
	add := func(p plan, share float64) {
		if share > 0 {
			sum += share
			d.edges = append(d.edges, edge{sum, p})
		}
	}
	codes := make([]int, 0, len(f.Status))
	for code := range f.Status {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	for _, code := range codes {
		add(plan{kind: faultStatus, status: code}, f.Status[code])
	}
	for _, k := range f.shares() {
		add(plan{kind: k.kind}, k.share)
	}
	return d
}

func (d dice) roll(request uint64, tokens int) plan {
	if len(d.edges) == 0 {
		return plan{}
	}
	r := rand.New(rand.NewPCG(d.seed, request))
	u := r.Float64()
	for _, e := range d.edges {
		if u < e.upTo {
			p := e.plan
			if tokens > 1 {
				p.at = 1 + r.IntN(tokens-1)
			}
			return p
		}
	}
	return plan{}
}

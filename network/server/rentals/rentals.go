// Package rentals answers for rented machines in the words of the API: what is on
// offer, what campaigns and people rented, and what it measured.
//
// What it promises: it owns nothing. Sessions are the intents of package
// campaign/store, so that campaigns, reap and people see the same machines and the
// same money; whatever is rented here is committed with its reservation first, and
// ends when its hours have passed, whoever is away.
//
// What it refuses: to rent without a budget, to take a cloud that does not answer
// for one that has nothing, and to wait until an end is proved: that is reap's.
package rentals

import (
	"context"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/record"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/server"
)

// Rentals reads what is known of rented machines.
type Rentals struct{ Store *store.Store }

// Sessions lists machines, the newest first.
func (r Rentals) Sessions(ctx context.Context, q server.SessionQuery) ([]api.Session, error) {
	w := store.SessionQuery{Label: q.ID, Provider: q.Provider, Before: q.Before, Limit: q.Limit}
	failed := false
	switch q.Status {
	case api.SessionStatusPending:
		w.States = []store.State{store.Intended}
	case api.SessionStatusProvisioning:
		w.States = []store.State{store.Creating}
	case api.SessionStatusRunning:
		w.States = []store.State{store.Live}
	case api.SessionStatusStopping:
		w.States = []store.State{store.Ending, store.Unproved}
	case api.SessionStatusStopped:
		w.States, w.Failed = []store.State{store.Ended}, &failed
	case api.SessionStatusFailed:
		failed = true
		w.States, w.Failed = []store.State{store.Ended}, &failed
	}
	list, err := r.Store.Sessions(ctx, w)
	out := make([]api.Session, 0, len(list))
	for _, s := range list {
		out = append(out, sessionOf(s))
	}
	return out, err
}

// statusOf is how far a session is.
func statusOf(s store.Session) api.SessionStatus {
	switch s.State {
	case store.Intended:
		return api.SessionStatusPending
	case store.Creating:
		return api.SessionStatusProvisioning
	case store.Live:
		return api.SessionStatusRunning
	case store.Ended:
		if s.Failed() {
			return api.SessionStatusFailed
		}
		return api.SessionStatusStopped
	}
	return api.SessionStatusStopping
}

// maxText bounds what others say.
const maxText = 500

func sessionOf(s store.Session) api.Session {
	out := api.Session{
		Id: s.Label, Provider: s.Provider, GpuType: s.GPU, Status: statusOf(s), PricePerHour: s.Hour.Units(), Spent: s.Spent.Units(),
		CreatedAt: s.Made, ExpiresAt: s.Lease, LongestAt: s.Longest,
		Campaign: text(s.Campaign), Cell: text(s.Cell), Model: text(s.Model), Location: text(s.Location), OfferId: text(offerID(s.Provider, s.Offer)), Proof: text(s.Proof),
	}
	if s.State != store.Ended {
		out.Reserved = s.Reserved.Units()
	}
	if !s.Called.IsZero() {
		out.StartedAt = &s.Called
	}
	if !s.Ended.IsZero() {
		out.EndedAt = &s.Ended
	}
	for _, n := range s.Instances {
		out.ProviderId, out.SshHost = text(n.ID), text(n.Host)
		if n.Port > 0 {
			out.SshPort = &n.Port
		}
	}
	if s.State == store.Unproved {
		yes := true
		out.Confirm = &yes
	}
	why := s.Why
	if s.Failed() && s.Failure.Status != "" {
		why = s.Failure.Stage + ", " + s.Failure.Cause + ": " + s.Failure.Message
	}
	if why != store.WhyDone && why != store.WhyDeleted {
		out.Error = text(foreign.Line(why, maxText))
	}
	return out
}

// text is a member that is absent where there is nothing to say.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Benchmarks lists the last result of each kind of machine, the best first.
func (r Rentals) Benchmarks(ctx context.Context, q server.BenchmarkQuery) ([]api.Benchmark, error) {
	list, err := r.Store.Benchmarks(ctx, "")
	if err != nil {
		return nil, err
	}
	by := record.BySpeed
	if q.Cost {
		by = record.ByCost
	}
	ranked := record.Rank(list, record.Query{Model: q.Model, SLO: q.SLO, By: by})
	front := map[string]bool{}
	models := map[string][]record.Candidate{}
	for _, c := range ranked {
		models[c.Model] = append(models[c.Model], c)
	}
	for _, of := range models {
		for _, c := range record.Front(of) {
			front[c.ID] = true
		}
	}
	out := make([]api.Benchmark, 0, len(ranked))
	for _, c := range ranked {
		out = append(out, api.Benchmark{
			Id: c.ID, GpuType: c.GPU, GpuCount: c.Count, Provider: c.Provider, Location: text(c.Location), Model: c.Model, Engine: c.Engine,
			TokensPerSecond: c.TokensPerSecond, Stage: text(c.Stage), PricePerHour: units(c.PricePerHour), CostPerMillionTokens: units(c.PerMillion),
			Kept: api.BenchmarkKept(c.Kept.String()), Why: text(foreign.Line(c.Why, maxText)), Front: front[c.ID],
		})
	}
	return out, nil
}

// units is an amount in USD; nil: not known.
func units(m *assay.Money) *float64 {
	if m == nil {
		return nil
	}
	v := m.Units()
	return &v
}

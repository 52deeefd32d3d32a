package decide

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/store"
	"github.com/assay-bench/assay/network/trend"
	"github.com/assay-bench/assay/network/trust/fingerprint"
)

// Kinds of anomalies about the model that a replica serves.
const (
	anomalyModelDiffers  = "model_differs"  // its answers are not those of the reference
	anomalyModelUnproven = "model_unproven" // it gives no answers that could be compared
)

// checkModel is the name of the check, for a policy's trust.require.
const checkModel = "model"

// metricLogProbs is what is compared.
const metricLogProbs = "log_probabilities"

// Outcomes of a check of a model.
const (
	modelSame        = "same"
	modelDiffers     = "differs"
	modelUnproven    = "unproven"
	modelUnreachable = "unreachable"
)

// modelTimeout bounds one check, and modelRetry is how long a replica that could not
// be asked is left alone.
const (
	modelTimeout = 2 * time.Minute
	modelRetry   = 10 * time.Minute
	// modelStreams is how many prompts are asked for at once: customers wait beside them.
	modelStreams = 1
)

// Models says how the models of replicas are compared with references. The zero
// Models compares none.
type Models struct {
	References []*fingerprint.Reference
	Client     *http.Client  // which limits where it connects to
	Every      time.Duration // between two checks of a replica; zero: six hours
}

func (m Models) every() time.Duration {
	if m.Every == 0 {
		return 6 * time.Hour
	}
	return m.Every
}

// of gives the reference for a model; nil: there is none.
func (m Models) of(model string) *fingerprint.Reference {
	for _, r := range m.References {
		if r.Model == model {
			return r
		}
	}
	return nil
}

// models checks one replica after the other, each now and then. When each was checked
// is known to the process that has the lease: after a restart all are checked anew.
func (d *Decider) models() leasedTurn {
	due := map[string]time.Time{}
	return func(ctx context.Context, _ store.Lease) (bool, error) {
		routes, err := d.store.Routes(ctx)
		if err != nil {
			return false, err
		}
		now := d.now()
		here := make(map[string]time.Time, len(routes))
		for _, r := range routes {
			here[r.ID] = due[r.ID]
		}
		due = here
		for _, r := range routes {
			ref := d.o.Models.of(r.Model)
			if ref == nil || r.EngineDown || due[r.ID].After(now) {
				continue
			}
			if ok, _ := control.RoutableReplica(standing(r.NodeFacts), standing(r.ReplicaFacts)); !ok {
				continue
			}
			wait, err := d.compareModel(ctx, ref, r)
			due[r.ID] = now.Add(wait)
			return true, err // the lease is asked for anew between two
		}
		return false, nil
	}
}

// standing is what a row says, in the words of control.
func standing(f store.Facts) control.Facts {
	return control.Facts{Admission: control.Admission(f.Admission), Intent: control.Intent(f.Intent), Contact: control.Contact(f.Contact)}
}

// compareModel compares a replica with a reference, has what is found decided by the
// policy, and says when to look again.
func (d *Decider) compareModel(ctx context.Context, ref *fingerprint.Reference, r store.Route) (again time.Duration, err error) {
	at, err := control.ParseServing(r.ServingURL)
	if err != nil {
		return modelRetry, nil // the table of routes says so
	}
	asking, cancel := context.WithTimeout(ctx, modelTimeout)
	defer cancel()
	e := &fingerprint.Engine{Client: d.o.Models.Client, URL: at.URL(), Model: r.Model}
	f, err := fingerprint.Check(asking, ref, e, fingerprint.DefaultPrompts, modelStreams)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	log := d.log.With("node", r.Node, "replica", r.Replica, "model", r.Model)
	if err != nil { // who cannot be reached is found by others
		d.metrics.compared(modelUnreachable)
		log.Warn("a replica could not be asked for its log-probabilities; it is asked again", "error", foreign.Line(err.Error(), 300))
		return modelRetry, nil
	}
	outcome, kind := modelUnproven, anomalyModelUnproven
	switch {
	case f.Verdict == assay.Pass:
		outcome, kind = modelSame, ""
	case f.Differs:
		outcome, kind = modelDiffers, anomalyModelDiffers
	}
	d.metrics.compared(outcome)
	log.Info("a replica's model was compared", "verdict", f.Verdict.String(), "finding", f.Text)
	return d.o.Models.every(), d.foundModel(ctx, r, kind, f)
}

// foundModel keeps a finding about a model, and has one that is no pass decided, once
// in a while.
func (d *Decider) foundModel(ctx context.Context, r store.Route, kind string, f fingerprint.Finding) error {
	kept := store.Finding{Node: r.Node, Replica: r.Replica, ServingURL: r.ServingURL, Check: checkModel, Verdict: f.Verdict.String(), Text: f.Text}
	if f.Distance.Known() {
		kept.Figures = map[string]float64{"distance": f.Distance.Est, "distance_low": f.Distance.Lo, "distance_high": f.Distance.Hi, "limit": f.Limit, "prompts": float64(f.Distance.N), "prompts_beyond": float64(f.Beyond)}
	}
	if err := d.Found(ctx, kept, kind); err != nil {
		return gone(err)
	}
	if kind == "" {
		return nil
	}
	return d.tellModel(ctx, r, kind, f)
}

// tellModel has a finding about a model decided, once in a while.
func (d *Decider) tellModel(ctx context.Context, r store.Route, kind string, f fingerprint.Finding) error {
	now := d.now()
	subject := "replica " + r.ID
	told, err := d.store.ToldSince(ctx, subject, kind, metricLogProbs, now.Add(-tellEvery))
	if err != nil || told {
		return err
	}
	text := foreign.Line(fmt.Sprintf("replica %s, model %s: %s", r.Replica, r.Model, f.Text), 500)
	found := trend.Finding{Kind: kind, Metric: metricLogProbs, Subject: subject, Since: now, Text: text, Reports: []string{}}
	if f.Distance.Known() {
		found.Usual, found.Now, found.Shift = f.Limit, f.Distance.Est, f.Distance.Est
		found.Low, found.High = &f.Distance.Lo, &f.Distance.Hi
	}
	body, err := json.Marshal(found)
	if err != nil {
		return err
	}
	id := d.newID(now)
	_, err = d.Happen(ctx, Happening{
		Node: r.Node, Scope: everybody,
		Event:   control.Event{Kind: control.EventAnomaly, Anomaly: kind, Reason: text, Actor: byServer},
		Anomaly: &store.Anomaly{ID: id, At: now, Node: r.Node, Kind: kind, Metric: metricLogProbs, Subject: subject, Report: id, Body: body},
	})
	if errors.Is(err, store.ErrTaken) || errors.Is(err, store.ErrNotFound) {
		return nil // somebody was first, or the node is gone
	}
	return err
}

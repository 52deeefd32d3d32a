package flow

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Client speaks to a Temporal server.
type Client struct{ temporal client.Client }

// ClientOptions are which server.
type ClientOptions struct {
	Address   string
	Namespace string      // empty: default
	TLS       *tls.Config // nil: without
	// Log gets what Temporal's library says, all of it as details: what matters of
	// it is in the database.
	Log *slog.Logger
}

// details is a log in which everything is a detail.
type details struct{ log *slog.Logger }

func (d details) Debug(text string, values ...any) { d.log.Debug(text, values...) }
func (d details) Info(text string, values ...any)  { d.log.Debug(text, values...) }
func (d details) Warn(text string, values ...any)  { d.log.Debug(text, values...) }
func (d details) Error(text string, values ...any) { d.log.Debug(text, values...) }

// Dial connects to a server.
func Dial(ctx context.Context, o ClientOptions) (*Client, error) {
	c, err := client.DialContext(ctx, client.Options{
		HostPort: o.Address, Namespace: o.Namespace, Logger: details{o.Log}, ConnectionOptions: client.ConnectionOptions{TLS: o.TLS},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to Temporal at %s: %w", o.Address, err)
	}
	return &Client{c}, nil
}

// Close ends the connection.
func (c *Client) Close() { c.temporal.Close() }

// Worker does the steps of campaigns until it is stopped.
type Worker struct{ w worker.Worker }

// Work begins to work. So many cells are worked on at once: each has one activity
// under way, and most of those wait.
func (c *Client) Work(a *Activities, cells int) (*Worker, error) {
	w := worker.New(c.temporal, Queue, worker.Options{MaxConcurrentActivityExecutionSize: cells + 10, DisableRegistrationAliasing: true})
	register(w, a.steps())
	if err := w.Start(); err != nil {
		return nil, fmt.Errorf("work on campaigns: %w", err)
	}
	return &Worker{w}, nil
}

// Stop ends the work. What was under way is done again by the next worker.
func (w *Worker) Stop() { w.w.Stop() }

// registry is what workflows and activities are registered with.
type registry interface {
	RegisterWorkflowWithOptions(w any, o workflow.RegisterOptions)
	RegisterActivityWithOptions(a any, o activity.RegisterOptions)
}

// steps are the activities by their names.
func (a *Activities) steps() map[string]any {
	return map[string]any{
		stepIntend: a.Intend, stepCreate: a.Create, stepReach: a.Reach, stepVerify: a.Verify, stepEngine: a.Engine, stepLoad: a.Load,
		stepBenchmark: a.Benchmark, stepCollect: a.Collect, stepImport: a.Import, stepDestroy: a.Destroy, stepProve: a.Prove,
		stepFinish: a.Finish, stepPending: a.Pending, stepLost: a.Lost, stepClose: a.Close,
	}
}

// register names workflows and activities as they are in histories.
func register(r registry, steps map[string]any) {
	r.RegisterWorkflowWithOptions(Cell, workflow.RegisterOptions{Name: CellWorkflow})
	r.RegisterWorkflowWithOptions(Campaign, workflow.RegisterOptions{Name: CampaignWorkflow})
	for name, do := range steps {
		r.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	}
}

// Start starts a campaign, or finds it running.
func (c *Client) Start(ctx context.Context, in CampaignInput) error {
	_, err := c.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: CampaignID(in.Campaign), TaskQueue: Queue,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	}, CampaignWorkflow, in)
	if err != nil {
		return fmt.Errorf("start campaign %s: %w", in.Campaign, err)
	}
	return nil
}

// Wait waits until a campaign has ended.
func (c *Client) Wait(ctx context.Context, campaign string) error {
	return c.temporal.GetWorkflow(ctx, CampaignID(campaign), "").Get(ctx, nil)
}

// Cancel asks a campaign to end: each of its cells gives its machine back.
func (c *Client) Cancel(ctx context.Context, campaign string) error {
	if err := c.temporal.CancelWorkflow(ctx, CampaignID(campaign), ""); err != nil {
		return fmt.Errorf("cancel campaign %s: %w", campaign, err)
	}
	return nil
}

package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/telemetry"
)

const defaultHeartbeat = 30 * time.Second

// beat sends heart-beats until ctx ends.
func (a *Agent) beat(ctx context.Context) {
	down := false
	a.acquainted(ctx)
	// The first may come at any time within a beat: a network that is switched on
	// at once does not beat at once.
	for wait := time.Duration(a.link.chance() * float64(min(a.interval(), a.o.Spread)) / 10); ; {
		if !sleep(ctx, wait) {
			return
		}
		err := a.beatOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && down:
			down = false
			a.log.Info("the server answers again")
		case err != nil && !down:
			down = true
			a.log.Warn("the server does not answer; what is measured is kept", "error", err)
		}
		wait = jittered(a.interval(), a.link.chance())
		if err != nil {
			if !a.link.rest(ctx) {
				return
			}
			wait = 0
		}
	}
}

// maxAcquaint is how long the first heart-beat waits for what it describes.
const maxAcquaint = 10 * time.Second

// acquainted waits until the cards were counted and the engine was looked at, so
// that the first inventory is whole: else every start of an agent would take the
// replica from its node for a moment. An engine that does not answer holds up
// nothing for long.
func (a *Agent) acquainted(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, min(maxAcquaint, a.interval()))
	defer cancel()
	for _, known := range []<-chan struct{}{a.counted, a.lookout.looked} {
		select {
		case <-known:
		case <-ctx.Done():
		}
	}
}

// jittered is a wait that is up to a fifth shorter or longer by chance.
func jittered(d time.Duration, chance float64) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*chance))
}

// interval is how often the server wants to hear of the node.
func (a *Agent) interval() time.Duration {
	if a.o.Heartbeat > 0 {
		return a.o.Heartbeat
	}
	a.mu.Lock()
	n := a.seen.HeartbeatSeconds
	a.mu.Unlock()
	if n <= 0 {
		a.session.mu.Lock()
		n = a.session.id.Heartbeat
		a.session.mu.Unlock()
	}
	if n <= 0 {
		return defaultHeartbeat
	}
	return time.Duration(min(max(n, 5), 600)) * time.Second
}

// beatOnce sends one heart-beat, and does what the answer asks for.
func (a *Agent) beatOnce(ctx context.Context) error {
	inventory, hash, err := a.describe()
	if err != nil {
		return err
	}
	t := a.lookout.now()
	records, _ := a.box.Pending()
	version := a.runner.planned().Version
	h := api.Heartbeat{
		Time: time.Now().UTC(), Version: foreign.Line(a.o.Version.Assay, 100), InventorySha256: hash, SettingsVersion: &version,
		Running: t.Running, RunningKnown: &t.Known, WaitingRecords: int64(records),
		Replicas: &[]api.ReplicaState{a.replicaState(t)},
	}
	if s := a.link.clock.now(); s.Known {
		off := s.Offset.Seconds()
		h.ClockSkewSeconds = &off
	}
	if name := a.runner.checking(); name != "" {
		h.Checking = &name
	}
	var sent time.Time
	seen, err := as[api.Seen](ctx, a.session, "heart-beat", callTimeout, func(ctx context.Context, node string, auth api.RequestEditorFn) (*http.Response, error) {
		sent = time.Now()
		return a.link.client.Heartbeat(ctx, node, h, auth)
	})
	if err != nil {
		return err
	}
	a.link.clock.saw(sent, time.Now(), seen.Time)
	a.mu.Lock()
	a.seen = seen
	a.mu.Unlock()
	var errs []error
	if seen.SendInventory {
		errs = append(errs, a.sendInventory(ctx, inventory))
	}
	if seen.SettingsVersion != version {
		errs = append(errs, a.fetchSettings(ctx))
	}
	if a.session.rotationDue(time.Now()) {
		errs = append(errs, a.session.rotate(ctx))
	}
	return errors.Join(errs...)
}

// replicaState is what a heart-beat says of the engine. Its counter lets the server
// find out whether the serving URL leads to it.
func (a *Agent) replicaState(t Traffic) api.ReplicaState {
	r := api.ReplicaState{Name: a.c.Engine.Name, Running: t.Running, Up: &t.Up}
	if tokens, ago, ok := a.lookout.output(); ok && ago <= time.Hour {
		r.OutputTokens, r.CountedSecondsAgo = &tokens, new(ago.Seconds())
	}
	return r
}

func (a *Agent) sendInventory(ctx context.Context, i api.Inventory) error {
	_, err := as[struct{}](ctx, a.session, "send the inventory", callTimeout, func(ctx context.Context, node string, auth api.RequestEditorFn) (*http.Response, error) {
		return a.link.client.PutInventory(ctx, node, i, auth)
	})
	return err
}

// fetchSettings asks what the server wants to have measured, and takes of it what
// the limits allow.
func (a *Agent) fetchSettings(ctx context.Context) error {
	s, err := as[api.Settings](ctx, a.session, "fetch the settings", callTimeout, func(ctx context.Context, node string, auth api.RequestEditorFn) (*http.Response, error) {
		return a.link.client.GetSettings(ctx, node, auth)
	})
	if err != nil {
		return err
	}
	p, err := a.c.plan(&s)
	if err != nil {
		return err
	}
	if err := a.state.write(settingsFile, s); err != nil {
		return err
	}
	a.runner.follow(p)
	if len(p.Refused) > 0 {
		a.log.Warn("the server asks for more than is allowed here", "refused", strings.Join(p.Refused, "; "))
	}
	return nil
}

// describe is what the node consists of, and its hash.
func (a *Agent) describe() (api.Inventory, string, error) {
	n := telemetry.DescribeNode()
	a.mu.Lock()
	gpus, files := slices.Clone(a.gpus), a.files
	a.mu.Unlock()
	i := api.Inventory{
		Hostname: foreign.Line(n.Hostname, 253), Os: text(strings.TrimSpace(n.OS+" "+n.Kernel), 200), Cpu: text(n.CPU, 200),
		Cores: &n.Cores, MemoryBytes: &n.MemoryBytes, Version: text(a.o.Version.Assay, 100),
		Gpus: []api.GPU{}, Replicas: []api.Replica{}, DriverFiles: files,
	}
	var uuids []string
	for _, g := range gpus[:min(len(gpus), 64)] {
		i.Gpus = append(i.Gpus, inventoryGPU(g))
		uuids = append(uuids, foreign.Line(g.UUID, 100))
	}
	if kind, version, model := a.lookout.describe(); a.lookout.now().Up {
		r := api.Replica{Name: a.c.Engine.Name, Engine: kind, EngineVersion: &version, Model: model, Gpus: &uuids}
		if len(uuids) == 0 {
			r.Gpus = nil
		}
		if a.c.Engine.ServingURL != "" {
			r.ServingUrl = &a.c.Engine.ServingURL
		}
		i.Replicas = append(i.Replicas, r)
		a.mu.Lock()
		a.inventory = i
		a.mu.Unlock()
	} else {
		// An engine that is down for a moment is still the node's.
		a.mu.Lock()
		i.Replicas = append(i.Replicas, a.inventory.Replicas...)
		a.mu.Unlock()
	}
	b, err := json.Marshal(i)
	if err != nil {
		return i, "", fmt.Errorf("describe the node: %w", err)
	}
	sum := sha256.Sum256(b)
	return i, hex.EncodeToString(sum[:]), nil
}

func inventoryGPU(g assay.GPU) api.GPU {
	return api.GPU{
		Uuid: foreign.Line(g.UUID, 100), Name: foreign.Line(g.Name, 200), Serial: text(g.Serial, 100), Vbios: text(g.VBIOS, 100),
		PciBusId: text(g.PCIBusID, 100), Driver: text(g.Driver, 100), MemoryBytes: &g.MemoryBytes,
		Mig: text(g.MIG, 20), Vgpu: text(g.VGPU, 20),
	}
}

// text is a member that is left out when it is empty.
func text(s string, limit int) *string {
	if s = foreign.Line(s, limit); s == "" {
		return nil
	}
	return &s
}

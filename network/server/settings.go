package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/network/api"
	cards "github.com/assay-bench/assay/network/identity"
	"github.com/assay-bench/assay/network/store"
)

// GetSettings tells a node what the server wants it to measure. The agent holds
// them against its own limits.
func (s *Server) GetSettings(ctx context.Context, r api.GetSettingsRequestObject) (api.GetSettingsResponseObject, error) {
	n, err := s.store.Node(ctx, principalOf(ctx).scope(), r.Node)
	if err != nil {
		return nil, missing(err, "node")
	}
	var out api.Settings
	if err := json.Unmarshal(n.Settings, &out); err != nil {
		return nil, fmt.Errorf("the settings of node %s: %w", r.Node, err)
	}
	out.Version = n.SettingsVersion
	return api.GetSettings200JSONResponse(out), nil
}

// PutSettings sets them, if they are still those that were changed: the version is
// that which was read.
func (s *Server) PutSettings(ctx context.Context, r api.PutSettingsRequestObject) (api.PutSettingsResponseObject, error) {
	from := r.Body.Version
	body := *r.Body
	body.Version = 0 // the row has it
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	err = s.store.PutSettings(ctx, principalOf(ctx).scope(), r.Node, from, b, s.now(), s.trail(ctx, "node:"+r.Node))
	if err := trailed(ctx, err); err != nil {
		return nil, changedMeanwhile(err, "node's settings")
	}
	return api.PutSettings204Response{}, nil
}

// GetInventory shows what a node consists of, as it said last.
func (s *Server) GetInventory(ctx context.Context, r api.GetInventoryRequestObject) (api.GetInventoryResponseObject, error) {
	n, err := s.store.Node(ctx, principalOf(ctx).scope(), r.Node)
	if err != nil {
		return nil, missing(err, "node")
	}
	if n.InventorySHA256 == "" {
		return nil, notFound("inventory")
	}
	var out api.Inventory
	if err := json.Unmarshal(n.Inventory, &out); err != nil {
		return nil, fmt.Errorf("the inventory of node %s: %w", r.Node, err)
	}
	return api.GetInventory200JSONResponse(out), nil
}

// PutInventory stores what a node consists of; cards that changed keep their
// history. Its hash is that of the bytes that came, so that the agent knows it.
func (s *Server) PutInventory(ctx context.Context, r api.PutInventoryRequestObject) (api.PutInventoryResponseObject, error) {
	raw := requestOf(ctx).body
	now := s.now()
	in := store.Inventory{Node: r.Node, Body: raw, SHA256: store.Hash(raw), Hostname: foreign.Line(r.Body.Hostname, maxHostname), At: now}
	for _, g := range r.Body.Gpus {
		in.GPUs = append(in.GPUs, store.GPU{
			UUID: g.Uuid, Name: g.Name, Serial: deref(g.Serial), VBIOS: deref(g.Vbios), PCIBusID: deref(g.PciBusId), PCIDeviceID: deref(g.PciDeviceId),
			Driver: deref(g.Driver), MemoryBytes: deref(g.MemoryBytes), MIG: deref(g.Mig), VGPU: deref(g.Vgpu),
			Card: cards.UUID(g.Uuid), Board: cards.Serial(deref(g.Serial)),
		})
	}
	for _, p := range r.Body.Replicas {
		in.Replicas = append(in.Replicas, store.Replica{
			ID: newID(now), Facts: newcomer(), Name: p.Name, Engine: p.Engine, EngineVersion: deref(p.EngineVersion), Model: p.Model, ServingURL: deref(p.ServingUrl), GPUs: deref(p.Gpus),
		})
	}
	err := s.store.PutInventory(ctx, in)
	switch {
	case errors.Is(err, store.ErrFull):
		return nil, refuse(http.StatusConflict, "the node's cards, or the names of its replicas, have changed too often to be kept: retire the node, and enrol it again")
	case err != nil:
		return nil, err
	}
	if len(in.Replicas) > 0 {
		s.enrolled(ctx, r.Node) // of those that are new
	}
	return api.PutInventory204Response{}, nil
}

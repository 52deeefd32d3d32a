package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay/internal/database"
)

// GPU is a card as a node showed it, from when to when.
type GPU struct {
	Node        string
	UUID        string
	Name        string
	Serial      string
	VBIOS       string
	PCIBusID    string
	PCIDeviceID string
	Driver      string
	MemoryBytes int64
	MIG, VGPU   string
	// Card and Board are UUID and serial number in one spelling; empty: they tell no
	// card from others.
	Card, Board string
	FirstSeen   time.Time
	LastSeen    time.Time
	Gone        time.Time // when an inventory did not have it any more; zero: the last one has it
}

// same says whether nothing of a card has changed.
func (g GPU) same(o GPU) bool {
	g.FirstSeen, g.LastSeen, o.FirstSeen, o.LastSeen = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	g.Gone, o.Gone = time.Time{}, time.Time{}
	return g == o
}

// Replica is an engine on some GPUs at a serving URL, with its own facts.
type Replica struct {
	ID            string // a ULID, kept as long as node and name are
	Node          string
	Name          string // unique on its node
	Engine        string
	EngineVersion string
	Model         string
	ServingURL    string
	GPUs          []string // UUIDs
	Facts
	Created  time.Time
	LastSeen time.Time
	Removed  time.Time // zero: it is there
}

// Inventory is what a node consists of.
type Inventory struct {
	Node     string
	Hostname string
	Body     json.RawMessage // as the agent sent it
	SHA256   string          // of what heart-beats name
	GPUs     []GPU
	Replicas []Replica // ID and Facts count for those that are new
	At       time.Time
}

// maxGPURows bounds the history of a node's cards, and maxReplicaRows the names that
// its replicas ever had: no honest one comes near them.
const (
	maxGPURows     = 4096
	maxReplicaRows = 1024
)

// ErrFull means that there is no room for more of a node's history. Retire it, and
// enrol it again.
var ErrFull = errors.New("there is no room for more")

// PutInventory keeps what a node consists of. A card that changed, or came back,
// gets a new row and keeps the old one; replicas that are not named any more are
// marked as removed. [ErrFull]: its cards have changed too often, or its replicas'
// names.
func (s *Store) PutInventory(ctx context.Context, in Inventory) error {
	return s.repeat(ctx, "keep the inventory of node "+in.Node, func(q database.Query) error {
		if err := s.lockNode(ctx, q, in.Node); err != nil {
			return err
		}
		if _, err := q.ExecContext(ctx, "UPDATE nodes SET hostname = $2, inventory = $3, inventory_sha256 = $4, updated_at = $5 WHERE id = $1",
			in.Node, in.Hostname, raw(in.Body), in.SHA256, micros(in.At)); err != nil {
			return err
		}
		if err := s.endGPUs(ctx, q, in); err != nil {
			return err
		}
		for _, g := range in.GPUs {
			g.Node, g.FirstSeen, g.LastSeen = in.Node, in.At, in.At
			if err := putGPU(ctx, q, g); err != nil {
				return fmt.Errorf("GPU %s: %w", g.UUID, err)
			}
		}
		if _, err := q.ExecContext(ctx, "UPDATE replicas SET removed_at = $2 WHERE node = $1 AND removed_at IS NULL", in.Node, micros(in.At)); err != nil {
			return err
		}
		for _, r := range in.Replicas {
			r.Node, r.Created, r.LastSeen = in.Node, in.At, in.At
			if err := putReplica(ctx, q, r); err != nil {
				return fmt.Errorf("replica %s: %w", r.Name, err)
			}
		}
		var rows int
		if err := q.QueryRowContext(ctx, "SELECT count(*) FROM replicas WHERE node = $1", in.Node).Scan(&rows); err != nil {
			return err
		}
		if rows > maxReplicaRows {
			return fmt.Errorf("%w: its replicas have had %d names", ErrFull, rows)
		}
		return nil
	})
}

const gpuColumns = "g.node, g.uuid, g.first_seen, g.last_seen, g.name, g.serial, g.vbios, g.pci_bus_id, g.pci_device_id, g.driver, g.memory_bytes, g.mig, g.vgpu, g.card, g.board, g.gone_at FROM gpus g"

func scanGPU(r row) (g GPU, err error) {
	err = r.Scan(g.columns()...)
	return g, err
}

func (g *GPU) columns() []any {
	return []any{
		&g.Node, &g.UUID, at(&g.FirstSeen), at(&g.LastSeen), &g.Name, &g.Serial, &g.VBIOS, &g.PCIBusID, &g.PCIDeviceID, &g.Driver, &g.MemoryBytes,
		&g.MIG, &g.VGPU, &g.Card, &g.Board, at(&g.Gone),
	}
}

// endGPUs notes which cards an inventory does not have any more.
func (s *Store) endGPUs(ctx context.Context, q database.Query, in Inventory) error {
	var rows int
	if err := q.QueryRowContext(ctx, "SELECT count(*) FROM gpus WHERE node = $1", in.Node).Scan(&rows); err != nil {
		return err
	}
	if rows+len(in.GPUs) > maxGPURows {
		return fmt.Errorf("%w: its cards have changed too often", ErrFull)
	}
	uuids := []string{}
	for _, g := range in.GPUs {
		uuids = append(uuids, g.UUID)
	}
	_, err := q.ExecContext(ctx, "UPDATE gpus SET gone_at = $2 WHERE node = $1 AND gone_at IS NULL AND NOT ("+s.db.Any("uuid", 3)+")", in.Node, micros(in.At), s.db.List(uuids))
	return err
}

func putGPU(ctx context.Context, q database.Query, g GPU) error {
	last, err := all(ctx, q, scanGPU, "SELECT "+gpuColumns+" WHERE g.node = $1 AND g.uuid = $2 ORDER BY g.first_seen DESC LIMIT 1", g.Node, g.UUID)
	if err != nil {
		return err
	}
	if len(last) == 1 {
		l := last[0]
		if l.same(g) && l.Gone.IsZero() || !g.FirstSeen.After(l.FirstSeen) {
			_, err := q.ExecContext(ctx, "UPDATE gpus SET last_seen = $4, gone_at = NULL WHERE node = $1 AND uuid = $2 AND first_seen = $3", g.Node, g.UUID, micros(l.FirstSeen), micros(g.LastSeen))
			return err
		}
		if _, err := q.ExecContext(ctx, "UPDATE gpus SET gone_at = $3 WHERE node = $1 AND uuid = $2 AND gone_at IS NULL", g.Node, g.UUID, micros(g.FirstSeen)); err != nil {
			return err
		}
	}
	_, err = q.ExecContext(ctx, `INSERT INTO gpus (node, uuid, first_seen, last_seen, name, serial, vbios, pci_bus_id, pci_device_id, driver, memory_bytes, mig, vgpu, card, board)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
		g.Node, g.UUID, micros(g.FirstSeen), micros(g.LastSeen), g.Name, g.Serial, g.VBIOS, g.PCIBusID, g.PCIDeviceID, g.Driver, g.MemoryBytes, g.MIG, g.VGPU, g.Card, g.Board)
	return err
}

func putReplica(ctx context.Context, q database.Query, r Replica) error {
	_, err := q.ExecContext(ctx, `INSERT INTO replicas (id, node, name, engine, engine_version, model, serving_url, gpus, admission, intent, contact, version, policy_version, state, reasons, created_at, last_seen)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $16)
		ON CONFLICT (node, name) DO UPDATE SET engine = excluded.engine, engine_version = excluded.engine_version, model = excluded.model,
			serving_url = excluded.serving_url, gpus = excluded.gpus, last_seen = excluded.last_seen, removed_at = NULL`,
		r.ID, r.Node, r.Name, r.Engine, r.EngineVersion, r.Model, r.ServingURL, list(r.GPUs), r.Admission, r.Intent, r.Contact, r.Version, r.PolicyVersion, raw(r.State), list(r.Reasons), micros(r.Created))
	return err
}

// GPUs lists the rows of a node's cards, newest first: the history is those of the
// same UUID. A card is there now if its last row was seen with the last inventory.
func (s *Store) GPUs(ctx context.Context, scope Scope, node string) (gpus []GPU, err error) {
	return s.gpus(ctx, scope, "g.node", node)
}

// GPUHistory lists where a card was seen, newest first.
func (s *Store) GPUHistory(ctx context.Context, scope Scope, uuid string) (gpus []GPU, err error) {
	return s.gpus(ctx, scope, "g.uuid", uuid)
}

func (s *Store) gpus(ctx context.Context, scope Scope, column, value string) (gpus []GPU, err error) {
	a := args{value}
	query := "SELECT " + gpuColumns + " JOIN nodes n ON n.id = g.node WHERE " + column + " = $1 AND " + scope.where(s.db, "n.owner", &a) + " ORDER BY g.first_seen DESC, g.uuid LIMIT 1000"
	err = s.view(ctx, "list GPUs", func(q database.Query) error {
		gpus, err = all(ctx, q, scanGPU, query, a...)
		return err
	})
	return gpus, err
}

const replicaColumns = `r.id, r.node, r.name, r.engine, r.engine_version, r.model, r.serving_url, r.gpus, r.admission, r.intent, r.contact, r.version, r.policy_version, r.state, r.reasons,
	r.created_at, r.last_seen, r.removed_at FROM replicas r`

func scanReplica(r row) (v Replica, err error) {
	err = r.Scan(&v.ID, &v.Node, &v.Name, &v.Engine, &v.EngineVersion, &v.Model, &v.ServingURL, parsed(&v.GPUs), &v.Admission, &v.Intent, &v.Contact, &v.Version, &v.PolicyVersion, (*[]byte)(&v.State), parsed(&v.Reasons),
		at(&v.Created), at(&v.LastSeen), at(&v.Removed))
	return v, err
}

// Replicas lists the replicas that a node has, by name.
func (s *Store) Replicas(ctx context.Context, scope Scope, node string) (replicas []Replica, err error) {
	a := args{node}
	query := "SELECT " + replicaColumns + " JOIN nodes n ON n.id = r.node WHERE r.node = $1 AND r.removed_at IS NULL AND " + scope.where(s.db, "n.owner", &a) + " ORDER BY r.name"
	err = s.view(ctx, "list the replicas of node "+node, func(q database.Query) error {
		replicas, err = all(ctx, q, scanReplica, query, a...)
		return err
	})
	return replicas, err
}

package decide

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/network/identity"
	"github.com/assay-bench/assay/network/store"
)

// Bounds of what is looked at.
const (
	maxExamined   = 200
	maxColleagues = 100
	maxChallenges = 200
	// maxFound is how many findings of one kind a node has in tellEvery: who sends
	// another made-up card with each inventory pages nobody all night.
	maxFound = 50
)

// examineTurn looks at inventories that came since the last turn. It is also done
// before a report is judged: nobody is admitted by a server that was slow to look.
func (d *Decider) examineTurn(ctx context.Context, _ store.Lease) (bool, error) {
	nodes, err := d.store.Unexamined(ctx, maxExamined)
	if err != nil {
		return false, err
	}
	var errs []error
	for _, node := range nodes {
		if err := d.examine(ctx, node); err != nil {
			errs = append(errs, fmt.Errorf("look at the inventory of node %s: %w", node, err))
		}
	}
	return len(nodes) == maxExamined && len(errs) == 0, errors.Join(errs...)
}

// examine judges who a node is by its inventory, once for each.
func (d *Decider) examine(ctx context.Context, node string) error {
	n, err := d.store.Node(ctx, everybody, node)
	if err != nil {
		return err
	}
	done, err := d.store.Examination(ctx, node)
	if err != nil || done == n.InventorySHA256 {
		return err
	}
	rows, err := d.store.GPUs(ctx, everybody, node)
	if err != nil {
		return err
	}
	var history, now []identity.Card
	for _, r := range rows {
		c := cardOf(r)
		if history = append(history, c); c.Gone.IsZero() {
			now = append(now, c)
		}
	}
	found := identity.Changes(node, history)
	var in api.Inventory
	if json.Unmarshal(n.Inventory, &in) == nil && in.DriverFiles != nil { // else of a version that is not ours
		found = append(found, identity.DriverFiles(node, filesOf(*in.DriverFiles), now)...)
	}
	shared, err := d.claims(ctx, n, now)
	if err != nil {
		return err
	}
	colleagues, err := d.colleagues(ctx, n)
	if err != nil {
		return err
	}
	for _, f := range slices.Concat(found, shared, colleagues) {
		if err := d.find(ctx, f, "inventory "+n.InventorySHA256); err != nil {
			return err
		}
	}
	return d.store.Examined(ctx, node, n.InventorySHA256)
}

func cardOf(g store.GPU) identity.Card {
	return identity.Card{
		UUID: g.UUID, Serial: g.Serial, Name: g.Name, Driver: g.Driver, Bus: g.PCIBusID, MIG: g.MIG, VGPU: g.VGPU,
		MemoryBytes: g.MemoryBytes, First: g.FirstSeen, Gone: g.Gone,
	}
}

func filesOf(f api.DriverFiles) identity.Files {
	out := identity.Files{Container: f.Container, PCIListed: f.PciListed}
	if f.Mounts != nil {
		for _, m := range *f.Mounts {
			out.Mounts = append(out.Mounts, identity.Mount{Path: m.Path, Type: m.Type})
		}
	}
	if f.Devices != nil {
		for _, v := range *f.Devices {
			out.Devices = append(out.Devices, identity.Device{Path: v.Path, Major: v.Major, Minor: v.Minor})
		}
	}
	if f.Pci != nil {
		for _, p := range *f.Pci {
			out.PCI = append(out.PCI, identity.PCI{Bus: p.Bus, Vendor: p.Vendor, Device: p.Device})
		}
	}
	return out
}

// claims looks who else shows the cards of a node: those that it shows now.
func (d *Decider) claims(ctx context.Context, n store.Node, now []identity.Card) ([]identity.Finding, error) {
	var cards, boards []string
	for _, c := range now {
		if u := identity.UUID(c.UUID); u != "" {
			cards = append(cards, u)
		}
		if s := identity.Serial(c.Serial); s != "" {
			boards = append(boards, s)
		}
	}
	if len(cards) == 0 && len(boards) == 0 {
		return nil, nil
	}
	rows, err := d.store.Claims(ctx, cards, boards)
	if err != nil {
		return nil, err
	}
	var all []identity.Claim
	own := map[string]bool{}
	for _, r := range rows {
		c, err := claimOf(r.Node, cardOf(r.GPU), r.Facts)
		if err != nil {
			return nil, err
		}
		if r.Owner == n.Owner { // a claim is no way to read what was decided about others
			c.Why = strings.Join(r.Reasons, "; ")
		}
		if all = append(all, c); r.Node == n.ID && r.Gone.IsZero() {
			own[identity.UUID(r.UUID)] = true
		}
	}
	for _, c := range now { // of a run, whose node does not show it
		if u := identity.UUID(c.UUID); u != "" && !own[u] {
			claim, err := claimOf(n.ID, c, n.Facts)
			if err != nil {
				return nil, err
			}
			all = append(all, claim)
		}
	}
	return identity.Claims(n.ID, all), nil
}

func claimOf(node string, c identity.Card, f store.Facts) (identity.Claim, error) {
	var s control.Node
	if err := json.Unmarshal(f.State, &s); err != nil {
		return identity.Claim{}, fmt.Errorf("the state of node %s: %w", node, err)
	}
	out := identity.Claim{Node: node, Card: c, Member: s.Member, Retired: f.Intent == string(control.Retired)}
	for _, h := range s.Holds {
		if h.Cleared != nil {
			out.Settled = append(out.Settled, h.Subject)
		}
	}
	if s.Admission == control.Quarantined || s.Admission == control.Reverifying {
		if out.Out = s.Quarantine; out.Out == nil {
			out.Out = &control.Quarantine{At: s.AdmissionSince}
		}
	}
	return out, nil
}

// colleagues looks what else the owner of a newcomer has.
func (d *Decider) colleagues(ctx context.Context, n store.Node) ([]identity.Finding, error) {
	if n.Admission != string(control.Pending) && n.Admission != string(control.Verifying) {
		return nil, nil
	}
	rows, err := d.store.Nodes(ctx, everybody, store.NodeFilter{Owner: n.Owner, Admission: string(control.Quarantined)}, store.Page{Limit: maxColleagues})
	if err != nil {
		return nil, err
	}
	var others []identity.Colleague
	for _, r := range rows {
		c, err := claimOf(r.ID, identity.Card{}, r.Facts)
		if err != nil {
			return nil, err
		}
		if c.Out != nil {
			others = append(others, identity.Colleague{Node: r.ID, Cause: c.Out.Cause})
		}
	}
	return identity.Owner(n.ID, n.Owner, others), nil
}

// find has a finding decided by the policy, once for a node and a subject.
func (d *Decider) find(ctx context.Context, f identity.Finding, shown string, reports ...string) error {
	now := d.now()
	row := store.Finding{ID: d.newID(now), At: now, Node: f.Node, Check: f.Kind, Verdict: f.Verdict, Text: f.Text}
	if n, err := d.store.FoundSince(ctx, f.Node, f.Kind, now.Add(-tellEvery)); err != nil || n >= maxFound {
		return err
	}
	if f.Verdict != identity.Fail {
		return d.keepUnknown(ctx, row)
	}
	subject := f.Subject + " on node " + f.Node
	told, err := d.store.ToldSince(ctx, subject, f.Kind, "", now.Add(-tellEvery))
	if err != nil || told {
		return err
	}
	if reports == nil {
		reports = []string{}
	}
	body, err := json.Marshal(struct {
		Kind    string    `json:"kind"`
		Subject string    `json:"subject"`
		Since   time.Time `json:"since"`
		Reports []string  `json:"reports"`
		Text    string    `json:"text"`
	}{f.Kind, subject, now, reports, f.Text})
	if err != nil {
		return err
	}
	if err := d.store.AddFinding(ctx, row); err != nil {
		return err
	}
	_, err = d.Happen(ctx, Happening{
		Node: f.Node, Scope: everybody,
		Event:   control.Event{Kind: control.EventAnomaly, Anomaly: f.Kind, Subject: f.Subject, Reason: f.Text, Evidence: reports, Actor: byServer},
		Anomaly: &store.Anomaly{ID: d.newID(now), At: now, Node: f.Node, Kind: f.Kind, Subject: subject, Report: shown, Body: body},
	})
	if errors.Is(err, store.ErrTaken) {
		return nil // somebody was first
	}
	return err
}

// keepUnknown keeps what nothing follows from for people to see, unless it is what
// was found last.
func (d *Decider) keepUnknown(ctx context.Context, row store.Finding) error {
	last, err := d.store.Findings(ctx, everybody, row.Node, store.Page{Limit: 20})
	if err != nil || slices.ContainsFunc(last, func(o store.Finding) bool {
		return o.Check == row.Check && o.Verdict == row.Verdict && o.Text == row.Text
	}) {
		return err
	}
	return d.store.AddFinding(ctx, row)
}

// doubt judges what a run says of its node before the run counts: whether it is the
// answer to its command, whether it is better than its cards can be, and whether its
// cards are those of another node. It gives whether the run is fresh.
func (d *Decider) doubt(ctx context.Context, r store.Report, run reading) (assay.Verdict, error) {
	fresh, found, err := d.fresh(ctx, r, run)
	if err != nil {
		return fresh, err
	}
	found = append(found, identity.Physics(r.Node, run.manifest, run.summary, run.checks)...)
	n, err := d.store.Node(ctx, everybody, r.Node)
	if err != nil {
		return fresh, err
	}
	var cards []identity.Card
	for _, g := range run.manifest.Node.GPUs {
		cards = append(cards, identity.Card{
			UUID: foreign.Line(g.UUID, 100), Serial: foreign.Line(g.Serial, 100), Name: foreign.Line(g.Name, 200), Bus: foreign.Line(g.PCIBusID, 100),
			MIG: g.MIG, VGPU: g.VGPU, MemoryBytes: g.MemoryBytes, First: r.At,
		})
	}
	shared, err := d.claims(ctx, n, cards)
	if err != nil {
		return fresh, err
	}
	for _, f := range append(found, shared...) {
		if err := d.find(ctx, f, r.ID, r.ID); err != nil {
			return fresh, err
		}
	}
	return fresh, nil
}

// fresh judges whether a run answers its command.
func (d *Decider) fresh(ctx context.Context, r store.Report, run reading) (assay.Verdict, []identity.Finding, error) {
	own := identity.Use{Node: r.Node, Report: r.ID, RunSHA256: r.RunSHA256}
	first := own
	nonce := run.manifest.Nonce
	if ledger.CheckNonce(nonce) == nil {
		use, err := d.store.FirstUse(ctx, store.RunNonce{Nonce: nonce, Node: r.Node, Report: r.ID, RunSHA256: r.RunSHA256, At: d.now()})
		if err != nil {
			return assay.Unknown, nil, err
		}
		first = identity.Use{Node: use.Node, Report: use.Report, RunSHA256: use.RunSHA256}
	}
	commands, err := d.store.LastCommands(ctx, r.Node, maxChallenges)
	if err != nil {
		return assay.Unknown, nil, err
	}
	var asked *identity.Challenged
	var others []identity.Challenged
	for _, id := range commands {
		c := identity.Challenged{Command: id}
		c.Nonce, c.Seed = ledger.Challenge(id)
		if others = append(others, c); id == r.Command {
			asked = &c
		}
	}
	verdict, found := identity.Fresh(own, first, asked, others, nonce, run.checks)
	return verdict, found, nil
}

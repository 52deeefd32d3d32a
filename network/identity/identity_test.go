package identity

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/network/control"
	"github.com/assay-bench/assay/verify"
)

var (
	t0 = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	t1 = t0.Add(24 * time.Hour)
	t2 = t1.Add(24 * time.Hour)
)

func uuid(n int) string { return fmt.Sprintf("GPU-8f6a2c1e-0b3d-4c5e-9f70-%012x", n) }

func board(n int) string { return fmt.Sprintf("13245200%05d", n) }

// card is an ordinary one in slot n.
func card(n int) Card {
	return Card{
		UUID: uuid(n), Serial: board(n), Name: "NVIDIA A100-SXM4-80GB", Driver: "550.54", Bus: fmt.Sprintf("00000000:%02X:00.0", n+1), MIG: "disabled", VGPU: "none",
		MemoryBytes: 80 << 30, First: t0,
	}
}

func (c Card) with(f func(*Card)) Card { f(&c); return c }

func from(t time.Time) func(*Card) { return func(c *Card) { c.First = t } }

func until(t time.Time) func(*Card) { return func(c *Card) { c.Gone = t } }

// host is what the kernel shows of cards on a machine.
func host(cards ...Card) Files {
	f := Files{PCIListed: true, PCI: []PCI{{Bus: "0000:00:02.0", Vendor: "0x8086", Device: "0x3e92"}}}
	for i, c := range cards {
		f.PCI = append(f.PCI, PCI{Bus: bus(c.Bus), Vendor: "0x10de", Device: "0x20b2"})
		f.Devices = append(f.Devices, Device{Path: fmt.Sprintf("/dev/nvidia%d", i), Major: 195, Minor: i})
	}
	f.Devices = append(f.Devices, Device{Path: "/dev/nvidiactl", Major: 195, Minor: 255}, Device{Path: "/dev/nvidia-uvm", Major: 510, Minor: 0})
	return f
}

// container is a machine as NVIDIA's toolkit shows it to one.
func container(cards ...Card) Files {
	f := host(cards...)
	f.Container = true
	f.Mounts = []Mount{
		{"/proc/driver/nvidia", "tmpfs"}, {"/proc/driver/nvidia/gpus/0000:01:00.0", "proc"}, {"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.54", "ext4"},
		{"/dev/nvidia0", "devtmpfs"}, {"/dev/nvidiactl", "devtmpfs"},
	}
	return f
}

// node is all that is judged of one.
type node struct {
	name    string
	cards   []Card // its history
	files   *Files
	others  []Claim
	member  bool
	owner   []Colleague
	run     *run
	finding string // kind; empty: it is honest
	on      string // another node that has a finding too
	unknown bool   // something is unknown, and said
}

// run is a report.
type run struct {
	flops, read float64
	tpot        float64 // ms
	bytes       int64
	first       Use
	nonce       string
	seed        string
}

const self = "01SELF"

var asked, older = Challenged{Command: "C2", Nonce: "bb", Seed: 7}, Challenged{Command: "C1", Nonce: "aa", Seed: 5}

func (n node) judged() (out []Finding) {
	out = append(out, Changes(self, n.cards)...)
	var now []Card
	all := slices.Clone(n.others)
	for _, c := range n.cards {
		all = append(all, Claim{Node: self, Card: c, Member: n.member})
		if c.Gone.IsZero() {
			now = append(now, c)
		}
	}
	out = append(out, Claims(self, all)...)
	if n.files != nil {
		out = append(out, DriverFiles(self, *n.files, now)...)
	}
	out = append(out, Owner(self, "o", n.owner)...)
	if r := n.run; r != nil {
		m := assay.Manifest{Engine: assay.Engine{Model: "m", ModelBytes: r.bytes}}
		var checks []assay.Check
		for _, c := range now {
			m.Node.GPUs = append(m.Node.GPUs, assay.GPU{UUID: c.UUID, Name: c.Name})
			checks = append(checks,
				assay.Check{Name: "compute.speed", Device: c.UUID, Verdict: assay.Pass, Values: map[string]float64{"device_flops": r.flops}},
				assay.Check{Name: "memory.pattern", Device: c.UUID, Values: map[string]float64{"tested_bytes": 70 << 30}},
				assay.Check{Name: "memory.bandwidth", Device: c.UUID, Verdict: assay.Pass, Values: map[string]float64{"read_bytes_per_second": r.read}})
			if r.seed != "" {
				checks = append(checks, assay.Check{Name: "compute.challenge", Device: c.UUID, Facts: map[string]string{"seed": r.seed}})
			}
		}
		s := assay.Summary{}
		if r.tpot > 0 {
			s.Stages = []assay.StageSummary{{}}
			s.Stages[0].TPOT = assay.Dist{Percentiles: []assay.Percentile{{Level: 50, Value: r.tpot, Lo: r.tpot, Hi: r.tpot}}}
		}
		out = append(out, Physics(self, m, s, checks)...)
		own := Use{Node: self, Report: "R2", RunSHA256: "s2"}
		if r.first == (Use{}) {
			r.first = own
		}
		_, replayed := Fresh(own, r.first, &asked, []Challenged{asked, older}, r.nonce, checks)
		out = append(out, replayed...)
	}
	return out
}

func other(name string, c Card, change ...func(*Claim)) Claim {
	out := Claim{Node: name, Card: c}
	for _, f := range change {
		f(&out)
	}
	return out
}

func admitted(c *Claim) { c.Member = true }
func retired(c *Claim)  { c.Retired = true }
func settled(c *Claim)  { c.Settled = []string{card(0).subject()} }

func quarantined(at time.Time) func(*Claim) {
	return func(c *Claim) {
		c.Out = &control.Quarantine{Cause: control.CauseSoft, At: at}
	}
}

func files(f Files, change ...func(*Files)) *Files {
	for _, c := range change {
		c(&f)
	}
	return &f
}

// cheats has one node for each thing that can be found.
func cheats() []node {
	fake := card(0).with(func(c *Card) { c.Name = "NVIDIA GeForce RTX 4090"; c.Serial = "" })
	return []node{
		{name: "shows the card of an admitted node", cards: []Card{card(0).with(from(t1))}, others: []Claim{other("A", card(0), admitted)}, finding: control.FindShared, on: "A"},
		{name: "spells its UUID otherwise", cards: []Card{card(0).with(func(c *Card) { c.UUID = strings.ToUpper(uuid(0)); c.Serial = ""; c.First = t1 })}, others: []Claim{other("A", card(0), admitted)}, finding: control.FindShared, on: "A"},
		{name: "showed it before the admitted one did", cards: []Card{card(0)}, others: []Claim{other("A", card(0).with(from(t1)), admitted)}, finding: control.FindShared, on: "A"},
		{name: "was admitted too, and showed it later", cards: []Card{card(0).with(from(t1))}, member: true, others: []Claim{other("A", card(0), admitted)}, finding: control.FindShared, on: "A"},
		{name: "makes up a UUID for a board of another", cards: []Card{card(0).with(func(c *Card) { c.UUID = uuid(77); c.First = t1 })}, others: []Claim{other("A", card(0), admitted)}, finding: control.FindShared, on: "A"},
		{name: "shows its card again after it was sold", cards: []Card{card(0).with(until(t1)), card(0).with(from(t2))}, member: true, others: []Claim{other("A", card(0).with(from(t1)), admitted)}, finding: control.FindShared, on: "A"},
		{name: "shows a card again that a person said is another's", cards: []Card{card(0).with(until(t2)), card(0).with(from(t2.Add(time.Hour)))}, member: true, others: []Claim{other("A", card(0).with(from(t1)), admitted, settled)}, finding: control.FindShared, on: "A"},
		{name: "claims a card and waits until its node is without it", cards: []Card{card(0).with(from(t1))}, member: true, others: []Claim{other("A", card(0).with(until(t2)), admitted), other("A", card(0).with(from(t2.Add(time.Hour))), admitted)}, finding: control.FindShared, on: "A"},
		{name: "enrols again with a quarantined card", cards: []Card{card(0).with(from(t2))}, others: []Claim{other("A", card(0), admitted, quarantined(t1))}, finding: control.FindTainted},
		{name: "retires first", cards: []Card{card(0).with(from(t2))}, others: []Claim{other("A", card(0), admitted, quarantined(t1), retired)}, finding: control.FindTainted},
		{name: "takes the card out after the quarantine", cards: []Card{card(0).with(from(t2))}, others: []Claim{other("A", card(0).with(until(t2)), admitted, quarantined(t1))}, finding: control.FindTainted},
		{name: "is of an owner with fakes", cards: []Card{card(0)}, owner: []Colleague{{"A", control.CausePerson}}, finding: control.FindOwner},
		{name: "has another card in the slot", cards: []Card{card(0).with(until(t1)), card(1).with(func(c *Card) { c.Bus = card(0).Bus; c.First = t1 })}, finding: control.FindChanged},
		{name: "has a new UUID every day", cards: []Card{
			card(0).with(until(t1)), card(1).with(func(c *Card) { c.Bus, c.First, c.Gone = card(0).Bus, t1, t2 }),
			card(2).with(func(c *Card) { c.Bus, c.First, c.Gone = card(0).Bus, t2, t2.Add(time.Hour) }), card(3).with(func(c *Card) { c.Bus, c.First = card(0).Bus, t2.Add(time.Hour) }),
		}, finding: control.FindAltered},
		{name: "has swapped the UUIDs of two boards", cards: []Card{
			card(0).with(until(t1)), card(1).with(until(t1)),
			card(0).with(func(c *Card) { c.Serial = board(1); c.First = t1 }), card(1).with(func(c *Card) { c.Serial = board(0); c.First = t1 }),
		}, finding: control.FindAltered},
		{name: "has a new UUID on the same board", cards: []Card{card(0).with(until(t1)), card(0).with(func(c *Card) { c.UUID = uuid(9); c.First = t1 })}, finding: control.FindAltered},
		{name: "renames its card", cards: []Card{card(0).with(until(t1)), card(0).with(func(c *Card) { c.Name = "NVIDIA H100 80GB HBM3"; c.First = t1 })}, finding: control.FindAltered},
		{name: "grows its memory", cards: []Card{card(0).with(func(c *Card) { c.MemoryBytes = 40 << 30; c.Gone = t1 }), card(0).with(from(t1))}, finding: control.FindAltered},
		{name: "mounts over the driver", cards: []Card{card(0)}, files: files(host(card(0)), func(f *Files) { f.Mounts = []Mount{{"/proc/driver/nvidia", "tmpfs"}} }), finding: control.FindMounted},
		{name: "mounts a library of its own", cards: []Card{card(0)}, files: files(host(card(0)), func(f *Files) { f.Mounts = []Mount{{"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "ext4"}} }), finding: control.FindMounted},
		{name: "mocks NVML without a card", cards: []Card{card(0)}, files: files(host()), finding: control.FindMismatch},
		{name: "mocks NVML on another's card", cards: []Card{card(0)}, files: files(host(card(0)), func(f *Files) { f.PCI[1].Vendor = "0x1002" }), finding: control.FindMismatch},
		{name: "sells a 3090 as a 4090", cards: []Card{fake}, files: files(host(fake), func(f *Files) { f.PCI[1].Device = "0x2204" }), finding: control.FindMismatch},
		{name: "has a device node of its own", cards: []Card{card(0)}, files: files(host(card(0)), func(f *Files) { f.Devices[0].Major = 240 }), finding: control.FindMismatch},
		{name: "has a file for a device", cards: []Card{card(0)}, files: files(host(card(0)), func(f *Files) { f.Devices[0].Major, f.Devices[0].Minor = -1, -1 }), finding: control.FindMismatch},
		{name: "computes faster than its card", cards: []Card{card(0)}, run: &run{flops: 60e12}, finding: control.FindPhysics},
		{name: "reads faster than its card", cards: []Card{card(0)}, run: &run{read: 5e12}, finding: control.FindPhysics},
		{name: "answers faster than any model", cards: []Card{card(0)}, run: &run{tpot: 0.05, bytes: 140e9}, finding: control.FindPhysics},
		{name: "sends an old run with another time", cards: []Card{card(0)}, run: &run{nonce: "cc", first: Use{self, "R1", "s1"}}, finding: control.FindReplayed},
		{name: "sends another node's run", cards: []Card{card(0)}, run: &run{nonce: "cc", first: Use{"A", "R1", "s2"}}, finding: control.FindReplayed},
		{name: "answers the question of yesterday", cards: []Card{card(0)}, run: &run{nonce: older.Nonce}, finding: control.FindReplayed},
		{name: "computed the product of yesterday", cards: []Card{card(0)}, run: &run{nonce: asked.Nonce, seed: "0x5"}, finding: control.FindReplayed},
	}
}

// Each cheating node is found, with its finding and no other.
func TestEachCheatIsFound(t *testing.T) {
	for _, n := range cheats() {
		t.Run(n.name, func(t *testing.T) {
			var kinds []string
			claimed := ""
			for _, f := range n.judged() {
				if f.Text == "" || f.Subject == "" {
					t.Errorf("%+v says nothing", f)
				}
				switch {
				case f.Kind == control.FindClaimed:
					claimed = f.Node
				case f.Verdict == Fail && f.Node == self && !slices.Contains(kinds, f.Kind):
					kinds = append(kinds, f.Kind)
				}
			}
			if !slices.Equal(kinds, []string{n.finding}) || claimed != n.on {
				t.Errorf("found %v, and %q is claimed from; want %s and %q", kinds, claimed, n.finding, n.on)
			}
		})
	}
}

// honest are nodes that have done nothing, many of which look like one that has.
func honest() []node {
	mig := func(c *Card) { c.MIG = "enabled" }
	geforce := card(0).with(func(c *Card) { c.Name, c.Serial, c.MemoryBytes = "NVIDIA GeForce RTX 4090", "0", 24<<30 })
	a16 := card(0).with(func(c *Card) { c.Name = "NVIDIA A16" })
	eight := []Card{}
	for i := range 8 {
		eight = append(eight, card(i))
	}
	noise := func(f *Files) {
		f.Mounts = []Mount{{"/", "ext4"}, {"/dev", "devtmpfs"}, {"/usr/lib/wsl/lib", "9p"}, {"/home/u/libnvidia-ml.so.d", "ext4"}}
	}
	blind := Files{Container: true} // nothing of /proc and /sys could be read
	out := []node{
		{name: "no card"},
		{name: "no card, and files", files: files(Files{PCIListed: true})},
		{name: "one card", cards: []Card{card(0)}, files: files(host(card(0)))},
		{name: "one card in a container of the toolkit", cards: []Card{card(0)}, files: files(container(card(0))), unknown: true},
		{name: "a container that sees no bus", cards: []Card{card(0)}, files: files(container(), func(f *Files) { f.Mounts = nil }), unknown: true},
		{name: "a container whose /sys is hidden", cards: []Card{card(0)}, files: files(container(card(0)), func(f *Files) { f.PCI, f.PCIListed = nil, false }), unknown: true},
		{name: "unreadable /proc", cards: []Card{card(0)}, files: &blind},
		{name: "an agent of before", cards: []Card{card(0)}},
		{name: "eight cards", cards: eight, files: files(host(eight...))},
		{name: "other mounts", cards: []Card{card(0)}, files: files(host(card(0)), noise)},
		{name: "MIG, two nodes on one card", cards: []Card{card(0).with(mig).with(from(t1))}, others: []Claim{other("A", card(0).with(mig), admitted)}},
		{name: "MIG in a container", cards: []Card{card(0).with(mig)}, files: files(container(card(0))), unknown: true},
		{name: "MIG that was switched on", cards: []Card{card(0).with(until(t1)), card(0).with(func(c *Card) { mig(c); c.First, c.MemoryBytes = t1, 10<<30 })}},
		{name: "a part of a card as a card", cards: []Card{card(0).with(func(c *Card) { c.UUID, c.Serial = "MIG-8f6a2c1e-0b3d-4c5e-9f70-000000000001", "" })}, others: []Claim{other("A", card(0).with(func(c *Card) { c.UUID = "MIG-8f6a2c1e-0b3d-4c5e-9f70-000000000001" }), admitted)}},
		{name: "vGPU on a shared card", cards: []Card{card(0).with(func(c *Card) { c.VGPU = "vgpu"; c.First = t1 })}, others: []Claim{other("A", card(0).with(func(c *Card) { c.VGPU = "vgpu" }), admitted)}},
		{name: "no serial number, as the neighbour", cards: []Card{geforce}, others: []Claim{other("A", card(1).with(func(c *Card) { c.Serial = "0" }), admitted)}},
		{name: "a serial number of zeros, as the neighbour", cards: []Card{geforce.with(func(c *Card) { c.Serial = "0000000000000" })}, others: []Claim{other("A", card(1).with(func(c *Card) { c.Serial = "0000000000000" }), admitted)}},
		{name: "a quarter of an A16's board", cards: []Card{a16}, others: []Claim{other("A", card(1).with(func(c *Card) { c.Name, c.Serial = "NVIDIA A16", board(0) }), admitted)}},
		{name: "AMD by its bus id", cards: []Card{card(0).with(func(c *Card) { c.UUID, c.Serial, c.Name = "PCI-0000:03:00.0", "", "AMD Instinct MI300X" })}, others: []Claim{other("A", card(0).with(func(c *Card) { c.UUID, c.Serial = "PCI-0000:03:00.0", "" }), admitted)}, files: files(host())},
		{name: "the first of two", cards: []Card{card(0)}, member: true, others: []Claim{other("B", card(0).with(from(t1)))}},
		{name: "the first, and the second is quarantined", cards: []Card{card(0)}, member: true, others: []Claim{other("B", card(0).with(from(t1)), quarantined(t2))}},
		{name: "the first, and its inventory was without the card for an hour", cards: []Card{card(0).with(until(t2)), card(0).with(from(t2.Add(time.Hour)))}, member: true, others: []Claim{other("B", card(0).with(from(t1)), admitted)}},
		{name: "the same, and who claimed it meanwhile is quarantined for that", cards: []Card{card(0).with(until(t2)), card(0).with(from(t2.Add(time.Hour)))}, member: true, others: []Claim{other("B", card(0).with(from(t1)), admitted, quarantined(t1))}},
		{name: "a card that came from a node without it", cards: []Card{card(0).with(from(t1))}, others: []Claim{other("A", card(0).with(until(t1)), admitted)}},
		{name: "a card that came from a retired node", cards: []Card{card(0).with(from(t1))}, others: []Claim{other("A", card(0), admitted, retired)}},
		{name: "a card that left long before the quarantine", cards: []Card{card(0).with(from(t0.Add(time.Hour)))}, others: []Claim{other("A", card(0).with(until(t0.Add(time.Hour))), admitted, quarantined(t2))}},
		{name: "a second card that was put in", cards: []Card{card(0), card(1).with(from(t1))}, files: files(host(card(0), card(1)))},
		{name: "a card that fell off", cards: []Card{card(0), card(1).with(until(t1))}},
		{name: "a card that fell off and came back", cards: []Card{card(0), card(1).with(until(t1)), card(1).with(from(t2))}},
		{name: "cards that changed slots", cards: []Card{
			card(0).with(until(t1)), card(1).with(until(t1)),
			card(0).with(func(c *Card) { c.Bus, c.First = card(1).Bus, t1 }), card(1).with(func(c *Card) { c.Bus, c.First = card(0).Bus, t1 }),
		}},
		{name: "another driver, which renames", cards: []Card{card(0).with(func(c *Card) { c.Name = "A100-SXM4-80GB"; c.Gone = t1 }), card(0).with(func(c *Card) { c.Driver = "570.1"; c.First = t1 })}},
		{name: "another driver", cards: []Card{card(0).with(until(t1)), card(0).with(func(c *Card) { c.Driver = "570.1"; c.First = t1 })}, others: []Claim{other("B", card(0).with(from(t2)))}},
		{name: "ECC that was switched on", cards: []Card{card(0).with(func(c *Card) { c.MemoryBytes = 24 << 30; c.Gone = t1 }), card(0).with(func(c *Card) { c.MemoryBytes = 225 << 27; c.First = t1 })}},
		{name: "a driver that lost the serial number", cards: []Card{card(0).with(until(t1)), card(0).with(func(c *Card) { c.Serial, c.First = "", t1 })}},
		{name: "a card that nobody knows", cards: []Card{card(0).with(func(c *Card) { c.Name = "NVIDIA Something 9000" })}, files: files(host(card(0)), func(f *Files) { f.PCI[1].Device = "0x4444" })},
		{name: "a known name on a later chip", cards: []Card{card(0)}, files: files(host(card(0)), func(f *Files) { f.PCI[1].Device = "0x4444" })},
		{name: "an id that cannot be read", cards: []Card{card(0)}, files: files(host(card(0)), func(f *Files) { f.PCI[1].Device = "" })},
		{name: "a 4090", cards: []Card{geforce}, files: files(host(geforce), func(f *Files) { f.PCI[1].Device = "0x2684" })},
		{name: "a domain of its own", cards: []Card{card(0).with(func(c *Card) { c.Bus = "00000001:00:00.0" })}, files: files(host(), func(f *Files) { f.PCI = append(f.PCI, PCI{"0001:00:00.0", "0x10de", "0x20b2"}) })},
		{name: "an owner with a slow node", cards: []Card{card(0)}, owner: []Colleague{{"A", control.CauseSoft}}},
		{name: "itself quarantined", cards: []Card{card(0)}, owner: []Colleague{{self, control.CausePerson}}},
		{name: "slow", cards: []Card{card(0)}, run: &run{flops: 1e11, read: 1e10, tpot: 900, bytes: 140e9}},
		{name: "overclocked", cards: []Card{card(0)}, run: &run{flops: 1.2 * 19.5e12, read: 1.1 * 2.039e12}},
		{name: "a mixture of experts", cards: []Card{card(0)}, run: &run{tpot: 3, bytes: 60e9}},
		{name: "speculative decoding", cards: []Card{card(0)}, run: &run{tpot: 2, bytes: 16e9}},
		{name: "a model that does not say its size", cards: []Card{card(0)}, run: &run{tpot: 0.01}},
		{name: "figures that are none", cards: []Card{card(0)}, run: &run{flops: -1, read: -5}},
		{name: "an answer", cards: []Card{card(0)}, run: &run{nonce: asked.Nonce, seed: "0x7"}},
		{name: "an agent of before, with a random nonce", cards: []Card{card(0)}, run: &run{nonce: "dd", seed: "0x99"}},
		{name: "a run without a nonce", cards: []Card{card(0)}, run: &run{}},
		{name: "the same run delivered twice", cards: []Card{card(0)}, run: &run{nonce: "ee", first: Use{self, "R1", "s2"}}},
		{name: "garbage", cards: []Card{{UUID: "\x00", Bus: "::::", Name: "\xff"}}, files: &Files{Devices: []Device{{"/dev/nvidia", 1, 1}, {"/dev/nvidia99999", 1, 1}}, PCI: []PCI{{}}, PCIListed: true}},
		{name: "passthrough to a virtual machine", cards: []Card{card(0).with(func(c *Card) { c.VGPU = "passthrough" })}, files: files(host(card(0)))},
	}
	return out
}

// Fifty honest nodes, and none is accused.
func TestNobodyHonestIsAccused(t *testing.T) {
	all := honest()
	if len(all) < 50 {
		t.Fatalf("there are %d", len(all))
	}
	for _, n := range all {
		t.Run(n.name, func(t *testing.T) {
			said := false
			for _, f := range n.judged() {
				if f.Verdict != Unknown {
					t.Errorf("accused: %+v", f)
				}
				said = true
			}
			if said != n.unknown {
				t.Errorf("something is unknown: %v", said)
			}
		})
	}
}

// Every card of NVIDIA's in the catalogue has a generation, so that its device id
// says something.
func TestEveryCardHasAGeneration(t *testing.T) {
	catalogue, err := verify.ShippedCatalog()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range catalogue {
		if got := generationOf(m.Name); (got != nil) != (m.Vendor == "nvidia") {
			t.Errorf("%s has the device ids %v", m.Name, got)
		}
	}
	for name, id := range map[string]string{"NVIDIA H100 80GB HBM3": "2330", "NVIDIA A10": "2236", "NVIDIA L4": "27b8", "Tesla T4": "1eb8", "NVIDIA B200": "2901", "NVIDIA GeForce RTX 5090": "2b85", "NVIDIA A2": "25b6", "Tesla V100-SXM2-16GB": "1db1"} {
		if !slices.Contains(generationOf(name), id[:2]) {
			t.Errorf("%s is not of %s", name, id)
		}
	}
}

// A verdict on freshness passes only with both halves of the challenge.
func TestFreshNeedsNonceAndSeed(t *testing.T) {
	own := Use{self, "R", "s"}
	check := func(seed string) []assay.Check {
		return []assay.Check{{Name: "compute.challenge", Facts: map[string]string{"seed": seed}}}
	}
	for _, c := range []struct {
		name   string
		asked  *Challenged
		nonce  string
		checks []assay.Check
		want   assay.Verdict
	}{
		{"both", &asked, asked.Nonce, check("0x7"), assay.Pass},
		{"no card", &asked, asked.Nonce, nil, assay.Pass},
		{"another seed", &asked, asked.Nonce, check("0x8"), assay.Unknown},
		{"another nonce", &asked, "x", check("0x7"), assay.Unknown},
		{"nobody asked", nil, "x", nil, assay.Unknown},
	} {
		if got, f := Fresh(own, own, c.asked, []Challenged{asked}, c.nonce, c.checks); got != c.want || f != nil {
			t.Errorf("%s: %v %v", c.name, got, f)
		}
	}
}

// What a person has decided on cannot be brought up again by another spelling: a finding
// is about the same subject, whoever spells the card how.
func TestOneSpelling(t *testing.T) {
	subjects := map[string]bool{}
	for _, spelling := range []string{uuid(0), strings.ToUpper(uuid(0)), strings.ReplaceAll(strings.TrimPrefix(uuid(0), "GPU-"), "-", ""), " " + strings.TrimPrefix(uuid(0), "GPU-")} {
		others := []Claim{other("A", card(0).with(func(c *Card) { c.UUID = spelling }), admitted)}
		for _, f := range (node{cards: []Card{card(0).with(from(t1))}, others: others}).judged() {
			subjects[f.Subject] = true
		}
	}
	if len(subjects) != 1 || !subjects["gpu "+uuid(0)] {
		t.Errorf("subjects %v", subjects)
	}
}

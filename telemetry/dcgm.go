package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay"
)

// DCGMOptions say which exporter to ask.
type DCGMOptions struct {
	// URL of its page, for example http://localhost:9400/metrics.
	URL string
	// Timeout of one look; 0: 2 s.
	Timeout time.Duration
}

// DCGM reads a dcgm-exporter that already runs on the node. The exporter
// refreshes its page every 30 s unless told otherwise and does not say when it
// last did: a reading may be that old, and nothing here can tell.
type DCGM struct {
	page   *page
	filter *filter
	alias  map[string]assay.ReadingName
	gpus   map[string]assay.GPU
	xid    map[string]float64 // the last that the page showed
}

// NewDCGM looks at the page once, to learn which GPUs there are.
func NewDCGM(ctx context.Context, o DCGMOptions) (*DCGM, error) {
	p, err := newPage(o.URL, nil, o.Timeout, nil)
	if err != nil {
		return nil, fmt.Errorf("dcgm-exporter: %w", err)
	}
	d := &DCGM{page: p, filter: newFilter(), alias: map[string]assay.ReadingName{}, gpus: map[string]assay.GPU{}, xid: map[string]float64{}}
	for _, n := range assay.ReadingNames() {
		if n.DCGM != "" {
			d.alias[n.DCGM] = n
		}
	}
	_, err = p.read(ctx, d.wanted, func(s sample) {
		d.describe(s)
		if s.name == dcgmXID {
			d.xid[s.label("UUID")] = s.value // what was there before is not news
		}
	})
	if len(d.gpus) == 0 {
		return nil, errors.Join(fmt.Errorf("dcgm-exporter at %s: %w", o.URL, ErrNoCards), err, p.close())
	}
	p.next = time.Time{} // the first Read may look at once
	return d, nil
}

const dcgmXID = "DCGM_FI_DEV_XID_ERRORS"

// The bit mask of clock reasons has had two names.
func dcgmReasons(name string) bool {
	return name == "DCGM_FI_DEV_CLOCKS_EVENT_REASONS" || name == "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"
}

func (d *DCGM) wanted(name string) bool {
	_, ok := d.alias[name]
	return ok || dcgmReasons(name)
}

func (d *DCGM) describe(s sample) {
	id := word(s.label("UUID"))
	if _, known := d.gpus[id]; known || id == "" || len(d.gpus) == maxGPUs {
		return
	}
	index, err := strconv.Atoi(s.label("gpu"))
	if err != nil || index < 0 {
		return
	}
	d.gpus[id] = assay.GPU{
		UUID: id, Name: word(s.label("modelName")), Index: index, Source: "dcgm",
		PCIBusID: word(s.label("pci_bus_id")), Driver: word(s.label("DCGM_FI_DRIVER_VERSION")),
	}
}

// GPUs are the cards that the page named at the start.
func (d *DCGM) GPUs() []assay.GPU {
	var out []assay.GPU
	for _, g := range d.gpus {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b assay.GPU) int { return cmp.Compare(a.Index, b.Index) })
	return out
}

// Name is "dcgm".
func (d *DCGM) Name() string { return "dcgm" }

// Close ends the source.
func (d *DCGM) Close() error { return d.page.close() }

// Read looks at the page, at most once a second.
func (d *DCGM) Read(ctx context.Context, emit func(assay.Reading)) error {
	type key struct{ name, device string }
	sum := map[key]float64{}
	var order []key
	_, err := d.page.read(ctx, d.wanted, func(s sample) {
		device := s.label("UUID")
		if _, known := d.gpus[device]; !known || blank(s.value) {
			return
		}
		if dcgmReasons(s.name) {
			if v := s.value; v >= 0 && v < 1<<32 {
				d.filter.reasons(emit, device, uint64(v), ^uint64(0))
			}
			return
		}
		n := d.alias[s.name]
		k, v := key{n.Name, device}, s.value/n.DCGMFactor
		if _, again := sum[k]; !again {
			order, sum[k] = append(order, k), v
		} else if instance := s.label("GPU_I_ID"); instance != "" && strings.HasSuffix(n.Name, "_bytes") {
			sum[k] += v // an instance has its own share of the memory
		}
	})
	for _, k := range order {
		v := sum[k]
		if k.name == assay.GPUXID {
			// The page shows the last one for ever. A reading is one that
			// occurred.
			if before := d.xid[k.device]; v == before || v == 0 {
				d.xid[k.device] = v
				continue
			}
			d.xid[k.device] = v
		}
		d.filter.emit(emit, k.name, k.device, v)
	}
	return err
}

// blank says whether a value is one of DCGM's numbers for "there is none".
func blank(v float64) bool {
	const i32, i64, f64 = 0x7ffffff0, 0x7ffffffffffffff0, 140737488355328
	return v >= i32 && v <= i32+15 || v >= i64 || v >= f64 && v <= f64+15
}

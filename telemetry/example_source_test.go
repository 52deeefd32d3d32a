package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// example begins here
// xe reads Intel cards from the files of their kernel driver.
type xe struct {
	guard  guard
	filter *filter
	cards  []xeCard
}

type xeCard struct {
	gpu        assay.GPU
	dir, hwmon string
}

// newXe looks which cards there are. Without any it is ErrNoCards.
func newXe(sys string, deadline time.Duration) (*xe, error) {
	x := &xe{guard: guard{what: "the xe driver", deadline: deadline}, filter: newFilter()}
	dirs, err := filepath.Glob(sys + "/class/drm/card[0-9]*/device")
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		event := fileText(dir + "/uevent")
		mons, _ := filepath.Glob(dir + "/hwmon/hwmon[0-9]*")
		if keyed(event, "DRIVER") != "xe" || len(mons) == 0 || len(x.cards) == maxGPUs {
			continue
		}
		bus := keyed(event, "PCI_SLOT_NAME")
		x.cards = append(x.cards, xeCard{dir: dir, hwmon: mons[0], gpu: assay.GPU{
			Index: len(x.cards), Source: "xe", UUID: "PCI-" + bus, PCIBusID: bus,
			Name: "Intel " + strings.TrimPrefix(word(fileText(dir+"/device")), "0x"),
		}})
	}
	if len(x.cards) == 0 {
		return nil, fmt.Errorf("xe: %w", ErrNoCards)
	}
	return x, nil
}

func (x *xe) Name() string { return "xe" }

func (x *xe) Close() error {
	x.guard.closed.Store(true)
	return nil
}

// Read gives what each card's files say, unless the kernel hangs over one.
func (x *xe) Read(ctx context.Context, emit func(assay.Reading)) error {
	return x.guard.read(ctx, func(emit func(assay.Reading)) error {
		for _, c := range x.cards {
			c.read(x.filter, emit)
		}
		return nil
	}, emit)
}

func (c xeCard) read(f *filter, emit func(assay.Reading)) {
	id := c.gpu.UUID
	if _, err := os.Stat(c.dir); errors.Is(err, fs.ErrNotExist) {
		f.emitChange(emit, assay.GPULost, id, 1)
		return
	}
	f.emitChange(emit, assay.GPULost, id, 0)
	// A file that is not there, or has no number in it, is a reading that is
	// absent; one that no card can have is dropped by the filter.
	if v, ok := fileNumber(c.hwmon + "/energy1_input"); ok { // microjoules
		f.emit(emit, assay.GPUEnergy, id, v*1e-6)
	}
	if v, ok := fileNumber(c.hwmon + "/temp2_input"); ok { // millidegrees
		f.emit(emit, assay.GPUTemperature, id, v*1e-3)
	}
	if v, ok := fileNumber(c.dir + "/tile0/gt0/freq0/act_freq"); ok { // MHz
		f.emit(emit, assay.GPUSMClock, id, v*1e6)
	}
	if v, ok := fileNumber(c.hwmon + "/power1_max"); ok { // microwatts
		f.emitEvery(emit, assay.GPUPowerLimit, id, v*1e-6)
	}
}

// example ends here

func xeOf(change func(*testing.T, string)) makeSource {
	return func(t *testing.T, deadline time.Duration) Source {
		root := tree(t, "testdata/xe/b580.txtar")
		x, err := newXe(root, deadline)
		if change != nil {
			change(t, root)
		}
		return must(x, err)(t)
	}
}

// The page that says how to add a source shows the code that is compiled and
// tested here.
func TestPageOfAddingASource(t *testing.T) {
	text := func(file, from, to string) string {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, ok1 := strings.Cut(string(b), from)
		text, _, ok2 := strings.Cut(rest, to)
		if !ok1 || !ok2 {
			t.Fatalf("%s has nothing between %q and %q", file, from, to)
		}
		return strings.TrimSpace(text)
	}
	page := text("../docs/adding-a-gpu-source.md", "```go\n", "```\n")
	if example := text("example_source_test.go", "// example begins here\n", "// example ends here\n"); page != example {
		t.Error("docs/adding-a-gpu-source.md shows other code than example_source_test.go: copy it")
	}
}

func TestXe(t *testing.T) {
	s := xeOf(nil)(t, patience)
	got := map[string]float64{}
	if err := s.Read(t.Context(), func(r assay.Reading) { got[r.Name+" "+r.Device] = *r.Value }); err != nil {
		t.Fatal(err)
	}
	const id = " PCI-0000:03:00.0"
	for name, want := range map[string]float64{assay.GPULost: 0, assay.GPUEnergy: 83217.5, assay.GPUTemperature: 61, assay.GPUSMClock: 2850e6, assay.GPUPowerLimit: 190} {
		if v, ok := got[name+id]; !ok || v < want*(1-1e-9) || v > want*(1+1e-9) {
			t.Errorf("%s is %v (%v), want %v", name, v, ok, want)
		}
	}
	if len(got) != 5 {
		t.Errorf("got %v", got)
	}
	if _, err := newXe(t.TempDir(), patience); !errors.Is(err, ErrNoCards) {
		t.Errorf("error %v of a machine without cards", err)
	}
}

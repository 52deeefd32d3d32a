package haproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/internal/foreign"
)

// slotsFormat names the format of the file that says who has which slot.
const slotsFormat = "assay/haproxy-slots/v1"

const maxSlotsFile = 16 << 20

// slotsFile is which replica has which slot, for a keeper that starts while the
// server is away.
type slotsFile struct {
	Format  string             `json:"format"`
	Backend string             `json:"backend"`
	Slots   map[string]replica `json:"slots"`
}

func (k *Keeper) slotsPath() string { return k.o.StateFile + ".slots" }

// load reads what the last keeper left.
func (k *Keeper) load() error {
	if k.o.StateFile == "" {
		return nil
	}
	f, err := os.Open(k.slotsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read who has which slot: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSlotsFile))
	if err != nil {
		return fmt.Errorf("read who has which slot: %w", err)
	}
	var s slotsFile
	if err := json.Unmarshal(b, &s); err != nil || s.Format != slotsFormat {
		return fmt.Errorf("%s is not of the format %s; move it away: %w", k.slotsPath(), slotsFormat, errors.Join(err, errUnreadable))
	}
	if s.Backend != k.o.Backend {
		return fmt.Errorf("%s is about the backend %s, not %s: give each its own state file", k.slotsPath(), foreign.Line(s.Backend, 100), k.o.Backend)
	}
	for name, r := range s.Slots {
		if !plainName(name) || !idForm.MatchString(r.ID) || !r.Addr.IsValid() || r.Addr.Zone() != "" {
			return fmt.Errorf("%s: the slot %s cannot be read; move the file away", k.slotsPath(), foreign.Line(name, 100))
		}
	}
	k.assigned, k.known = s.Slots, true
	if k.assigned == nil {
		k.assigned = map[string]replica{}
	}
	return nil
}

// save writes HAProxy's state, from which it starts again, and who has which slot.
// What has not changed is not written again.
func (k *Keeper) save(ctx context.Context) error {
	if k.o.StateFile == "" {
		return nil
	}
	b, err := json.Marshal(slotsFile{slotsFormat, k.o.Backend, k.assigned})
	if err != nil {
		return err
	}
	if string(b) != k.savedAs {
		if err := disk.Replace(k.slotsPath(), 0o644, disk.Bytes(append(b, '\n'))); err != nil && !errors.Is(err, disk.ErrUnsynced) {
			return fmt.Errorf("write who has which slot: %w", err)
		}
		k.savedAs = string(b)
	}
	state, err := k.runtime.ask(ctx, "show servers state")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(state, "1\n# be_id ") {
		return fmt.Errorf("HAProxy's state is not as version 2.6 writes it: %q", foreign.Line(state, 100))
	}
	plain := withoutTimes(state)
	if plain == k.saved {
		return nil
	}
	if err := disk.Replace(k.o.StateFile, 0o644, disk.Bytes([]byte(state))); err != nil && !errors.Is(err, disk.ErrUnsynced) {
		return fmt.Errorf("write HAProxy's state: %w", err)
	}
	k.saved = plain
	return nil
}

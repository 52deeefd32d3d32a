package haproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/network/server/ask"
)

// pins keeps the map by which HAProxy finds the slot that a look from outside is
// pinned to (docs/trust.md): in HAProxy, and in the file from which it starts again.
// Who reads it can choose a node for his requests, so only its owner may.
func (k *Keeper) pins(ctx context.Context) error {
	if k.o.PinMap == "" {
		return nil
	}
	want := map[string]string{}
	for slot, r := range k.assigned {
		want[ask.Pin(k.o.PinSecret, r.ID)] = slot
	}
	var text strings.Builder
	for _, pin := range slices.Sorted(maps.Keys(want)) {
		fmt.Fprintf(&text, "%s %s\n", pin, want[pin])
	}
	if text.String() != k.pinned {
		if err := disk.Replace(k.o.PinMap, 0o600, disk.Bytes([]byte(text.String()))); err != nil && !errors.Is(err, disk.ErrUnsynced) {
			return fmt.Errorf("write the map of pins: %w", err)
		}
		k.pinned = text.String()
	}
	answer, err := k.runtime.ask(ctx, "show map "+k.o.PinMap)
	if err != nil {
		return err
	}
	have := parseMap(answer)
	var batch []string
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		answer, err := k.runtime.ask(ctx, batch...)
		if c := complaint(answer); err == nil && c != "" {
			err = fmt.Errorf("HAProxy does not take a pin: %s; its configuration needs the map %s, as deploy/haproxy.cfg has it", c, k.o.PinMap)
		}
		batch, size = nil, 0
		return err
	}
	for _, command := range differences(k.o.PinMap, have, want) {
		if size+len(command) > maxCommands {
			if err := flush(); err != nil {
				return err
			}
		}
		batch, size = append(batch, command), size+len(command)+1
	}
	return flush()
}

// differences are the commands that make one map of the other.
func differences(file string, have, want map[string]string) (out []string) {
	for _, pin := range slices.Sorted(maps.Keys(have)) {
		if _, ok := want[pin]; !ok {
			out = append(out, "del map "+file+" "+pin)
		}
	}
	for _, pin := range slices.Sorted(maps.Keys(want)) {
		switch had, ok := have[pin]; {
		case !ok:
			out = append(out, "add map "+file+" "+pin+" "+want[pin])
		case had != want[pin]:
			out = append(out, "set map "+file+" "+pin+" "+want[pin])
		}
	}
	return out
}

// parseMap reads "show map": an address in memory, the key, the value.
func parseMap(answer string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(answer) {
		if f := strings.Fields(line); len(f) == 3 && strings.HasPrefix(f[0], "0x") && plainName(f[1]) && plainName(f[2]) {
			out[f[1]] = f[2]
		}
	}
	return out
}

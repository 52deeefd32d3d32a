package identity

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/network/control"
)

// Bounds of what an honest card does.
const (
	// maxMemoryShift is how much of its memory a card may gain or lose: ECC in
	// ordinary memory takes a sixteenth, drivers keep some.
	maxMemoryShift = 0.15
	// swapWindow and maxSwaps: so many cards in one slot within so long are no
	// repairs.
	swapWindow = 30 * 24 * time.Hour
	maxSwaps   = 3
)

// Changes judges how the cards of one node changed with its last inventory. History
// is all rows of its cards.
func Changes(node string, history []Card) (out []Finding) {
	history = slices.Clone(history)
	slices.SortStableFunc(history, func(a, b Card) int { return a.First.Compare(b.First) })
	for i, c := range history {
		if !c.Gone.IsZero() || c.part() || UUID(c.UUID) == "" {
			continue
		}
		if f, ok := altered(node, c, history[:i]); ok {
			out = append(out, f)
		} else if f, ok := replaced(node, c, history); ok {
			out = append(out, f)
		}
	}
	return out
}

// altered compares a card with what it was on this node. The driver's name for it
// counts only with the same driver: drivers rename cards.
func altered(node string, now Card, before []Card) (Finding, bool) {
	for _, old := range slices.Backward(before) {
		if old.part() {
			continue
		}
		same := UUID(old.UUID) == UUID(now.UUID)
		subject := now.subject()
		switch a, b := Serial(old.Serial), Serial(now.Serial); {
		case same && a != "" && b != "" && a != b:
			return found(node, control.FindAltered, subject, fmt.Sprintf("the card %s had the serial number %s, and now has %s", now.UUID, old.Serial, now.Serial)), true
		case !same && a != "" && a == b && now.ownBoard() && UUID(old.UUID) != "" && !old.Gone.IsZero():
			return found(node, control.FindAltered, subject, fmt.Sprintf("the card with the serial number %s had the UUID %s, and now has %s", now.Serial, old.UUID, now.UUID)), true
		case same && old.Driver == now.Driver && old.Name != "" && now.Name != "" && !strings.EqualFold(old.Name, now.Name):
			return found(node, control.FindAltered, subject, fmt.Sprintf("the card %s was %s, and is now %s, by the same driver", now.UUID, old.Name, now.Name)), true
		case same && shifted(old.MemoryBytes, now.MemoryBytes):
			return found(node, control.FindAltered, subject, fmt.Sprintf("the card %s had %.1f GiB of memory, and now has %.1f", now.UUID, gib(old.MemoryBytes), gib(now.MemoryBytes))), true
		}
	}
	return Finding{}, false
}

func shifted(a, b int64) bool {
	if a <= 0 || b <= 0 {
		return false
	}
	return float64(max(a, b)-min(a, b)) > maxMemoryShift*float64(max(a, b))
}

func gib(b int64) float64 { return float64(b) / (1 << 30) }

// replaced looks whether another card was in the slot until this one came. One that
// is still on the node has only moved.
func replaced(node string, now Card, history []Card) (Finding, bool) {
	if now.Bus == "" {
		return Finding{}, false
	}
	swaps := 0
	var last Card
	for _, old := range history {
		if UUID(old.UUID) == "" || UUID(old.UUID) == UUID(now.UUID) || bus(old.Bus) != bus(now.Bus) || old.Gone.IsZero() || stillThere(old, history) {
			continue
		}
		if old.Gone.Equal(now.First) {
			last = old
		}
		if now.First.Sub(old.Gone) < swapWindow {
			swaps++
		}
	}
	if last.UUID == "" {
		return Finding{}, false
	}
	text := fmt.Sprintf("the card at %s was %s, and is now %s", now.Bus, last.UUID, now.UUID)
	if swaps >= maxSwaps {
		return found(node, control.FindAltered, "slot "+bus(now.Bus), fmt.Sprintf("%s; it is the %dth in %d days", text, swaps+1, int(swapWindow.Hours()/24))), true
	}
	return found(node, control.FindChanged, now.subject(), text), true
}

func stillThere(c Card, history []Card) bool {
	return slices.ContainsFunc(history, func(o Card) bool { return o.Gone.IsZero() && UUID(o.UUID) == UUID(c.UUID) })
}

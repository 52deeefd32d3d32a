package claims

import (
	"bytes"
	"fmt"

	"github.com/assay-bench/assay/internal/foreign"
)

// diffContext is how many lines around a change are shown.
const diffContext = 3

// unified is the unified diff of two texts of which lines were only replaced, by
// as many; empty: they are the same.
func unified(name string, before, after []byte) []byte {
	old, now := textLines(before), textLines(after)
	var changed []int
	for i := range min(len(old), len(now)) {
		if !bytes.Equal(old[i], now[i]) {
			changed = append(changed, i)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	var b bytes.Buffer
	name = foreign.Line(name, 1000)
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", name, name)
	for len(changed) > 0 {
		n := 1 // changes of this hunk: those whose context meets
		for n < len(changed) && changed[n]-changed[n-1] <= 2*diffContext {
			n++
		}
		from, to := max(0, changed[0]-diffContext), min(len(old), changed[n-1]+diffContext+1)
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", from+1, to-from, from+1, to-from)
		for i := from; i < to; {
			end := i
			for end < to && !bytes.Equal(old[end], now[end]) {
				end++
			}
			for _, side := range []struct {
				mark  byte
				lines [][]byte
			}{{'-', old[i:end]}, {'+', now[i:end]}} {
				for _, line := range side.lines {
					diffLine(&b, side.mark, line)
				}
			}
			if end == i {
				diffLine(&b, ' ', old[i])
				end++
			}
			i = end
		}
		changed = changed[n:]
	}
	return b.Bytes()
}

func diffLine(b *bytes.Buffer, mark byte, line []byte) {
	b.WriteByte(mark)
	b.Write(line)
	if !bytes.HasSuffix(line, []byte("\n")) {
		b.WriteString("\n\\ No newline at end of file\n")
	}
}

// textLines are the lines with their ends.
func textLines(b []byte) [][]byte {
	lines := bytes.SplitAfter(b, []byte("\n"))
	if n := len(lines); n > 0 && len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	return lines
}

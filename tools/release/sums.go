package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// sumsFile lists what was made, as sha256sum --check reads it.
const sumsFile = "SHA256SUMS"

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// formatSums is the list of files by name.
func formatSums(sums map[string]string) []byte {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&b, "%s  %s\n", sums[name], name)
	}
	return []byte(b.String())
}

// parseSums reads what formatSums wrote.
func parseSums(text []byte) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if s, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  "); ok {
			out[name] = s
		}
	}
	return out
}

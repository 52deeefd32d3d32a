package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// goName is the standard library and the runtime, which every program holds.
// golangX is a module of the same authors under the same licence: a Go
// distribution does not always have its licence where its sources are.
const (
	goName  = "The Go standard library and runtime"
	golangX = "golang.org/x/sys "
)

// unlicensed are modules whose version ships no licence, with what is known instead.
// The program says so in the licence's place; nothing else may lack one.
var unlicensed = map[string]string{
	"github.com/nexus-rpc/nexus-proto-annotations v0.1.0": "This version of the module holds no licence. It is linked by the Temporal SDK for Go (MIT), whose authors publish it.",
}

const rule = "--------------------------------------------------------------------------------"

// render writes the parts, those with the same text together.
func render(parts map[string]*part) ([]byte, error) {
	var missing []string
	holders := map[string][]string{} // by text
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		p := parts[name]
		if text, ok := unlicensed[name]; ok && len(p.texts) == 0 {
			p.texts = []string{text}
		}
		if len(p.texts) == 0 {
			missing = append(missing, name)
		}
		for _, text := range p.texts {
			holders[text] = append(holders[text], name)
			if strings.HasPrefix(name, golangX) {
				holders[text] = append(holders[text], goName)
			}
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("no licence was found in %s", strings.Join(missing, ", "))
	}
	var b bytes.Buffer
	b.WriteString("This program contains Assay and software of others, under the licences below.\n")
	texts := slices.SortedFunc(maps.Keys(holders), func(a, b string) int {
		return strings.Compare(holders[a][0]+"\n"+a, holders[b][0]+"\n"+b)
	})
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n%s\n%s\n\n%s\n", rule, strings.Join(holders[text], "\n"), rule, text)
	}
	if !strings.Contains(b.String(), "\n"+goName+"\n") {
		return nil, fmt.Errorf("no licence was found for Go itself: %smodule is not among what is linked", golangX)
	}
	return b.Bytes(), nil
}

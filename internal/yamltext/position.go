package yamltext

import (
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Position finds where a path such as cells[1].models[0] stands in a tree that
// [Decode] gave; where it does not, where its parent does. 0: nowhere.
func Position(tree *ast.File, path string) (line, column int) {
	for ; path != ""; path = path[:max(0, strings.LastIndexAny(path, ".["))] {
		p, err := yaml.PathString("$." + path)
		if err != nil {
			continue
		}
		node, err := p.FilterFile(tree)
		if err != nil || node == nil {
			continue
		}
		if at := begin(node); at != nil && at.Position != nil {
			return at.Position.Line, at.Position.Column
		}
	}
	return 0, 0
}

// begin is where a node begins: a group of members has no token of its own.
func begin(node ast.Node) *token.Token {
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken()
	}
	return node.GetToken()
}

// Caret shows one line of a text with a caret under a column: "  LINE\n  ^".
func Caret(text []byte, line, column int) string {
	lines := strings.Split(string(text), "\n")
	if line < 1 || line > len(lines) || column < 1 {
		return ""
	}
	shown := strings.TrimRight(lines[line-1], "\r")
	if len(shown) > maxShown || column > len(shown)+1 {
		return ""
	}
	return "    " + strings.ReplaceAll(shown, "\t", " ") + "\n    " + strings.Repeat(" ", column-1) + "^"
}

// maxShown is the longest line that is worth showing.
const maxShown = 160

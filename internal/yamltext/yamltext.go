// Package yamltext decodes YAML that somebody else wrote.
//
// It promises that this takes time and memory in proportion to the file's length.
// The library bounds neither how deep a file nests nor what its aliases come to: of
// a kilobyte it makes all memory there is. It refuses keys that nobody reads: a
// typing error would pass as a setting that is not there. How long a file may be,
// and what is wrong with its values, is its reader's business.
package yamltext

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file. Ours nest five deep, and few have an alias.
const (
	maxDepth    = 64
	maxRepeated = 100_000 // nodes that aliases add
)

// ErrBounds means that a file nests too deep or repeats too much to be read. It is
// not ours: refuse it.
var ErrBounds = errors.New("it is no configuration")

// SyntaxError is the library's, with the line that it is about: as text it shows
// the line, and unwrapped it knows its token.
type SyntaxError struct{ err error }

func (e SyntaxError) Error() string { return strings.TrimSpace(yaml.FormatError(e.err, false, true)) }

func (e SyntaxError) Unwrap() error { return e.err }

// Decode decodes a file, every key of which must be known, and gives its tree, in
// which faults can be placed. Of an empty file nothing is decoded.
func Decode(b []byte, into any) (*ast.File, error) {
	if err := depth(lexer.Tokenize(string(b))); err != nil {
		return nil, err
	}
	tree, err := parser.ParseBytes(b, 0)
	if err != nil {
		return nil, SyntaxError{err}
	}
	if err := repeats(tree); err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalWithOptions(b, into, yaml.Strict()); err != nil {
		return nil, SyntaxError{err}
	}
	return tree, nil
}

// repeats bounds what aliases add.
func repeats(tree *ast.File) error {
	c := counter{anchors: map[string]int{}}
	total := 0
	for _, doc := range tree.Docs {
		total = add(total, c.node(doc.Body))
	}
	if total-c.own > maxRepeated {
		return fmt.Errorf("%w: its aliases repeat more than %d values", ErrBounds, maxRepeated)
	}
	return nil
}

// depth bounds brackets within brackets, and what nests within one line without
// any. Nesting by indentation is bounded by the file's length.
func depth(tokens token.Tokens) error {
	open, line, nested := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, nested = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			open++
		case token.MappingEndType, token.SequenceEndType:
			open--
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
			nested++
		}
		if open > maxDepth || nested > maxDepth {
			return fmt.Errorf("%w: line %d nests more than %d deep", ErrBounds, line, maxDepth)
		}
	}
	return nil
}

// counter counts the nodes that decoding will visit.
type counter struct {
	own     int            // nodes that are written down
	anchors map[string]int // what an alias of the name comes to
}

// node is the number of nodes below one, with aliases followed.
func (c *counter) node(n ast.Node) int {
	c.own++
	total := 1
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			total = add(total, c.node(v))
		}
	case *ast.MappingValueNode:
		total = add(add(total, c.node(n.Key)), c.node(n.Value))
	case *ast.MappingKeyNode:
		total = add(total, c.node(n.Value))
	case *ast.SequenceNode:
		for _, v := range n.Values {
			total = add(total, c.node(v))
		}
	case *ast.TagNode:
		total = add(total, c.node(n.Value))
	case *ast.AnchorNode:
		total = add(total, c.node(n.Value))
		c.anchors[n.Name.GetToken().Value] = total
	case *ast.AliasNode:
		total = add(total, c.anchors[n.Value.GetToken().Value])
	}
	return total
}

// add stays far from where a sum would overflow.
func add(a, b int) int { return min(a+b, 1<<40) }

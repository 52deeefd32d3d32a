package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/assay-bench/assay/journal"
)

// layout is what one kind of signed directory holds: a run, or the operations
// that verify recorded.
type layout struct {
	thing      string // in words
	statements []statementFile
	files      []string // that the statements cover, in the order of docs/formats/statement.md
	parts      []string // subjects that are no file of their own
	needed     []string // subjects without which a statement is none
}

// statementFile is where a statement and its receipt lie, and what it must hold.
type statementFile struct{ file, receipt, predicate string }

var runLayout = layout{
	thing:      "run",
	statements: statementFiles,
	files:      signedFiles,
	parts:      []string{configSubject, binarySubject},
	needed:     []string{journal.RunFile, configSubject},
}

var operationsLayout = layout{
	thing:      "record of operations",
	statements: []statementFile{{OperationsStatement, OperationsReceipt, GPUOperations}},
	files:      []string{OperationsFile, journal.ChecksFile},
	needed:     []string{OperationsFile},
}

// proofs are the files that are about the others, and not covered themselves.
func (l *layout) proofs() []string {
	out := append([]string{KeyFile}, l.receipts()...)
	for _, s := range l.statements {
		out = append(out, s.file)
	}
	return out
}

func (l *layout) receipts() []string {
	out := []string{KeyReceipt}
	for _, s := range l.statements {
		out = append(out, s.receipt)
	}
	return out
}

// subjects are the names that a statement may have: what it names is opened.
func (l *layout) subjects() []string { return slices.Concat(l.files, l.parts) }

// check takes names from the fixed list only.
func (l *layout) check(subjects []ResourceDescriptor) error {
	seen := map[string]bool{}
	for _, s := range subjects {
		switch {
		case !slices.Contains(l.subjects(), s.Name):
			return fmt.Errorf("%w: its subject %.60q is no part of a %s", ErrStatement, s.Name, l.thing)
		case seen[s.Name]:
			return fmt.Errorf("%w: its subject %s is there twice", ErrStatement, s.Name)
		case len(s.Digest) != 1:
			return fmt.Errorf("%w: its subject %s has %d digests; sha256 alone is allowed", ErrStatement, s.Name, len(s.Digest))
		}
		seen[s.Name] = true
	}
	for _, name := range l.needed {
		if !seen[name] {
			return fmt.Errorf("%w: it has not the subject %s", ErrStatement, name)
		}
	}
	return nil
}

// IsOperations reports whether a directory is one that verify wrote, and no run. One
// that lost its operations is still known by their statement.
func IsOperations(dir string) bool {
	is := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	return (is(OperationsFile) || is(OperationsStatement)) && !is(journal.RunFile)
}

// StatementFiles are the names of the files that hold the statements about what
// is in a directory, once it is signed. That about the key is [KeyFile].
func StatementFiles(dir string) []string {
	l := &runLayout
	if IsOperations(dir) {
		l = &operationsLayout
	}
	var out []string
	for _, s := range l.statements {
		out = append(out, s.file)
	}
	return out
}

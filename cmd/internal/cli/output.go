package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/assay-bench/assay/internal/disk"
)

// WriteJSON writes a document as every command prints them.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// SaveFile replaces a file as a whole: a reader never sees half of it.
func SaveFile(path string, write func(io.Writer) error) error {
	return disk.Swap(path, 0o644, write)
}

// BadFormat refuses a --format of commands that have two.
func BadFormat(format string) error {
	return fmt.Errorf("unknown format %q; known are text, json", format)
}

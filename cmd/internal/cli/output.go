package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/internal/foreign"
)

// WriteJSON writes a document as every command prints them.
func WriteJSON(w io.Writer, v any) error { return writeJSON(w, v, "  ") }

// WriteJSONLine writes a document on one line.
func WriteJSONLine(w io.Writer, v any) error { return writeJSON(w, v, "") }

// writeJSON escapes what a terminal would obey: a person may look at it.
func writeJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(foreign.JSON(b.Bytes()))
	return err
}

// SaveFile replaces a file as a whole: a reader never sees half of it.
func SaveFile(path string, write func(io.Writer) error) error {
	return disk.Swap(path, 0o644, write)
}

// SaveProof writes a file that is not made again so easily: a power cut does not
// take it back.
func SaveProof(path string, b []byte) error { return disk.Replace(path, 0o644, disk.Bytes(b)) }

// BadFormat refuses a --format of commands that have two.
func BadFormat(format string) error {
	return fmt.Errorf("unknown format %q; known are text, json", format)
}

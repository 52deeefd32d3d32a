package claims

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/internal/foreign"
)

// makeResultsDir makes the directory, or takes it when it is empty: results are
// never mixed with those of another run.
func makeResultsDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the results directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into the results directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("the results directory %s is not empty, and results of two runs are not mixed; choose another", dir)
	}
	// A directory that is there may still not be ours to write to, and that is
	// better known before an hour of measuring than after.
	f, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return fmt.Errorf("write to the results directory: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// FamilyFile is the name of a family's file in the results directory; some
// families have names of their own.
func FamilyFile(family string) string {
	switch family {
	case "spawn":
		return "container_spawn.json"
	case "kernel":
		return "kernel_overhead.json"
	case "results":
		return "results_family.json" // results.json is the whole
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, family) + ".json"
}

// FamilyFormat names the format of a family's file.
const FamilyFormat = "assay/claims-family/v1"

type familyFile struct {
	Format string        `json:"format"`
	Family string        `json:"family"`
	Claims []ClaimResult `json:"claims"`
	Probes []ProbeResult `json:"probes"` // with their values
}

// writeFiles puts texts into the results directory.
func writeFiles(dir string, texts map[string]string) error {
	var errs []error
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			errs = append(errs, fmt.Errorf("write system information: %w", err))
		}
	}
	return errors.Join(errs...)
}

// write puts the result into a directory: results.json, and a file for each
// family with its samples.
func (r *Result) write(dir string) error {
	all := map[string]*familyFile{}
	var order []string
	for _, p := range append(slices.Clone(r.Probes), r.Empty) {
		family := Probe{Name: p.Name}.Family()
		if all[family] == nil {
			all[family] = &familyFile{Format: FamilyFormat, Family: family, Claims: []ClaimResult{}}
			order = append(order, family)
		}
		all[family].Probes = append(all[family].Probes, p)
	}
	for _, c := range r.Claims {
		family := Probe{Name: c.Probe}.Family()
		if all[family] != nil {
			all[family].Claims = append(all[family].Claims, c)
		}
	}
	save := func(name string, write func(io.Writer) error) error {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
		if err := disk.Replace(filepath.Join(dir, name), 0o644, disk.Bytes(b.Bytes())); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		return nil
	}
	var errs []error
	for _, family := range order {
		errs = append(errs, save(FamilyFile(family), func(w io.Writer) error { return writeJSON(w, all[family]) }))
	}
	errs = append(errs, save("results.json", r.JSON))
	errs = append(errs, save(ValidateFile, func(w io.Writer) error { return writeJSON(w, r.Validate()) }))
	return errors.Join(errs...)
}

func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(foreign.JSON(b.Bytes())) // it is printed too
	return err
}

// JSON writes the result as results.json has it: without the samples, which are
// in the families' files.
func (r *Result) JSON(w io.Writer) error {
	lean := *r
	lean.Probes = slices.Clone(r.Probes)
	for i := range lean.Probes {
		lean.Probes[i].Values, lean.Probes[i].Stride = nil, 0
	}
	lean.Empty.Values, lean.Empty.Stride = nil, 0
	return writeJSON(w, lean)
}

package telemetry

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/assay-bench/assay"
)

// dcgmDiag is what dcgmi diag -j prints. Version 3 says "DCGM GPU Diagnostic"
// and gpu_id; version 4 says "DCGM Diagnostic" and entity_id, and sums each
// test up.
type dcgmDiag struct {
	V3 *dcgmReport `json:"DCGM GPU Diagnostic"`
	V4 *dcgmReport `json:"DCGM Diagnostic"`
	// Entities of version 4 name the GPUs.
	Groups []struct {
		Entities []struct {
			ID   any    `json:"entity_id"`
			UUID string `json:"uuid"`
		} `json:"entities"`
	} `json:"entity_groups"`
}

type dcgmReport struct {
	Categories []struct {
		Name  string `json:"category"`
		Tests []struct {
			Name    string       `json:"name"`
			Results []dcgmResult `json:"results"`
		} `json:"tests"`
	} `json:"test_categories"`
}

type dcgmResult struct {
	GPU      any    `json:"gpu_id"`
	GPUs     any    `json:"gpu_ids"` // "0,1,2"; older versions
	Entity   any    `json:"entity_id"`
	Group    string `json:"entity_group"`
	Status   string `json:"status"`
	Info     any    `json:"info"`
	Warnings any    `json:"warnings"`
}

const maxChecks = 4096

// ImportDCGMDiag reads the output of dcgmi diag -j: each result of each test is
// a check. A test that was skipped or not run is unknown, never a pass.
func ImportDCGMDiag(r io.Reader) ([]assay.Check, error) {
	var d dcgmDiag
	if err := json.NewDecoder(io.LimitReader(r, maxPage)).Decode(&d); err != nil {
		return nil, fmt.Errorf("reading the output of dcgmi diag: %w", err)
	}
	report := d.V4
	if report == nil {
		report = d.V3
	}
	if report == nil {
		return nil, fmt.Errorf("reading the output of dcgmi diag: it has no diagnostic")
	}
	uuid := map[string]string{}
	for _, g := range d.Groups {
		for _, e := range g.Entities {
			if e.UUID != "" {
				uuid[words(e.ID)] = word(e.UUID)
			}
		}
	}
	var checks []assay.Check
	for _, c := range report.Categories {
		for _, t := range c.Tests {
			for _, res := range t.Results {
				if len(checks) == maxChecks {
					return checks, fmt.Errorf("reading the output of dcgmi diag: over %d results", maxChecks)
				}
				checks = append(checks, res.check(c.Name, t.Name, uuid))
			}
		}
	}
	return checks, nil
}

func (r dcgmResult) check(category, test string, uuid map[string]string) assay.Check {
	c := assay.Check{
		Name: "dcgm." + slug(category) + "." + slug(test), Evidence: word(r.Status),
		Proves:       "NVIDIA's diagnostic said so when it was run",
		DoesNotProve: "that it was run on this node, or lately: its output is imported as it is",
		Facts:        map[string]string{"category": word(category), "test": word(test)},
	}
	switch strings.ToLower(strings.TrimSpace(r.Status)) {
	case "pass":
		c.Verdict = assay.Pass
	case "warn", "warning":
		c.Verdict = assay.Degraded
	case "fail":
		c.Verdict = assay.Fail
	}
	id := words(r.GPU)
	if id == "" {
		id = words(r.GPUs)
	}
	if id == "" && (r.Group == "" || strings.EqualFold(r.Group, "GPU")) {
		id = words(r.Entity)
	}
	if id != "" {
		c.Facts["gpu"] = id
		c.Device = uuid[id]
	}
	for _, more := range []string{words(r.Warnings), words(r.Info)} {
		if more != "" {
			c.Evidence += ": " + more
			break
		}
	}
	return c
}

// words makes text of a value that some versions write as text, some as a
// number, some as a list of either or of objects.
func words(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return word(v)
	case float64:
		return word(fmt.Sprint(v))
	case []any:
		var out []string
		for _, e := range v[:min(len(v), 8)] {
			if s := words(e); s != "" {
				out = append(out, s)
			}
		}
		return strings.Join(out, "; ")
	case map[string]any:
		for _, key := range []string{"warning", "message", "text"} {
			if s := words(v[key]); s != "" {
				return s
			}
		}
	}
	return ""
}

func slug(s string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, word(s)), "_")
}

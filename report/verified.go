package report

import "github.com/assay-bench/assay"

// Verified is the page of what `assay verify` found: each check with its
// evidence, and then what each kind proves and what it does not.
func Verified(v assay.Verdict, because string, checked []assay.Check, notes []string) Page {
	p := Page{Title: "Verification"}
	p.Blocks = append(p.Blocks, Verdict{Verdict: v, Why: because})
	devices := map[string]bool{}
	for _, c := range checked {
		if c.Device != "" {
			devices[c.Device] = true
		}
	}
	t := Table{Columns: []Column{{Name: "check"}, {Name: "verdict", Words: true}, {Name: "evidence", Words: true}}}
	proves, not := List{Head: "proves "}, List{Head: "but not"}
	said := map[string]bool{}
	for _, c := range checked {
		evidence := c.Evidence
		if c.Device != "" && len(devices) > 1 {
			evidence = c.Device + ": " + evidence
		}
		t.Rows = append(t.Rows, []string{c.Name, c.Verdict.String(), evidence})
		if said[c.Name] {
			continue
		}
		said[c.Name] = true
		if c.Proves != "" {
			proves.Items = append(proves.Items, c.Name+": "+c.Proves)
		}
		if c.DoesNotProve != "" {
			not.Items = append(not.Items, c.Name+": "+c.DoesNotProve)
		}
	}
	if len(checked) > 0 {
		p.Blocks = append(p.Blocks, t, proves, not)
	}
	if len(notes) > 0 {
		p.Blocks = append(p.Blocks, List{Head: "note   ", Items: notes})
	}
	return p
}

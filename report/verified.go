package report

import "github.com/assay-bench/assay"

// Verified is what verify found: one verdict on the whole, each check with its
// evidence, and then what each kind proves, or would have proved, and what it
// does not.
func Verified(v assay.Verdict, because string, checked []assay.Check, notes []string) Page {
	p := Page{Title: "Verification"}
	p.Blocks = append(p.Blocks, Verdict{Verdict: v, Why: because})
	devices := map[string]bool{}
	proved, unproved := map[string]bool{}, map[string]bool{} // by the check's name
	for _, c := range checked {
		if c.Device != "" {
			devices[c.Device] = true
		}
		if c.Verdict == assay.Pass {
			proved[c.Name] = true
		} else {
			unproved[c.Name] = true
		}
	}
	t := Table{Columns: []Column{{Name: "check"}, {Name: "verdict", Words: true}, {Name: "evidence", Words: true}}}
	proves, would, not := List{Head: "proves        "}, List{Head: "would prove   "}, List{Head: "does not prove"}
	said := map[string]bool{}
	add := func(l *List, name, words string) {
		item := name + ": " + words
		if words == "" || said[l.Head+item] {
			return
		}
		said[l.Head+item] = true
		l.Items = append(l.Items, item)
	}
	for _, c := range checked {
		c = c.Settled() // runs of earlier versions have the claim of every check in one place
		evidence, name := c.Evidence, c.Name
		if c.Device != "" && len(devices) > 1 {
			evidence = c.Device + ": " + evidence
			if proved[name] && unproved[name] {
				name += " of " + c.Device
			}
		}
		t.Rows = append(t.Rows, []string{c.Name, c.Verdict.String(), evidence})
		add(&proves, name, c.Proves)
		add(&would, name, c.WouldProve)
		add(&not, c.Name, c.DoesNotProve)
	}
	if len(checked) > 0 {
		p.Blocks = append(p.Blocks, t)
		for _, l := range []List{proves, would, not} {
			if len(l.Items) > 0 {
				p.Blocks = append(p.Blocks, l)
			}
		}
	}
	if len(notes) > 0 {
		p.Blocks = append(p.Blocks, List{Head: "note          ", Items: notes})
	}
	return p
}

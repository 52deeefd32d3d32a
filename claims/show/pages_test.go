package show

import (
	"bytes"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/report"
)

// The page of a run with a claim of each kind, in every look.
func TestClaimsPageInBrowser(t *testing.T) {
	var page bytes.Buffer
	if err := HTML(&page, mixed(t)); err != nil {
		t.Fatal(err)
	}
	parttest.Page(t, "claims", page.Bytes())
}

// What was promised is a line across the bars, and a bar has its claim's colour.
func TestMarginsShowThePromise(t *testing.T) {
	r := mixed(t)
	c, ok := shown{r}.margins()
	if !ok || c.Rule != 100 || len(c.Lines[0].Tones) != len(c.Categories) {
		t.Fatalf("%+v", c)
	}
	tones := map[string]report.Tone{}
	for i, name := range c.Categories {
		tones[strings.Fields(name)[0]] = c.Lines[0].Tones[i]
	}
	for _, x := range r.Claims {
		if tone, drawn := tones[x.Name]; drawn && (tone == report.ToneGood) != (x.Verdict == assay.Pass) || drawn && (tone == report.ToneBad) != (x.Verdict == assay.Fail) {
			t.Errorf("%s is %s, and looks like %d", x.Name, x.Verdict, tone)
		}
	}
	var text, page bytes.Buffer
	if err := (report.Look{}).Text(&text, report.Page{Blocks: []report.Block{c}}); err != nil {
		t.Fatal(err)
	}
	if err := report.HTML(&page, report.Page{Blocks: []report.Block{c}}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), "│"); n != len(c.Categories) {
		t.Errorf("%d of %d bars have the line:\n%s", n, len(c.Categories), text.String())
	}
	for _, want := range []string{`<rect class="rule"`, `<rect class="bad"`, `<rect class="good"`} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

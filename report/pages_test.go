package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
)

// The health page of a sick node, which has every kind of block, in every look.
func TestHealthPageInBrowser(t *testing.T) {
	var page bytes.Buffer
	if err := HTML(&page, Health(sick())); err != nil {
		t.Fatal(err)
	}
	for _, l := range parttest.Page(t, "health", page.Bytes()) {
		if l.Charts == 0 {
			t.Errorf("%s, %s: no chart", l.Screen, l.Scheme)
		}
	}
}

// The page of the test above would be found out: by axe, by the browser, and by its
// width.
func TestPagesAreJudgedInBrowser(t *testing.T) {
	const bad = `<!doctype html><html lang="en"><title>x</title><main><h1>x</h1><p style="color:#999;background:#aaa">faint words</p>
<img src="https://192.0.2.1/x.png"><div style="width:2000px">wide</div><script>nothing()</script></main>`
	var said []string
	for _, l := range parttest.Looks(t, "bad", []byte(bad)) {
		said = append(said, l.Wrong()...)
	}
	for _, want := range []string{"color-contrast", "image-alt", "192.0.2.1", "nothing is not defined", "wide on a phone of 390"} {
		if all := strings.Join(said, "\n"); !strings.Contains(all, want) {
			t.Errorf("nobody said %q:\n%s", want, all)
		}
	}
}

package parttest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Look is a page as a browser showed it: in light or dark, on a desktop or a phone.
type Look struct {
	Page, Scheme, Screen string
	Width                int // of the document, in pixels
	Charts, Drawn        int
	Hidden               []string // tables with columns that are out of sight
	Requests             []string // besides the page itself
	Complaints           []string // of the browser
	Violations           []string // that axe finds serious
	Rules                int      // of axe that the page keeps
}

// phoneWidth is that of the narrow screen in .ci/parts/pages.cjs.
const phoneWidth = 390

// Page opens a page in a real browser in every look, and fails the test for whatever
// is wrong with one.
func Page(tb testing.TB, name string, html []byte) []Look {
	tb.Helper()
	looks := Looks(tb, name, html)
	for _, l := range looks {
		for _, wrong := range l.Wrong() {
			tb.Errorf("%s, %s, %s: %s", l.Page, l.Screen, l.Scheme, wrong)
		}
	}
	return looks
}

// Looks opens a page in a real browser: in light and dark, on a desktop and on a
// phone. With ASSAY_SCREENSHOTS it leaves pictures in that directory.
func Looks(tb testing.TB, name string, html []byte) []Look {
	tb.Helper()
	modules := Install(tb, "playwright")
	file := filepath.Join(tb.TempDir(), name+".html")
	if err := os.WriteFile(file, html, 0o644); err != nil {
		tb.Fatal(err)
	}
	out := Run(tb, nil, "node", filepath.Join(Scripts(tb), "pages.cjs"), modules, os.Getenv("ASSAY_SCREENSHOTS"), file)
	var looks []Look
	for line := range strings.Lines(out) {
		var l Look
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			tb.Fatalf("%v: %s", err, line)
		}
		looks = append(looks, l)
	}
	if len(looks) != 4 {
		tb.Fatalf("%s was looked at %d times, want 4", name, len(looks))
	}
	return looks
}

// Wrong says what is wrong with a look: the page asks the network for something, the
// browser complains, it is wider than its window or has columns out of sight, a chart
// is not drawn, or it keeps people from reading it.
func (l Look) Wrong() (wrong []string) {
	for _, of := range []struct {
		what  string
		found []string
	}{{"asks the network for", l.Requests}, {"the browser complains:", l.Complaints}, {"axe:", l.Violations}, {"columns are out of sight:", l.Hidden}} {
		for _, one := range of.found {
			wrong = append(wrong, of.what+" "+one)
		}
	}
	if l.Screen == "phone" && l.Width > phoneWidth {
		wrong = append(wrong, fmt.Sprintf("it is %d wide on a phone of %d", l.Width, phoneWidth))
	}
	if l.Drawn < l.Charts {
		wrong = append(wrong, fmt.Sprintf("%d of %d charts are drawn", l.Drawn, l.Charts))
	}
	if l.Rules == 0 {
		wrong = append(wrong, "axe has looked at nothing")
	}
	return wrong
}

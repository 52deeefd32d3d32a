package assay_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	walkFile = regexp.MustCompile("`([a-z_0-9/.]+\\.go)`")
	walkName = regexp.MustCompile("[A-Za-z]+")
	// A file may be followed by what to look for in it: (`a`, `b`), or , `a`.
	walkNamed = regexp.MustCompile("`([a-z_0-9/.]+\\.go)`(?: \\(|, )((?:`[A-Za-z]+`(?:, )?)+)")
)

// The walks of docs/design.md name the files that a newcomer opens, and the
// functions in them: both must be there.
func TestWalksNameWhatIsThere(t *testing.T) {
	page, err := os.ReadFile("docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, head := range []string{"## One request, from the socket to the report", "## One GPU reading, from the driver to the report"} {
		_, walk, found := strings.Cut(string(page), head+"\n")
		if !found {
			t.Errorf("docs/design.md has no %q", head)
			continue
		}
		walk, _, _ = strings.Cut(walk, "\n## ")
		files := map[string]string{}
		for _, m := range walkFile.FindAllStringSubmatch(walk, -1) {
			if files[m[1]] != "" || m[1] == "walk_test.go" {
				continue
			}
			source, err := os.ReadFile(m[1])
			if err != nil {
				t.Errorf("docs/design.md: %v", err)
				continue
			}
			files[m[1]] = string(source)
		}
		if len(files) < 20 {
			t.Errorf("%q names %d files", head, len(files))
		}
		names := 0
		for _, m := range walkNamed.FindAllStringSubmatch(walk, -1) {
			for _, name := range walkName.FindAllString(m[2], -1) {
				names++
				if declared := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + name + `[(\[]`); !declared.MatchString(files[m[1]]) {
					t.Errorf("docs/design.md: %s has no function %s", m[1], name)
				}
			}
		}
		if names < 15 {
			t.Errorf("%q names %d functions: the pattern misses some", head, names)
		}
	}
}

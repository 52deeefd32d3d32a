package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func page(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "PAGE.md")
	if err := os.WriteFile(path, []byte("# A page\n\n```console\n"+strings.Join(lines, "\n")+"\n```\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFollow(t *testing.T) {
	const busy = "$ echo invalid: the client was the bottleneck; echo x >> tries; exit 2"
	for name, c := range map[string]struct {
		lines []string
		want  tally
		fails string
	}{
		"all work":          {[]string{"$ touch a", "$ test -f a", "$ false # exit 1", "$ sleep 60 &", "$ echo took 3s", "took 77s"}, tally{worked: 5}, ""},
		"of several lines":  {[]string{"$ cat > a <<END", "> one", "> END", "$ cat a", "one", "> two"}, tally{worked: 2}, ""},
		"a busy machine":    {[]string{"$ true", busy, `$ test "$(wc -l < tries)" = 3`}, tally{worked: 2, skipped: 1}, ""},
		"a wrong exit code": {[]string{"$ true", "$ false", "$ true"}, tally{worked: 1}, "exits 1, the page says 0"},
		"another output":    {[]string{"$ echo nothing", "something"}, tally{}, "no line like"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := follow(page(t, c.lines...), t.TempDir())
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("error %v, want %q", err, c.fails)
			}
		})
	}
	if _, err := follow(page(t, "no command"), t.TempDir()); err == nil {
		t.Error("a page without commands passes")
	}
}

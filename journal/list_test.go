package journal

import (
	"os"
	"path/filepath"
	"testing"
)

func TestListIsNewestFirst(t *testing.T) {
	parent := t.TempDir()
	put := func(name, run string) {
		t.Helper()
		dir := filepath.Join(parent, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if run == "" {
			return
		}
		if err := os.WriteFile(filepath.Join(dir, RunFile), []byte(run+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("a-newest", `{"format":"assay/run/v1","created_ns":30}`)
	put("b-oldest", `{"format":"assay/run/v1","created_ns":10}`)
	put("c", `{"format":"assay/run/v1","created_ns":20}`)
	put("no run", "")
	put("broken", "{")
	if err := os.WriteFile(filepath.Join(parent, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	runs, broken, err := List(parent)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range runs {
		got = append(got, filepath.Base(r.Dir()))
	}
	if len(got) != 3 || got[0] != "a-newest" || got[1] != "c" || got[2] != "b-oldest" {
		t.Errorf("runs %v", got)
	}
	if len(broken) != 1 || broken[filepath.Join(parent, "broken")] == nil {
		t.Errorf("broken %v", broken)
	}
	if _, _, err := List(filepath.Join(parent, "nowhere")); err == nil {
		t.Error("no error for a directory that is not there")
	}
}

package telemetry

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/parttest"
)

var update = flag.Bool("update", false, "write the golden files")

// part skips a test that lacks something of the machine, and fails it where
// everything is said to be installed.
func part(t *testing.T, err error, what string) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("ASSAY_PARTS") == "1" {
		t.Fatalf("%s: %v", what, err)
	}
	t.Skipf("%s: %v", what, err)
}

func collect(t *testing.T, s Source) []assay.Reading {
	t.Helper()
	var got []assay.Reading
	if err := s.Read(t.Context(), func(r assay.Reading) { got = append(got, r) }); err != nil {
		t.Fatalf("reading %s: %v", s.Name(), err)
	}
	return got
}

// lines writes readings in a form for golden files and comparisons.
func lines(readings []assay.Reading) string {
	slices.SortStableFunc(readings, func(a, b assay.Reading) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Name, b.Name))
	})
	var b strings.Builder
	for _, r := range readings {
		fmt.Fprintf(&b, "%s %s %.10g\n", cmp.Or(r.Device, "-"), r.Name, *r.Value)
	}
	return b.String()
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got\n%s\nwant\n%s", file, got, want)
	}
}

// tree unpacks a captured directory tree.
func tree(t testing.TB, archive string) string {
	t.Helper()
	a, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range a.Files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// fakeSMI writes an nvidia-smi that answers as a fixture says, and refuses
// columns that the fixture's driver does not have as the real one does.
func fakeSMI(t testing.TB, fixture string) string {
	t.Helper()
	return scriptSMI(t, fixture, `
awk -F', ' -v want="$columns" '
NR == 1 { for (i = 1; i <= NF; i++) { sub(/ \[.*/, "", $i); at[$i] = i }
          n = split(want, w, ",")
          for (i = 1; i <= n; i++) if (!(w[i] in at)) { printf "Field \"%s\" is not a valid field to query.\n\n", w[i]; exit 2 } }
NR > 1  { for (i = 1; i <= n; i++) printf "%s%s", (i > 1 ? ", " : ""), $(at[w[i]]); print "" }' "$csv" >"$rows" || { cat "$rows"; exit 2; }
while :; do cat "$rows"; sleep "$wait"; done
`)
}

// scriptSMI writes an nvidia-smi whose query is a piece of shell.
func scriptSMI(t testing.TB, fixture, query string) string {
	t.Helper()
	if _, err := exec.LookPath("awk"); err != nil {
		t.Skip("the tests' nvidia-smi is written in shell and awk")
	}
	here, err := filepath.Abs("testdata/nvidia-smi")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "nvidia-smi")
	text := fmt.Sprintf(`#!/bin/sh
xml='%[1]s/%[2]s.xml' csv='%[1]s/%[2]s.csv' dir='%[3]s' rows='%[3]s/rows'
echo $$ >>"$dir/pids"
case "$1" in
-q) cat "$xml"; exit 0 ;;
--query-gpu=*) columns=${1#--query-gpu=} ;;
*) exit 2 ;;
esac
wait=$(awk -v ms="$4" 'BEGIN { print ms / 1000 }')
%[4]s`, here, fixture, dir, query)
	parttest.Program(t, script, []byte(text))
	return script
}

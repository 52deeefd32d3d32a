package assay_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

const module = "github.com/assay-bench/assay"

// mayImport is the table of docs/design.md: what each package may import of
// ours. A package that is not in it must be added to both.
var mayImport = map[string][]string{
	"":               {},
	"stat":           {},
	"inference":      {"", "internal/clock"},
	"simulate":       {""},
	"load":           {"", "stat"},
	"telemetry":      {"", "internal/nvml", "internal/child"},
	"verify":         {"", "internal/opencl", "internal/cuda", "internal/child"},
	"journal":        {"", "internal/disk"},
	"summary":        {"", "stat"},
	"score":          {""},
	"report":         {""},
	"report/dialect": {""},
	"report/parquet": {""},
	"report/plot":    {"report"},
	"compare":        {"", "stat", "journal", "summary", "report", "internal/disk"},
	"claims":         {"", "stat", "internal/disk", "internal/yamltext"},
	"claims/host":    {"", "claims", "internal/child"},
	"claims/gpu":     {"", "claims", "telemetry", "internal/opencl", "internal/cuda", "internal/child"},
	"claims/engine":  {"", "claims", "hammer", "journal", "summary"},
	"claims/show":    {"", "claims", "report", "internal/disk"},
	"claims/profile": {"claims", "internal/disk", "internal/child", "internal/proc"},
	"hammer":         {"", "inference", "load", "telemetry", "verify", "journal", "summary", "score", "internal/clock", "internal/proc"},
	"deploy":         {},
	"docs":           {},
	"docs/api":       {},
	"docs/site":      {},

	"docs/formats/schema": {},
	"examples/campaigns":  {},

	"compare/experiment": {"", "compare", "stat", "hammer", "journal", "summary", "telemetry", "inference", "internal/child", "internal/disk", "internal/proc", "internal/yamltext"},

	"ledger":         {"", "journal", "internal/disk", "internal/child"},
	"ledger/outbox":  {"ledger", "internal/disk", "internal/foreign"},
	"ledger/kafka":   {"", "ledger", "ledger/outbox", "internal/yamltext"},
	"ledger/tlog":    {"ledger", "internal/disk", "internal/parallel"},
	"ledger/witness": {"", "ledger", "internal/disk"},
	"ledger/notary":  {"", "ledger", "ledger/tlog", "internal/disk", "internal/parallel"},

	"network/api":      {},
	"network/control":  {"", "stat", "internal/yamltext"},
	"network/place":    {"", "internal/yamltext"},
	"network/trend":    {"", "stat"},
	"network/identity": {"", "network/control", "verify"},

	"network/trust/fingerprint": {"", "stat"},

	"network/store":          {"", "ledger", "network/control", "internal/database"},
	"network/evidence":       {"internal/disk"},
	"network/agent/driver":   {"network/api"},
	"network/agent":          {"", "network/agent/driver", "network/api", "hammer", "verify", "telemetry", "journal", "score", "summary", "inference", "ledger", "ledger/outbox", "internal/clock", "internal/disk", "internal/proc", "internal/child", "internal/yamltext"},
	"network/server":         {"", "internal/database", "docs/api", "network/api", "network/control", "network/identity", "network/trend", "network/store", "network/evidence", "network/server/routing", "hammer", "journal", "score", "summary", "ledger", "ledger/outbox", "report", "internal/disk", "internal/parallel"},
	"network/server/decide":  {"", "network/api", "network/control", "network/identity", "network/trend", "network/store", "network/evidence", "network/trust/fingerprint", "network/server", "network/server/egress", "network/server/webhook", "hammer", "journal", "score", "summary", "ledger", "ledger/outbox", "internal/database", "internal/disk", "internal/parallel"},
	"network/trust":          {""},
	"network/server/ask":     {"network/control"},
	"network/haproxy":        {"network/api", "network/control", "network/server/ask", "internal/disk"},
	"network/server/trust":   {"", "network/control", "network/store", "network/trend", "network/trust", "network/server/ask", "network/server/egress"},
	"network/server/egress":  {},
	"network/server/rentals": {"", "campaign/node", "campaign/provider", "campaign/record", "campaign/rent", "campaign/store", "network/api", "network/server"},
	"network/server/routing": {"", "network/control", "network/store"},
	"network/server/oidc":    {"network/api", "network/server", "network/store", "internal/yamltext"},
	"network/server/webhook": {},
	"network/server/trace":   {},

	"campaign/provider":            {""},
	"campaign/provider/vast":       {"", "campaign/provider"},
	"campaign/provider/tensordock": {"", "campaign/provider"},
	"campaign/provider/static":     {"", "campaign/provider", "internal/disk"},
	"campaign/provider/command":    {"", "campaign/provider", "internal/child"},
	"campaign/store":               {"", "campaign/provider", "internal/database"},
	"campaign/rent":                {"", "campaign/provider", "campaign/store"},
	"campaign/record":              {"", "campaign", "campaign/store", "docs/formats/schema", "journal", "report", "summary"},
	"campaign/reap":                {"", "campaign/provider", "campaign/rent", "campaign/store"},
	"campaign/sandbox":             {"", "internal/child"},
	"campaign/sandbox/pretend":     {"campaign/sandbox", "internal/proc"},
	"campaign":                     {"", "campaign/provider", "internal/yamltext"},
	"campaign/node":                {"", "journal", "summary", "internal/disk"},
	"campaign/flow":                {"campaign", "campaign/node", "campaign/provider", "campaign/record", "campaign/rent", "campaign/store", "internal/disk", "internal/proc"},

	"internal/clock":    {},
	"internal/database": {"internal/disk"},
	"internal/disk":     {},
	"internal/foreign":  {},
	"internal/promtext": {},
	"internal/yamltext": {},
	"internal/parallel": {},
	"internal/nvml":     {},
	"internal/opencl":   {},
	"internal/cuda":     {},
	"internal/proc":     {},
	"internal/child":    {"internal/foreign", "internal/proc"},

	"cmd/internal/cli":            {"", "internal/disk", "ledger", "report"},
	"cmd/internal/cli/clouds":     {"campaign/node", "campaign/provider", "campaign/provider/command", "campaign/provider/static", "campaign/provider/tensordock", "campaign/provider/vast", "campaign/rent", "campaign/store", "internal/yamltext", "ledger"},
	"cmd/internal/cli/brokers":    {"cmd/internal/cli", "ledger", "ledger/kafka"},
	"cmd/internal/cli/keys":       {"ledger"},
	"cmd/internal/cli/native":     {"", "internal/proc", "telemetry", "verify"},
	"cmd/internal/cli/publish":    {"", "cmd/internal/cli", "ledger", "ledger/outbox", "telemetry"},
	"cmd/internal/hammer":         {"", "cmd/internal/cli", "cmd/internal/cli/keys", "cmd/internal/cli/native", "cmd/internal/cli/publish", "cmd/internal/cli/vllm", "hammer", "internal/disk", "internal/yamltext", "journal", "ledger", "report", "report/dialect", "score", "summary", "telemetry", "verify"},
	"cmd/internal/cli/vllm":       {"", "hammer", "journal", "report/dialect"},
	"cmd/internal/verify":         {"", "cmd/internal/cli", "cmd/internal/cli/native", "cmd/internal/cli/publish", "hammer", "journal", "ledger", "report", "verify"},
	"cmd/internal/simulate":       {"internal/disk", "simulate"},
	"cmd/internal/report":         {"", "cmd/internal/cli", "cmd/internal/cli/vllm", "hammer", "journal", "report", "report/dialect", "summary"},
	"cmd/internal/report/parquet": {"cmd/internal/cli", "cmd/internal/report", "journal", "report/parquet"},
	"cmd/internal/ledger":         {"", "cmd/internal/cli", "cmd/internal/cli/keys", "hammer", "internal/disk", "journal", "ledger", "summary", "telemetry"},
	"cmd/internal/ledger/operate": {"cmd/internal/cli", "cmd/internal/cli/brokers", "cmd/internal/cli/keys", "cmd/internal/cli/publish", "cmd/internal/ledger", "internal/disk", "ledger", "ledger/kafka", "ledger/notary", "ledger/tlog", "ledger/witness", "report"},
	"cmd/internal/compare":        {"", "cmd/internal/cli", "cmd/internal/cli/native", "compare", "compare/experiment", "report", "report/plot"},
	"cmd/internal/claims":         {"", "claims", "claims/engine", "claims/gpu", "claims/host", "claims/profile", "claims/show", "cmd/internal/cli", "cmd/internal/cli/native", "internal/disk", "report"},
	"cmd/internal/agent":          {"", "cmd/internal/cli", "cmd/internal/cli/keys", "cmd/internal/cli/native", "hammer", "ledger", "network/agent", "network/api", "telemetry", "verify"},
	"cmd/internal/campaign":       {"", "cmd/internal/cli/clouds", "cmd/internal/cli/keys", "campaign", "campaign/flow", "campaign/node", "campaign/provider", "campaign/record", "campaign/reap", "campaign/rent", "campaign/sandbox", "campaign/sandbox/pretend", "campaign/store", "cmd/internal/cli", "cmd/internal/cli/native", "examples/campaigns", "internal/database", "internal/disk", "internal/yamltext", "journal", "ledger", "report", "report/plot"},
	"cmd/internal/cli/remote":     {"cmd/internal/cli", "network/api", "report"},
	"cmd/internal/node":           {"", "cmd/internal/cli", "cmd/internal/cli/remote", "network/api", "report"},
	"cmd/internal/docs":           {"cmd/internal/cli", "docs", "docs/site", "internal/disk"},
	"cmd/internal/server":         {"", "campaign/provider", "campaign/rent", "campaign/store", "cmd/internal/cli/clouds", "network/server/rentals", "cmd/internal/cli", "cmd/internal/cli/brokers", "cmd/internal/cli/remote", "cmd/internal/cli/keys", "internal/database", "internal/disk", "internal/parallel", "ledger", "ledger/kafka", "ledger/outbox", "network/api", "network/control", "network/evidence", "network/haproxy", "network/place", "network/server", "network/server/decide", "network/server/egress", "network/server/ask", "network/server/oidc", "network/server/routing", "network/server/trace", "network/server/trust", "network/server/webhook", "network/store", "network/trust/fingerprint", "report"},
	"cmd/assay":                   {"cmd/internal/agent", "cmd/internal/campaign", "cmd/internal/node", "cmd/internal/server", "cmd/internal/claims", "cmd/internal/cli", "cmd/internal/cli/native", "cmd/internal/compare", "cmd/internal/docs", "cmd/internal/hammer", "cmd/internal/ledger", "cmd/internal/ledger/operate", "cmd/internal/report", "cmd/internal/report/parquet", "cmd/internal/simulate", "cmd/internal/verify"},
	"cmd/assay-node":              {"cmd/internal/agent", "cmd/internal/cli", "cmd/internal/cli/native", "cmd/internal/hammer", "cmd/internal/ledger", "cmd/internal/report", "cmd/internal/simulate", "cmd/internal/verify"},
}

// ground is what every package may import but the root and stat, which import
// nothing of ours: text from outside reaches all of them, and so do counters.
var ground = []string{"internal/foreign", "internal/promtext"}

type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func goList(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		var ee *exec.ExitError
		if errors.As(err, &ee) {
			t.Fatalf("go list: %v\n%s", err, ee.Stderr)
		}
		t.Fatal(err)
	}
	return out
}

func packages(t *testing.T) []listed {
	t.Helper()
	var all []listed
	dec := json.NewDecoder(bytes.NewReader(goList(t, "-json=ImportPath,Imports,TestImports,XTestImports", "./...")))
	for {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func short(path string) (string, bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

func TestImportsFollowTheTable(t *testing.T) {
	for _, p := range packages(t) {
		name, ok := short(p.ImportPath)
		if !ok || strings.HasPrefix(name, "tools/") {
			continue // tools of our own workshop may look at everything
		}
		if strings.HasSuffix(name, "test") {
			continue // made for tests of several packages, as nvmltest
		}
		allowed, ok := mayImport[name]
		if !ok {
			t.Errorf("package %s is not in the import table", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if dep, ours := short(imp); ours && !slices.Contains(allowed, dep) && (!slices.Contains(ground, dep) || name == "" || name == "stat") {
				t.Errorf("%s imports %s, which the table does not allow", p.ImportPath, imp)
			}
			if imp == "html/template" && name != "report" && name != "network/server" && name != "docs/site" {
				t.Errorf("%s imports html/template; only report, server and the site of the documentation may", p.ImportPath)
			}
			if name == "" && strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") {
				t.Errorf("the root package imports %s; it may import the standard library only", imp)
			}
		}
	}
}

// The floors of the house, whatever the table says: internal is the ground and
// imports nothing of ours beside itself, tests included; nothing but cmd imports
// cmd/internal; and there no command imports another's, for what they share is in
// cli.
func TestFloors(t *testing.T) {
	for _, p := range packages(t) {
		name, _ := short(p.ImportPath)
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			dep, ours := short(imp)
			if !ours {
				continue
			}
			if strings.HasPrefix(name, "internal/") && !strings.HasPrefix(dep, "internal/") {
				t.Errorf("%s imports %s; internal is the ground, and stands on nothing of ours", name, imp)
			}
			if why := aboveGround(name, dep); why != "" {
				t.Errorf("%s imports %s; %s", name, imp, why)
			}
		}
	}
}

// aboveGround says why a package may not import one of cmd; empty: it may.
func aboveGround(name, dep string) string {
	command, below := strings.CutPrefix(dep, "cmd/internal/")
	switch {
	case !strings.HasPrefix(dep, "cmd/"):
		return ""
	case !strings.HasPrefix(name, "cmd/"):
		return "only cmd imports what is below cmd"
	case !below:
		return "a main is no library"
	}
	noun, _, _ := strings.Cut(command, "/")
	own, inside := strings.CutPrefix(name, "cmd/internal/")
	if own, _, _ = strings.Cut(own, "/"); inside && noun != "cli" && noun != own {
		return "what two commands share is in cmd/internal/cli"
	}
	return ""
}

func TestFloorsAreSeen(t *testing.T) {
	for _, c := range []struct {
		name, dep string
		bad       bool
	}{
		{"cmd/assay", "cmd/internal/hammer", false},
		{"cmd/internal/hammer", "cmd/internal/cli/keys", false},
		{"cmd/internal/ledger/operate", "cmd/internal/ledger", false},
		{"cmd/internal/hammer", "hammer", false},
		{"cmd/internal/hammer", "cmd/internal/verify", true},
		{"cmd/internal/cli/keys", "cmd/internal/ledger", true},
		{"deploy", "cmd/internal/cli", true},
		{"cmd/internal/cli", "cmd/assay", true},
	} {
		if why := aboveGround(c.name, c.dep); (why != "") != c.bad {
			t.Errorf("%s imports %s: %q", c.name, c.dep, why)
		}
	}
}

// What the node's binary is made of changes only on purpose.
func TestNodeDependenciesAreGolden(t *testing.T) {
	var deps []string
	for line := range strings.Lines(string(goList(t, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./cmd/assay-node"))) {
		if line = strings.TrimSpace(line); line != "" {
			deps = append(deps, line)
		}
	}
	slices.Sort(deps)
	got := strings.Join(deps, "\n") + "\n"
	golden := filepath.Join("testdata", "assay-node.deps")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the dependencies of cmd/assay-node changed; if on purpose, run go test -update .\n%s", lineDiff(string(want), got))
	}
}

func lineDiff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var b strings.Builder
	for _, l := range w {
		if !slices.Contains(g, l) {
			fmt.Fprintln(&b, "-", l)
		}
	}
	for _, l := range g {
		if !slices.Contains(w, l) {
			fmt.Fprintln(&b, "+", l)
		}
	}
	return b.String()
}

// forbidden are calls that only cmd may make.
var forbidden = map[string][]string{
	"os":  {"Exit", "Getenv", "LookupEnv", "Environ", "Setenv", "ExpandEnv", "Executable"},
	"log": {"Fatal", "Fatalf", "Fatalln", "Print", "Printf", "Println"},
}

func eachFile(t *testing.T, visit func(dir, path string, fset *token.FileSet, f *ast.File)) {
	t.Helper()
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != "." || d.Name() == "testdata" || path == "tools" || strings.HasSuffix(d.Name(), "test")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(f) { // whose shape is not ours to choose
			visit(filepath.ToSlash(filepath.Dir(path)), path, fset, f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestForbiddenCalls(t *testing.T) {
	eachFile(t, func(dir, _ string, fset *token.FileSet, f *ast.File) {
		if strings.HasPrefix(dir, "cmd/") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.SelectorExpr:
				if pkg, ok := x.X.(*ast.Ident); ok && slices.Contains(forbidden[pkg.Name], x.Sel.Name) {
					t.Errorf("%s: %s.%s belongs in cmd", fset.Position(x.Pos()), pkg.Name, x.Sel.Name)
				}
			case *ast.FuncDecl:
				if x.Name.Name == "init" && x.Recv == nil {
					t.Errorf("%s: no init functions", fset.Position(x.Pos()))
				}
			}
			return true
		})
	})
}

// starting are the ways to start a process. Whoever starts one must bound what it
// writes, end what it started and outlive neither a hang nor our own death:
// internal/child does that, and internal/proc for whole trees.
var starting = map[string][]string{
	"exec":    {"Command", "CommandContext", "Cmd"},
	"os":      {"StartProcess"},
	"syscall": {"ForkExec", "StartProcess"},
}

// mayStart are other files that start processes, and why.
var mayStart = map[string]string{
	"claims/host/spawn_linux.go":          "times the fork and the exec themselves",
	"campaign/sandbox/pretend/machine.go": "is the shell of a pretended machine, whose whole tree who started it holds by internal/proc",
}

func TestOnlyChildAndProcStartProcesses(t *testing.T) {
	starts := map[string]bool{}
	eachFile(t, func(dir, path string, fset *token.FileSet, f *ast.File) {
		path = filepath.ToSlash(path)
		ast.Inspect(f, func(n ast.Node) bool {
			x, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := x.X.(*ast.Ident); ok && slices.Contains(starting[pkg.Name], x.Sel.Name) {
				starts[path] = true
				if dir != "internal/proc" && dir != "internal/child" && mayStart[path] == "" {
					t.Errorf("%s: %s.%s: start processes by internal/child, or by internal/proc where a whole tree is to end", fset.Position(x.Pos()), pkg.Name, x.Sel.Name)
				}
			}
			return true
		})
	})
	for path := range mayStart {
		if !starts[path] {
			t.Errorf("%s starts no process any more: take it off the list", path)
		}
	}
}

func TestInterfacesAreSmall(t *testing.T) {
	eachFile(t, func(_, _ string, fset *token.FileSet, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			if i, ok := n.(*ast.InterfaceType); ok && i.Methods.NumFields() > 4 {
				t.Errorf("%s: an interface of %d methods; four is the most", fset.Position(i.Pos()), i.Methods.NumFields())
			}
			return true
		})
	})
}

// Only summary takes quantiles of requests: everybody else reads the summary. So
// who can get at requests, from a journal, a run or an engine, has no use for stat.
// The exception is what compares whole runs: its samples are runs.
func TestOnlySummaryTakesQuantiles(t *testing.T) {
	for _, p := range packages(t) {
		name, ok := short(p.ImportPath)
		if !ok || name == "summary" || strings.HasPrefix(name, "compare") || strings.HasPrefix(name, "tools/") || !slices.Contains(p.Imports, module+"/stat") {
			continue
		}
		for _, from := range []string{"journal", "hammer", "inference"} {
			if slices.Contains(p.Imports, module+"/"+from) {
				t.Errorf("%s imports stat and %s; quantiles over requests are summary's", name, from)
			}
		}
	}
}

func TestPackageNamesSaySomething(t *testing.T) {
	eachFile(t, func(dir, path string, _ *token.FileSet, f *ast.File) {
		switch f.Name.Name {
		case "util", "utils", "common", "helpers", "models", "types":
			t.Errorf("%s: package %s says nothing", path, f.Name.Name)
		}
		for _, word := range []string{"Manager", "Helper", "Service", "Impl"} {
			ast.Inspect(f, func(n ast.Node) bool {
				if ts, ok := n.(*ast.TypeSpec); ok && strings.HasSuffix(ts.Name.Name, word) {
					t.Errorf("%s: type %s: name it for what it is", dir, ts.Name.Name)
				}
				return true
			})
		}
	})
}

// A package above 4,000 lines or 30 files has its reason in docs/design.md, and
// none is listed there that has become small.
func TestLargePackagesHaveAReason(t *testing.T) {
	const maxLines, maxFiles = 4000, 30
	page, err := os.ReadFile("docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "## Large packages")
	if !ok {
		t.Fatal("docs/design.md has no table of large packages")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	for _, p := range packages(t) {
		name, _ := short(p.ImportPath)
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash("./"+name), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		lines, n := 0, 0
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") || strings.HasSuffix(f, ".gen.go") {
				continue
			}
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			lines, n = lines+bytes.Count(b, []byte("\n")), n+1
		}
		large, listed := lines > maxLines || n > maxFiles, strings.Contains(table, "| `"+name+"` |")
		if large != listed {
			t.Errorf("%s has %d lines in %d files, and is in the table of large packages: %v", name, lines, n, listed)
		}
	}
}

package deploy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/parttest"
)

const (
	alertsFile    = "prometheus/assay.rules.yaml"
	casesFile     = "prometheus/assay.test.yaml"
	dashboardFile = "grafana/assay-network.json"
)

// metricName is a name of one of our families, as expressions have it.
var metricName = regexp.MustCompile(`\bassay_[a-z0-9_]+`)

// exported are the families that our programs export: those of the tables, and
// those that the code of servers names.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, m := range assay.Metrics() {
		names[m.Name] = true
	}
	for _, r := range assay.ReadingNames() {
		names["assay_"+r.Name] = true
	}
	fset := token.NewFileSet()
	err := filepath.WalkDir("../network", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil && metricName.FindString(s) == s {
					names[s] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// unknownIn are the families of an expression that nothing exports.
func unknownIn(expr string, known map[string]bool) (out []string) {
	for _, name := range metricName.FindAllString(expr, -1) {
		family := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if f, ok := strings.CutSuffix(name, suffix); ok && known[f] {
				family = f
			}
		}
		if !known[family] {
			out = append(out, name)
		}
	}
	return out
}

type rules struct {
	Groups []ruleGroup `yaml:"groups"`
}

type ruleGroup struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

type rule struct {
	Alert       string            `yaml:"alert,omitempty"`
	Record      string            `yaml:"record,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

func readAlerts(t *testing.T) rules {
	t.Helper()
	b, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var r rules
	if err := yaml.UnmarshalWithOptions(b, &r, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return r
}

// Each alert rests on metrics that there are, and says what to do.
func TestAlerts(t *testing.T) {
	known, n := exported(t), 0
	if got := unknownIn("assay_server_nosuch > 0", known); len(got) != 1 {
		t.Error("a metric that nothing exports is taken")
	}
	for _, g := range readAlerts(t).Groups {
		for _, r := range g.Rules {
			n++
			if bad := unknownIn(r.Expr, known); len(bad) > 0 {
				t.Errorf("%s: nothing exports %v", r.Alert, bad)
			}
			if s := r.Labels["severity"]; s != "page" && s != "ticket" {
				t.Errorf("%s: severity %q", r.Alert, s)
			}
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s says nothing to whom it wakes", r.Alert)
			}
		}
	}
	if n < 20 {
		t.Errorf("%d alerts were read", n)
	}
}

// promtool runs Debian's promtool, and gives what it printed.
func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.Command(parttest.Install(t, "promtool"), args...).CombinedOutput()
	return string(out), err
}

// Prometheus takes the alerts, and each fires in its case and stays silent in the
// other.
func TestAlertsFire(t *testing.T) {
	for _, args := range [][]string{
		{"check", "rules", alertsFile}, {"test", "rules", casesFile}, {"check", "config", "--syntax-only", "prometheus/prometheus.yml"},
	} {
		if out, err := promtool(t, args...); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	cases, err := os.ReadFile(casesFile)
	if err != nil {
		t.Fatal(err)
	}
	// Alerts that never fire, or always do, fail the half of the cases that is about
	// that, each of them.
	for expr, which := range map[string]string{"vector(1) == 0": "fires", "vector(1)": "does not"} {
		dir := t.TempDir()
		r := readAlerts(t)
		for i := range r.Groups {
			for j := range r.Groups[i].Rules {
				r.Groups[i].Rules[j].Expr, r.Groups[i].Rules[j].For = expr, ""
			}
		}
		b, err := yaml.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{alertsFile: b, casesFile: cases} {
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		out, err := promtool(t, "test", "rules", filepath.Join(dir, filepath.Base(casesFile)))
		if err == nil {
			t.Errorf("all cases pass with %s in place of each alert", expr)
		}
		for _, g := range r.Groups {
			for _, a := range g.Rules {
				if !strings.Contains(out, "name: "+a.Alert+" "+which+",") {
					t.Errorf("no case fails in which %s %s", a.Alert, which)
				}
			}
		}
	}
}

type dashboard struct {
	UID    string  `json:"uid"`
	Panels []panel `json:"panels"`
}

type panel struct {
	ID    int    `json:"id"`
	Type  string `json:"type"`
	Title string `json:"title"`
	Grid  struct {
		H, W, X, Y int
	} `json:"gridPos"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	b, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) < 20 {
		t.Fatalf("%d panels were read", len(d.Panels))
	}
	return d
}

// The dashboard's panels lie beside each other, and each shows metrics that there
// are by an expression that Prometheus takes.
func TestDashboard(t *testing.T) {
	known, ids, cells := exported(t), map[int]bool{}, map[[2]int]string{}
	var all rules
	all.Groups = []ruleGroup{{Name: "dashboard"}}
	for _, p := range readDashboard(t).Panels {
		if ids[p.ID] || p.Grid.W < 1 || p.Grid.X+p.Grid.W > 24 {
			t.Errorf("%s: its id is not its own, or it is not on the grid", p.Title)
		}
		ids[p.ID] = true
		for x := range p.Grid.W {
			for y := range p.Grid.H {
				at := [2]int{p.Grid.X + x, p.Grid.Y + y}
				if other, taken := cells[at]; taken {
					t.Fatalf("%s lies on %s", p.Title, other)
				}
				cells[at] = p.Title
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			if bad := unknownIn(target.Expr, known); len(bad) > 0 {
				t.Errorf("%s: nothing exports %v", p.Title, bad)
			}
			// Grafana puts the chosen nodes in a variable's place.
			expr := strings.ReplaceAll(target.Expr, "$node", ".*")
			all.Groups[0].Rules = append(all.Groups[0].Rules, rule{Record: fmt.Sprintf("panel:%d:%d", p.ID, len(all.Groups[0].Rules)), Expr: expr})
		}
	}
	b, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dashboard.rules.yaml")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, "check", "rules", file); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	if err := os.WriteFile(file, bytes.Replace(b, []byte("sum"), []byte("sum by"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := promtool(t, "check", "rules", file); err == nil {
		t.Error("promtool takes an expression that is none")
	}
}

// dashboardType has the dashboard's text behind it.
const dashboardType = `import type { Dashboard } from '@grafana/schema';
// Plain is a type whose enumerations are words, as in JSON.
type Plain<T> = T extends string ? ` + "`${T}`" + ` : T extends (infer U)[] ? Plain<U>[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
export const dashboard: Plain<Dashboard> = `

// The dashboard is what Grafana's own types ask for: no member that they do not know,
// and no value of another type.
func TestDashboardIsGrafanas(t *testing.T) {
	dir := parttest.Install(t, "grafana-types")
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	compile := func(text []byte) error {
		own := t.TempDir()
		if err := errors.Join(os.WriteFile(filepath.Join(own, "dashboard.ts"), append([]byte(dashboardType), text...), 0o644),
			os.Symlink(filepath.Join(dir, "node_modules"), filepath.Join(own, "node_modules"))); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(filepath.Join(dir, "node_modules", ".bin", "tsc"),
			"--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--moduleResolution", "nodenext", "--target", "es2022", "dashboard.ts")
		cmd.Dir = own
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	}
	if err := compile(text); err != nil {
		t.Error(err)
	}
	bad := bytes.Replace(text, []byte(`"collapsed"`), []byte(`"colapsed"`), 1)
	if bytes.Equal(bad, text) || compile(bad) == nil {
		t.Error("a member that there is not passes")
	}
}

package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"html"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

var small = Chart{Title: "Time to first token", X: Axis{Label: "streams", Log: true}, Y: Axis{Label: "TTFT", Unit: "ms", Zero: true}, Kind: ChartLine,
	Lines: []Line{{Name: "p50", X: []float64{1, 2, 4, 8}, Y: []float64{40, 41, math.NaN(), 60}, Lo: []float64{39, 40, math.NaN(), 55}, Hi: []float64{41, 43, math.NaN(), 70}}},
	Spans: []Span{{From: 4, To: 8, Label: "hot", Kind: SpanBad}}, Marks: []Mark{{At: 5.5, Label: "knee"}}, Note: "a note"}

var smallPage = Page{Title: "A small page", Blocks: []Block{
	Verdict{Of: "node", Verdict: assay.Fail, Score: assay.Quantity{N: 3, Est: 0.5, Lo: 0.4, Hi: 0.6}, Why: "because", Note: "note"},
	Bars{Title: "Parts", Bars: []Bar{{Name: "latency", Value: assay.Quantity{N: 1, Est: 0.75, Lo: 0.7, Hi: 0.8}, Note: "weight 0.5"}, {Name: "efficiency", Value: assay.UnknownQuantity("no power")}}},
	Heading{"Figures"},
	Table{Title: "Stages", Columns: []Column{{Name: "stage"}, {Group: "TTFT", Name: "p50"}, {Group: "TTFT", Name: "p99"}, {Name: "kept"}, {Name: "why", Words: true}},
		Rows: [][]string{{"c1", "40", "n<368", "pass", "all | limits *kept*"}}, Note: "one\ntwo"},
	small,
	Chart{Title: "Nothing", Lines: []Line{{Name: "empty"}}},
	Paragraph{Head: "client ", Text: "certified"},
	List{"next   ", []string{"go on", "stop"}},
}}

// The page is golden but for what we did not write: the library's bytes.
func TestHTMLGolden(t *testing.T) {
	var b bytes.Buffer
	if err := HTML(&b, smallPage); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	text = regexp.MustCompile(`(?s)<style>.*?</style>`).ReplaceAllString(text, "<style>…</style>")
	text = regexp.MustCompile(`(?s)<script>.*?</script>`).ReplaceAllString(text, "<script>…</script>")
	text = regexp.MustCompile(`sha256-[^ ]*&#39;`).ReplaceAllString(text, "sha256-…&#39;")
	golden(t, "small.html", []byte(text))
}

// The policy names exactly the one script and the one style that are there.
func TestPolicyHashes(t *testing.T) {
	var b bytes.Buffer
	if err := HTML(&b, smallPage); err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(b.String())
	if m == nil {
		t.Fatal("the page has no policy")
	}
	policy := html.UnescapeString(m[1])
	for tag, directive := range map[string]string{"script": "script-src", "style": "style-src"} {
		bodies := regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`+tag+`>`).FindAllStringSubmatch(b.String(), -1)
		if len(bodies) != 1 {
			t.Fatalf("%d elements %s without attributes, want 1", len(bodies), tag)
		}
		sum := sha256.Sum256([]byte(bodies[0][1]))
		if want := directive + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, want+";") {
			t.Errorf("the policy is %s, and lacks %s", policy, want)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("the policy is not strict: %s", policy)
	}
	licence, err := os.ReadFile("asset/uPlot-1.6.32.LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), string(licence)) {
		t.Error("the licence of uPlot is not in the file that carries it")
	}
}

// Whatever an engine or a driver is called, it stays text.
func TestHostileNamesStayText(t *testing.T) {
	const evil = "</script><script>alert(1)</script><!--\"'`|\u202e\x00\x1b[31m\u2028<img src=x onerror=alert(2)>"
	in := sick()
	in.Summary.Engine.Model = evil
	in.Manifest.Node.GPUs[0].Name = evil
	in.Health.NodeID = evil
	in.Health.Findings[0].Text = evil
	in.Health.Score.Deductions[0].Because = evil
	in.Health.Cost.Currency = evil
	in.Summary.Stages[0].Name = evil
	in.Checks[0].Evidence = strings.Repeat(evil, 10_000)
	for i := range in.Series {
		if in.Series[i].Device != "" {
			in.Series[i].Device = evil
		}
	}
	var quiet, loud bytes.Buffer
	if err := HTML(&quiet, Health(sick())); err != nil {
		t.Fatal(err)
	}
	if err := HTML(&loud, Health(in)); err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"<script", "</script", "<img", "<!--", "onerror=alert(2)>"} {
		if got, want := strings.Count(loud.String(), tag), strings.Count(quiet.String(), tag); got != want {
			t.Errorf("%d times %s, want %d", got, tag, want)
		}
	}
	if strings.ContainsAny(loud.String(), "\u202e\x00\x1b\u2028") {
		t.Error("a control character reaches the page")
	}
	if loud.Len() > quiet.Len()+200_000 {
		t.Errorf("the page grew to %d bytes", loud.Len())
	}
	if ds := drawings(t, loud.String()); len(ds) == 0 {
		t.Error("no charts")
	}
	for name, render := range map[string]func(*bytes.Buffer) error{
		"text": func(b *bytes.Buffer) error { return Text(b, Health(in)) }, "markdown": func(b *bytes.Buffer) error { return Markdown(b, Health(in)) },
	} {
		var b bytes.Buffer
		if err := render(&b); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(b.String(), "\u202e\x00\x1b") {
			t.Errorf("a control character reaches the %s", name)
		}
		if name == "markdown" && (strings.Contains(b.String(), "<script") || strings.Contains(b.String(), "<img")) {
			t.Error("an element reaches the markdown")
		}
	}
}

func TestMarkdownGolden(t *testing.T) {
	var b bytes.Buffer
	if err := Markdown(&b, smallPage); err != nil {
		t.Fatal(err)
	}
	golden(t, "small.md", b.Bytes())
	b.Reset()
	if err := Markdown(&b, Health(sick())); err != nil {
		t.Fatal(err)
	}
	golden(t, "health.md", b.Bytes())
}

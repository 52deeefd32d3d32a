package show

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/foreign"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name      string      `xml:"name,attr"`
	Tests     int         `xml:"tests,attr"`
	Failures  int         `xml:"failures,attr"`
	Errors    int         `xml:"errors,attr"`
	Skipped   int         `xml:"skipped,attr"`
	Time      string      `xml:"time,attr"`
	Timestamp string      `xml:"timestamp,attr"`
	Cases     []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string     `xml:"name,attr"`
	Class   string     `xml:"classname,attr"`
	File    string     `xml:"file,attr,omitempty"`
	Line    int        `xml:"line,attr,omitempty"`
	Time    string     `xml:"time,attr"`
	Failure *junitWord `xml:"failure,omitempty"`
	Error   *junitWord `xml:"error,omitempty"`
	Output  string     `xml:"system-out,omitempty"`
}

type junitWord struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes the claims as test cases, a suite for each family. A claim that is
// unknown is an error, not skipped: what reads these files takes a skipped test
// for no harm, and unknown is not a pass.
func JUnit(w io.Writer, r *claims.Result) error {
	out := junitSuites{Name: plain(r.Name), Time: seconds(r.Ended.Sub(r.Started).Seconds())}
	at := map[string]int{}
	taken := map[string]float64{}
	for _, p := range r.Probes {
		taken[p.Name] = p.Seconds
	}
	add := func(family string, c junitCase, took float64) {
		i, ok := at[family]
		if !ok {
			i = len(out.Suites)
			at[family] = i
			out.Suites = append(out.Suites, junitSuite{Name: plain(family), Timestamp: r.Started.Format("2006-01-02T15:04:05"), Time: "0"})
		}
		s := &out.Suites[i]
		s.Tests++
		out.Tests++
		if c.Failure != nil {
			s.Failures++
			out.Failures++
		}
		if c.Error != nil {
			s.Errors++
			out.Errors++
		}
		c.Time = seconds(took)
		s.Cases = append(s.Cases, c)
	}
	for _, c := range r.Claims {
		said := plain(sentence(c))
		jc := junitCase{Name: plain(c.Name), Class: plain(c.Probe), File: plain(r.File), Line: c.Line, Output: said}
		switch c.Verdict {
		case assay.Pass:
		case assay.Fail:
			jc.Failure = &junitWord{Message: plain(c.Why), Type: "fail", Text: said}
		default:
			jc.Error = &junitWord{Message: plain(c.Why), Type: "unknown", Text: said}
		}
		add(claims.Probe{Name: c.Probe}.Family(), jc, taken[c.Probe])
	}
	for _, p := range r.WrongWithoutClaim() {
		add(claims.Probe{Name: p.Name}.Family(), junitCase{Name: plain(p.Name), Class: plain(p.Name),
			Failure: &junitWord{Message: plain(p.Why), Type: "fail", Text: plain(p.Why)}}, p.Seconds)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(out); err != nil {
		return fmt.Errorf("encode JUnit's XML: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(v float64) string { return fmt.Sprintf("%.3f", v) }

// maxText bounds one text, in bytes.
const maxText = 4 << 10

// plain takes out of text what XML, a terminal and a log must not obey.
func plain(s string) string { return foreign.Line(s, maxText) }

// sentence is the claim and what became of it in one line.
func sentence(c claims.ClaimResult) string {
	return fmt.Sprintf("%s: %s: %s of %s is %s, promised %s: %s", c.Name, c.Verdict, c.Metric, c.Probe, claims.FormatInterval(c.Measured, c.Unit), c.Target, c.Why)
}

// GitHub writes the claims that are not kept as workflow commands, which GitHub
// shows beside the claims file: broken ones as errors, unknown ones as warnings.
func GitHub(w io.Writer, r *claims.Result) error {
	var b strings.Builder
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	place := func(line int) string {
		if r.File == "" || line == 0 {
			return ""
		}
		return fmt.Sprintf("file=%s,line=%d,", property.Replace(plain(r.File)), line)
	}
	for _, c := range r.Claims {
		word := map[assay.Verdict]string{assay.Pass: "", assay.Fail: "error"}
		kind, known := word[c.Verdict]
		if !known {
			kind = "warning"
		}
		if kind == "" {
			continue
		}
		fmt.Fprintf(&b, "::%s %stitle=%s::%s\n", kind, place(c.Line), property.Replace(plain(fmt.Sprintf("claim %s: %s", c.Name, c.Verdict))), message.Replace(plain(sentence(c))))
	}
	for _, p := range r.WrongWithoutClaim() {
		fmt.Fprintf(&b, "::error title=%s::%s\n", property.Replace(plain("probe "+p.Name+" is wrong")), message.Replace(plain(p.Why)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

package experiment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/internal/proc"
)

func schemaOf(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "docs", "formats", "schema", name))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestJobsKeepTheirSchema(t *testing.T) {
	schema := schemaOf(t, "benchmark-job.schema.json")
	c := quick(1, EngineConfig{Name: "a", BinaryPath: "./a"})
	c.Workloads = append(c.Workloads, WorkloadConfig{Name: "r", InputLen: 5, OutputLen: 6, Iterations: 2, RequestRate: 3})
	c.fill()
	for _, w := range append(c.Workloads, checkWorkload()) {
		b, err := json.Marshal(jobOf(w, 0, 1))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: %v", b, err)
		}
	}
}

// lineOf makes a line of request n that is right, and then changes it.
func lineOf(began time.Time, n int, change func(map[string]any)) string {
	at := began.UnixNano() + int64(n)*1000
	m := map[string]any{
		"id": fmt.Sprint("r", n), "prompt": n, "sent_ns": at, "first_ns": at + 5_000, "last_ns": at + 25_000, "end_ns": at + 26_000,
		"output_tokens": 3, "gaps_us": []int{10, 10},
	}
	if n < 1 {
		m["warmup"] = true
	}
	if change != nil {
		change(m)
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b) + "\n"
}

func TestBinaryLines(t *testing.T) {
	began := time.Now()
	set := func(k string, v any) func(map[string]any) { return func(m map[string]any) { m[k] = v } }
	del := func(k string) func(map[string]any) { return func(m map[string]any) { delete(m, k) } }
	at := began.UnixNano()
	tests := []struct {
		name   string
		change func(map[string]any) // of the second line
		want   string               // empty: nothing is wrong
	}{
		{"right", nil, ""},
		{"unknown member", set("novel", 1), ""},
		{"a certificate of its own making", func(m map[string]any) { m["reads"], m["max_lag_us"], m["text"] = 5, 1, "x" }, ""},
		{"a failure", func(m map[string]any) {
			clear(m)
			m["id"], m["prompt"], m["sent_ns"], m["end_ns"], m["error"] = "x", 1, at, at+5, "timeout"
		}, ""},
		{"no gaps", del("gaps_us"), ""},
		{"its stage", set("stage", "w"), ""},
		{"another stage", set("stage", "v"), `line 2: stage is "v"`},
		{"no id", del("id"), "line 2: id must have 1 to 200"},
		{"long id", set("id", strings.Repeat("x", 201)), "line 2: id must have"},
		{"id twice", set("id", "r0"), `line 2: id "r0" was there before`},
		{"prompt twice", set("prompt", 0), "line 2: prompt 0 was there before"},
		{"prompt beyond", set("prompt", 3), "line 2: prompt is 3, and there are 3 requests"},
		{"prompt below", set("prompt", -1), "line 2: prompt is -1"},
		{"a warm-up that is none", set("warmup", true), "line 2: warmup is true for prompt 1"},
		{"not sent", del("sent_ns"), "line 2: sent_ns is missing"},
		{"no first", del("first_ns"), "line 2: first_ns is missing"},
		{"no last", del("last_ns"), "line 2: last_ns is missing"},
		{"no end", del("end_ns"), "line 2: end_ns is missing"},
		{"first before sent", set("first_ns", at), "line 2: first_ns lies 1µs before sent_ns"},
		{"last before first", set("last_ns", at+5_000), "line 2: last_ns lies 1µs before first_ns"},
		{"microseconds", set("sent_ns", at/1000), "line 2: sent_ns lies"},
		{"the future", func(m map[string]any) { m["end_ns"] = at + int64(time.Hour) }, "line 2: end_ns lies in the future"},
		{"scheduled in another age", set("scheduled_ns", 5), "line 2: a time lies outside"},
		{"no tokens", set("output_tokens", 0), "line 2: output_tokens is 0"},
		{"negative tokens", set("output_tokens", -3), "line 2: output_tokens is -3"},
		{"no such failure", set("error", "bad luck"), `line 2: error is "bad luck"`},
		{"gaps that do not add up", set("gaps_us", []int{10, 500}), "line 2: gaps_us add up to 510 µs, and last_ns lies 20"},
		{"too many gaps", set("gaps_us", []int{5, 5, 5, 5}), "line 2: gaps_us has 4 entries for 3 tokens"},
		{"chunks", set("chunk_tokens", []int{1}), "line 2: chunk_tokens has 1 entries and gaps_us 2"},
		{"counted by whom", set("tokens_from", "me"), "line 2: tokens_from"},
		{"a number in words", set("sent_ns", "now"), "line 2: it is not a request line"},
		{"a fraction", set("sent_ns", 1.5), "line 2: it is not a request line"},
	}
	job := Job{Workload: "w", Requests: 2, Warmups: 1}
	for _, tt := range tests {
		var got []assay.Request
		l := newLines(job, began, nil)
		l.give = func(r *assay.Request) error { got = append(got, *r); return nil }
		out := lineOf(began, 0, nil) + lineOf(began, 1, tt.change) + lineOf(began, 2, nil)
		for _, b := range []byte(out) { // one byte at a time, as a pipe may give it
			if _, err := l.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		problems := strings.Join(l.finish(), "; ")
		if tt.want == "" && (problems != "" || len(got) != 3) || tt.want != "" && !strings.HasPrefix(problems, tt.want) {
			t.Errorf("%s: %d lines, %q, want %q", tt.name, len(got), problems, tt.want)
		}
		if tt.want != "" && len(got) != 1 {
			t.Errorf("%s: %d lines were taken", tt.name, len(got))
		}
		if tt.want == "" && (got[1].Stage != "w" || got[1].Prompt != 1 || got[1].Reads+int(got[1].MaxLag) != 0 || got[1].Text != "") {
			t.Errorf("%s: %+v", tt.name, got[1])
		}
	}
}

func TestBinaryOutputAsAWhole(t *testing.T) {
	began := time.Now()
	job := Job{Workload: "w", Requests: 2, Warmups: 1}
	three := lineOf(began, 0, nil) + lineOf(began, 1, nil) + lineOf(began, 2, nil)
	tests := []struct{ name, out, want string }{
		{"whole", three, ""},
		{"nothing", "", "it wrote 0 lines, and the job asks for 3 (1 warm-ups and 2 requests)"},
		{"one missing", lineOf(began, 0, nil) + lineOf(began, 2, nil), "it wrote 2 lines"},
		{"one more", three + lineOf(began, 3, nil), "line 4: it is one more than the 3"},
		{"torn", strings.TrimSuffix(three, "\n"), "line 3: the last line has no newline"},
		{"chatter", "loading model...\n" + three, "line 1: it is not a request line"},
		{"two on a line", strings.Replace(three, "\n", " ", 1), "line 1: it has more than one JSON value"},
		{"an empty line", "\n" + three, "line 1: it is not a request line"},
		{"an endless line", strings.Repeat("x", maxLine+1), "line 1: it is longer than 1048576 bytes"},
	}
	for _, tt := range tests {
		l := newLines(job, began, nil)
		if _, err := l.Write([]byte(tt.out)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(l.finish(), "; "); (tt.want == "") != (got == "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	// What comes after an endless line costs nothing.
	l := newLines(job, began, nil)
	junk := bytes.Repeat([]byte("y"), 1<<20)
	for range 64 {
		_, _ = l.Write(junk)
	}
	if cap(l.buf) > 4<<20 {
		t.Errorf("%d bytes are held", cap(l.buf))
	}
	select {
	case <-l.broken:
	default:
		t.Error("the binary would go on")
	}
	// Problems are bounded, too.
	l = newLines(Job{Workload: "w", Requests: 100_000}, began, nil)
	_, _ = l.Write(bytes.Repeat([]byte("{}\n"), 50_000))
	if got := l.finish(); len(got) != maxProblems+1 || len(l.problems) != maxProblems {
		t.Errorf("%d problems", len(got))
	}
}

func TestCheckBinary(t *testing.T) {
	t.Parallel()
	need(t, "python3")
	l := newLab(t)
	script := func(body string) string {
		file := filepath.Join(l.dir, fmt.Sprintf("b%d", time.Now().UnixNano()))
		parttest.Program(t, file, []byte(body))
		return file
	}
	example, err := os.ReadFile("../../examples/benchmark-binary/bench.py")
	if err != nil {
		t.Fatal(err)
	}
	change := func(old, new string) string {
		if !strings.Contains(string(example), old) {
			t.Fatalf("%q is not in the example", old)
		}
		return strings.Replace(string(example), old, new, 1)
	}
	tests := []struct{ name, path, want string }{
		{"the example", "../../examples/benchmark-binary/bench.py", ""},
		{"never mind the job", script("#!/bin/sh\nexit 0\n"), "it wrote 0 lines"},
		{"fails", script("#!/bin/sh\necho no model >&2\nexit 4\n"), "it exited with code 4"},
		{"chatter", script(change("def read_job():", "print('hello')\ndef read_job():")), "line 1: it is not a request line"},
		{"wall clock in seconds", script(change("return WALL + time.monotonic_ns() - MONO", "return int(time.time())")), "line 1: sent_ns lies"},
		{"any format", script(change(`if job.get("format") != "assay/benchmark-job/v1":`, "if False:")), "a job of a format that it cannot know"},
		{"endless", script("#!/bin/sh\nexec yes '{}'\n"), "line 1: id must have"},
		{"a daemon", script("#!/bin/sh\nsleep 300 &\nexit 0\n"), "it wrote 0 lines"},
	}
	for _, tt := range tests {
		c, err := CheckBinary(t.Context(), tt.path, nil, l.opt)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := strings.Join(c.Problems, "; ")
		if tt.want == "" && (got != "" || c.Lines != 6) || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %d lines, %q, want %q (%s)", tt.name, c.Lines, got, tt.want, c.LogTail)
		}
	}
	if _, err := CheckBinary(t.Context(), filepath.Join(l.dir, "absent"), nil, l.opt); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("absent: %v", err)
	}
}

func TestNastyBinaries(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	key, value, _ := strings.Cut(l.mark, "=")
	bin := func(name, body string) EngineConfig {
		file := filepath.Join(l.dir, name)
		parttest.Program(t, file, []byte("#!/bin/sh\n"+body))
		return EngineConfig{Name: name, BinaryPath: file, Env: map[string]string{key: value}}
	}
	// Only what never ends has a timeout that it can miss.
	hangs := quick(1, bin("hangs", "trap '' TERM\necho thinking >&2\nsleep 300\n"))
	hangs.Workloads[0].Timeout = seconds(2)
	others := quick(1,
		bin("endless", "setsid sleep 300 &\nexec yes '{}'\n"),
		bin("killed", "kill -9 $$\n"),
		bin("silent", "cat >/dev/null\n"),
		l.engine("good", ""),
	)
	want := map[string]string{
		"endless": "its output breaks the protocol: line 1: id must", "hangs": "longer than its timeout of 2s",
		"killed": "ended by SIGKILL", "silent": "it wrote 0 lines", "good": "",
	}
	ran := 0
	for i, c := range []Config{hangs, others} {
		e, err := Run(t.Context(), c, filepath.Join(l.dir, fmt.Sprintf("out%d", i)), l.opt)
		if err != nil {
			t.Fatal(err)
		}
		l.nothingLeft(0)
		for _, s := range e.Samples {
			if !strings.Contains(s.Failed, want[s.Engine]) || (s.Failed == "") != (s.Engine == "good") {
				t.Errorf("%s: %q", s.Engine, s.Failed)
			}
		}
		ran += len(e.Samples)
	}
	if ran != len(want) {
		t.Errorf("%d samples", ran)
	}
}

func TestBinaryPath(t *testing.T) {
	for in, want := range map[string]string{"bench": "./bench", "./bench": "./bench", "/bin/x": "/bin/x", "a/b": "a/b"} {
		if got := binaryPath(in); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
	if p := exitProblems(proc.Exit{Code: 1}); len(p) != 1 {
		t.Error(p)
	}
}

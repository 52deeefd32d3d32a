package parquet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/parttest"
)

func each[T any](lines ...*T) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for _, l := range lines {
			if !yield(l, nil) {
				return
			}
		}
	}
}

// full has something in each field of a type, by reflection: a column that is
// forgotten is found.
func full(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		full(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			full(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range 3 {
			full(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	default:
		v.SetInt(*n)
	}
}

// names gives the JSON names of a type's fields, in order.
func names(t reflect.Type) []string {
	var out []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}

// asJSON reads a file back, each row as the JSON of its line.
func asJSON(t *testing.T, data []byte) []map[string]any {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	r := parquet.NewGenericReader[map[string]any](f, f.Schema())
	defer r.Close()
	rows := make([]map[string]any, r.NumRows())
	for i := range rows {
		rows[i] = map[string]any{}
	}
	if n, err := r.Read(rows); n != len(rows) || err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("%d rows of %d, %v", n, len(rows), err)
	}
	return rows
}

// line is a line's JSON as a map, its absent members left out.
func line(t *testing.T, v any) map[string]any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return plain(t, b)
}

func plain(t *testing.T, b []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// bare takes out what is absent: null, false, an empty list.
func bare(m map[string]any) {
	for k, v := range m {
		switch x := v.(type) {
		case nil:
			delete(m, k)
		case bool:
			if !x {
				delete(m, k)
			}
		case []any:
			if len(x) == 0 {
				delete(m, k)
			}
		case map[string]any:
			bare(x)
		}
	}
}

func TestRequestsReadBack(t *testing.T) {
	var a assay.Request
	var n int64
	full(reflect.ValueOf(&a).Elem(), &n)
	a.Gaps = []int32{10_000, -1 - 250, 0}
	b := assay.Request{ID: "b", Stage: "c1"} // nothing of it happened
	var buf bytes.Buffer
	if err := WriteRequests(&buf, each(&a, &b)); err != nil {
		t.Fatal(err)
	}
	check(t, buf.Bytes(), names(reflect.TypeFor[assay.Request]()), line(t, a), line(t, b))
	f, err := parquet.OpenFile(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if s := f.Schema().String(); !strings.Contains(s, "group gaps_us (LIST)") || !strings.Contains(s, "required int32 element") {
		t.Errorf("gaps_us is not a list of int32:\n%s", s)
	}
}

func TestReadingsReadBack(t *testing.T) {
	zero := 0.0
	a := assay.Reading{At: 1_790_000_000_000_000_000, Source: "nvml", Name: "gpu_power_watts", Device: "GPU-1", Value: &zero}
	b := assay.Reading{At: 1_790_000_000_100_000_000, Source: "client", Name: "client_lag_us", Counts: []int64{12, 3, 40, 1}}
	var buf bytes.Buffer
	if err := WriteReadings(&buf, each(&a, &b)); err != nil {
		t.Fatal(err)
	}
	check(t, buf.Bytes(), names(reflect.TypeFor[assay.Reading]()), line(t, a), line(t, b))
}

// check compares rows with lines, by their JSON.
func check(t *testing.T, data []byte, columns []string, want ...map[string]any) {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range f.Root().Columns() {
		got = append(got, c.Name())
	}
	slices.Sort(got)
	slices.Sort(columns)
	if diff := cmp.Diff(columns, got); diff != "" {
		t.Errorf("columns (-JSON +Parquet):\n%s", diff)
	}
	for i, row := range asJSON(t, data) {
		b, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		row = plain(t, b)
		bare(row)
		bare(want[i])
		if diff := cmp.Diff(want[i], row, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("row %d (-line +row):\n%s", i, diff)
		}
	}
}

func TestABrokenSequenceIsAnError(t *testing.T) {
	torn := errors.New("torn")
	err := WriteRequests(io.Discard, func(yield func(*assay.Request, error) bool) {
		_ = yield(&assay.Request{ID: "a"}, nil) && yield(nil, torn)
	})
	if !errors.Is(err, torn) {
		t.Errorf("%v", err)
	}
}

// Row groups end by bytes: memory holds one of them.
func TestRowGroupsAreBounded(t *testing.T) {
	r := assay.Request{ID: "a", Text: strings.Repeat("word ", 1<<10)}
	var buf bytes.Buffer
	if err := write(&buf, each(slices.Repeat([]*assay.Request{&r}, 40)...), requestRow, group{rows: 1000, bytes: 16 * 5 << 10}); err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.RowGroups()); n != 3 || f.NumRows() != 40 {
		t.Errorf("200 KB in %d row groups with %d rows, want 3 and 40", n, f.NumRows())
	}
}

// Memory does not grow with the run: what is live stays far below what was
// written. The texts are random, so that compression does not hide growth.
func TestMemoryIsFlat(t *testing.T) {
	const rows, size = 2_000, 64 << 10
	rng := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 4<<20)
	for i := range noise {
		noise[i] = ' ' + byte(rng.IntN(95))
	}
	text := string(noise)
	var most uint64
	written := &counter{}
	err := WriteRequests(written, func(yield func(*assay.Request, error) bool) {
		var m runtime.MemStats
		for i := range rows {
			at := rng.IntN(len(text) - size)
			if !yield(&assay.Request{ID: fmt.Sprint("request-", i), Text: text[at : at+size]}, nil) {
				return
			}
			if i%200 == 0 {
				runtime.GC()
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("live heap at most %d MB while %d MB were written from %d MB", most>>20, written.n>>20, rows*size>>20)
	if most > 96<<20 {
		t.Errorf("the heap grew to %d MB", most>>20)
	}
	if written.n < 100<<20 {
		t.Errorf("only %d MB were written: the test proves nothing", written.n>>20)
	}
}

type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return len(b), nil
}

// Another implementation, Apache Arrow's, reads the same rows out of the files.
func TestArrowReadsTheFiles(t *testing.T) {
	python := os.Getenv("ASSAY_PYARROW")
	if python == "" {
		parttest.Need(t, "ASSAY_PYARROW is not set: it names a Python that has pyarrow, as that of .ci/parts/vllm")
	}
	var a assay.Request
	var n int64
	full(reflect.ValueOf(&a).Elem(), &n)
	b := assay.Request{ID: "b", Stage: "c1"}
	v := 0.0
	watts := assay.Reading{At: 5, Source: "nvml", Name: assay.GPUPower, Device: "GPU-1", Value: &v}
	lag := assay.Reading{At: 6, Source: "client", Name: "client_lag_us", Counts: []int64{1, 2}}
	for name, f := range map[string]struct {
		write func(io.Writer) error
		want  []map[string]any
	}{
		"requests": {func(w io.Writer) error { return WriteRequests(w, each(&a, &b)) }, []map[string]any{line(t, a), line(t, b)}},
		"readings": {func(w io.Writer) error { return WriteReadings(w, each(&watts, &lag)) }, []map[string]any{line(t, watts), line(t, lag)}},
	} {
		var file bytes.Buffer
		if err := f.write(&file); err != nil {
			t.Fatal(err)
		}
		got := arrow(t, python, file.Bytes())
		for i := range got {
			bare(got[i])
		}
		if d := cmp.Diff(f.want, got); d != "" {
			t.Errorf("%s, as Arrow reads them (-want +got):\n%s", name, d)
		}
	}
}

// arrow gives the rows of a file as Apache Arrow reads them.
func arrow(t *testing.T, python string, file []byte) (rows []map[string]any) {
	t.Helper()
	// In one thread: those of its pool that still start when the interpreter ends
	// abort the process.
	const program = "import io, json, sys, pyarrow as a, pyarrow.parquet as p; a.set_cpu_count(1); a.set_io_thread_count(1); " +
		"json.dump(p.read_table(io.BytesIO(sys.stdin.buffer.read()), use_threads=False, pre_buffer=False).to_pylist(), sys.stdout)"
	cmd := exec.Command(python, "-c", program)
	cmd.Stdin = bytes.NewReader(file)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("pyarrow: %v\n%s", err, stderr.String())
	}
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

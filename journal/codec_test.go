package journal

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/assay-bench/assay"
)

// text draws strings that are hard to encode: quotes, controls, separators, and
// bytes that are not UTF-8.
func text(plain bool) *rapid.Generator[string] {
	if plain { // what the fast path takes
		return rapid.StringMatching(`[a-z0-9 _-]{0,12}|[äöé€]{0,3}`)
	}
	return rapid.OneOf(
		rapid.Just(""),
		rapid.StringN(0, 20, -1),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 20), func(b []byte) string { return string(b) }),
		rapid.SampledFrom([]string{"\u2028\u2029", "<&>", `"\/`, "\xff\xfe", "a\x00b\x1f\x7f", "\U0001F600"}),
	)
}

func anyRequest(t *rapid.T) *assay.Request {
	ns := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64(), rapid.Int64Range(1_700_000_000e9, 1_800_000_000e9))
	count := rapid.OneOf(rapid.Just(0), rapid.IntRange(0, 5000), rapid.Int())
	ints := rapid.SliceOfN(rapid.Int32(), 0, 8)
	flag := rapid.Bool()
	plain := flag.Draw(t, "plain")
	r := &assay.Request{
		ID: text(plain).Draw(t, "id"), Stage: text(plain).Draw(t, "stage"), Warmup: flag.Draw(t, "warmup"), Stream: count.Draw(t, "stream"),
		Scheduled: ns.Draw(t, "scheduled"), Eligible: ns.Draw(t, "eligible"), Connect: ns.Draw(t, "connect"),
		Sent: ns.Draw(t, "sent"), First: ns.Draw(t, "first"), Answer: ns.Draw(t, "answer"), NoAnswer: flag.Draw(t, "none"), Last: ns.Draw(t, "last"), End: ns.Draw(t, "end"),
		Gaps: ints.Draw(t, "gaps"), ChunkTokens: ints.Draw(t, "chunks"), Other: text(plain).Draw(t, "other"), OtherUS: ints.Draw(t, "otherus"),
		AskedInput: count.Draw(t, "ai"), AskedOutput: count.Draw(t, "ao"), InputTokens: count.Draw(t, "it"), OutputTokens: count.Draw(t, "ot"), CachedTokens: count.Draw(t, "ct"),
		Unplaced: count.Draw(t, "unplaced"), TokensFrom: text(plain).Draw(t, "from"), Error: assay.Failure(text(plain).Draw(t, "error")), Detail: text(plain).Draw(t, "detail"), Status: count.Draw(t, "status"), Address: text(plain).Draw(t, "address"),
		Reads: count.Draw(t, "reads"), MergedReads: count.Draw(t, "merged"), BurstReads: count.Draw(t, "bursts"), BurstChunks: count.Draw(t, "bchunks"), FirstMerged: flag.Draw(t, "fm"),
		FirstLag: ns.Draw(t, "fl"), MaxLag: ns.Draw(t, "ml"), ClockStep: flag.Draw(t, "step"),
		Prompt: count.Draw(t, "prompt"), Text: text(plain).Draw(t, "text"),
	}
	if flag.Draw(t, "engine") {
		r.Engine = &assay.EngineTimings{Total: ns.Draw(t, "e1"), Load: ns.Draw(t, "e2"), Prompt: ns.Draw(t, "e3"), Eval: ns.Draw(t, "e4"),
			PromptTokens: count.Draw(t, "e5"), EvalTokens: count.Draw(t, "e6"), EvalIntervals: count.Draw(t, "e7"),
			FirstToken: ns.Draw(t, "e8"), Generation: ns.Draw(t, "e9"), Queued: ns.Draw(t, "e10")}
	}
	return r
}

// equal compares what two lines mean; a slice without entries is absent.
func equal(a, b *assay.Request) bool {
	plain := func(r *assay.Request) assay.Request {
		c := *r
		for _, s := range []*[]int32{&c.Gaps, &c.ChunkTokens, &c.OtherUS} {
			if len(*s) == 0 {
				*s = nil
			}
		}
		return c
	}
	return reflect.DeepEqual(plain(a), plain(b))
}

// The hand-written encoder means what encoding/json means, and the hand-written
// decoder reads what encoding/json reads.
func TestCodecIsEncodingJSON(t *testing.T) {
	var d decoder // used again, as in a run: nothing of one line may reach the next
	rapid.Check(t, func(t *rapid.T) {
		r := anyRequest(t)
		ours := AppendRequest(nil, r)
		theirs, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if err := json.Unmarshal(ours, &a); err != nil {
			t.Fatalf("%v in %s", err, ours)
		}
		if err := json.Unmarshal(theirs, &b); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("ours   %s\ntheirs %s", ours, theirs)
		}
		if bytes.ContainsRune(ours, '\n') {
			t.Fatalf("a newline in %q", ours)
		}
		var want assay.Request
		if err := json.Unmarshal(ours, &want); err != nil {
			t.Fatal(err)
		}
		for _, line := range [][]byte{ours, theirs} {
			got, err := d.decode(line)
			if err != nil {
				t.Fatal(err)
			}
			if !equal(got, &want) {
				t.Fatalf("line %s\ngot  %+v\nwant %+v", line, got, &want)
			}
		}
	})
}

// The fast path must not take what encoding/json refuses, nor read it otherwise.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"id":"a","stage":"b","prompt":1}`, `{"id":"a","gaps_us":[1,-2,3],"engine":{"eval_ns":5}}`, `{}`, `{"id":"a",}`, `{"id":"a"}x`,
		`{"prompt":01}`, `{"prompt":-}`, `{"prompt":1.5}`, `{"prompt":1e3}`, `{"prompt":99999999999999999999}`, `{"gaps_us":[]}`, `{"gaps_us":[1,]}`,
		`{"gaps_us":[2147483648]}`, `{"warmup":false}`, `{"ID":"x"}`, `{"id":null}`, `{"id":"\u0061"}`, "{\"id\":\"\xff\"}", `{"engine":{}}`, `{"engine":{"eval_ns":1},"engine":{"load_ns":2}}`,
		`{"id":"a","id":"b"}`, `{"gaps_us":[1,2],"gaps_us":[3]}`, ` {"id":"a"}`, `{"prompt":-0}`,
	} {
		f.Add([]byte(s))
	}
	var d decoder
	f.Fuzz(func(t *testing.T, line []byte) {
		var want assay.Request
		wantErr := json.Unmarshal(line, &want)
		got, err := d.decode(line)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: got error %v, want %v", line, err, wantErr)
		}
		if err == nil && !equal(got, &want) {
			t.Fatalf("%q: got %+v, want %+v", line, got, want)
		}
	})
}

func sampleRequest() *assay.Request {
	r := &assay.Request{ID: "01K74T0AB0-000123", Stage: "c16", Scheduled: 1.76e18, Eligible: 1.76e18, Sent: 1.76e18 + 1, First: 1.76e18 + 5e7, Last: 1.76e18 + 2e8, End: 1.76e18 + 3e8,
		AskedOutput: 16, InputTokens: 100, OutputTokens: 16, TokensFrom: "usage", Reads: 16, Status: 200, Prompt: 123, MaxLag: 31, FirstLag: 12}
	for range 15 {
		r.Gaps = append(r.Gaps, 10_012)
	}
	return r
}

func TestFastPathIsTaken(t *testing.T) {
	var d decoder
	line := AppendRequest(nil, sampleRequest())
	if !d.fast(line) {
		t.Fatalf("not taken for %s", line)
	}
}

func TestEncodingAllocatesNothing(t *testing.T) {
	r := sampleRequest()
	b := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { b = AppendRequest(b[:0], r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNumbersAtTheEdge(t *testing.T) {
	var d decoder
	for _, v := range []int64{math.MaxInt64, math.MinInt64, 999_999_999_999_999_999, 1_000_000_000_000_000_000} {
		r := &assay.Request{ID: "a", Sent: v}
		got, err := d.decode(AppendRequest(nil, r))
		if err != nil || got.Sent != v {
			t.Errorf("%d came back as %d, %v", v, got.Sent, err)
		}
	}
	if _, err := d.decode([]byte(`{"id":"a","sent_ns":9223372036854775808}`)); err == nil || !strings.Contains(err.Error(), "9223372036854775808") {
		t.Errorf("overflow: %v", err)
	}
}

func BenchmarkEncode(b *testing.B) {
	r := sampleRequest()
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendRequest(buf[:0], r)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkDecode(b *testing.B) {
	line := AppendRequest(nil, sampleRequest())
	b.Run("hand", func(b *testing.B) {
		var d decoder
		b.SetBytes(int64(len(line)))
		for b.Loop() {
			if _, err := d.decode(line); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.SetBytes(int64(len(line)))
		for b.Loop() {
			var r assay.Request
			if err := json.Unmarshal(line, &r); err != nil {
				b.Fatal(err)
			}
		}
	})
}

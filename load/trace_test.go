package load

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestReadTrace(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name, text string
		want       []Arrival
	}{
		{"ours", `{"at_s":1.5,"input_tokens":10,"output_tokens":2}

{"at_s":1,"input_tokens":20,"output_tokens":0,"conversation":"a"}
{"input_tokens":30,"output_tokens":3,"conversation":"a","think_s":0.25}
{"at_s":3,"input_tokens":30,"output_tokens":3,"conversation":"a","think_s":0.25}
`, []Arrival{
			{At: 500 * ms, Input: 10, Output: 2},
			{At: 0, Input: 20, Conversation: "a"},
			{Input: 30, Output: 3, Conversation: "a", Think: 250 * ms},
			{At: 2 * time.Second, Input: 30, Output: 3, Conversation: "a", Think: 250 * ms},
		}},
		{"Mooncake", `{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353]}
{"timestamp": 30535, "input_length": 6472, "output_length": 26, "hash_ids": [46]}`, []Arrival{
			{At: 0, Input: 6955, Output: 52, Blocks: []int64{46, 47, 2353}},
			{At: 3053 * ms, Input: 6472, Output: 26, Blocks: []int64{46}},
		}},
		{"Azure", "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109\r\n", []Arrival{
			{At: 0, Input: 374, Output: 44},
			{At: 4314579 * time.Microsecond, Input: 396, Output: 109},
		}},
		{"Azure with a zone, unordered, byte order mark", "\ufeffTIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:01.5+00:00,5,6\n2024-05-10 00:00:00+00:00,7,8", []Arrival{
			{At: 1500 * ms, Input: 5, Output: 6},
			{At: 0, Input: 7, Output: 8},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for i := range tc.want {
				tc.want[i].N = i
			}
			got, err := ReadTrace(strings.NewReader(tc.text))
			if err != nil || !reflect.DeepEqual(got, tc.want) {
				t.Errorf("%+v %v, want %+v", got, err, tc.want)
			}
		})
	}
}

func TestReadTraceRefuses(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", " \n", "empty"},
		{"head only", "TIMESTAMP,ContextTokens,GeneratedTokens\n", "no requests"},
		{"other columns", "time,in,out\n1,2,3\n", "no column TIMESTAMP"},
		{"broken JSON", "{\"at_s\":1,\"input_tokens\":1,\"output_tokens\":1}\n{", "line 2"},
		{"no time", `{"input_tokens":1,"output_tokens":1}`, "line 1: at_s is missing"},
		{"first turn without a time", `{"input_tokens":1,"output_tokens":1,"conversation":"a"}`, "line 1: at_s is missing"},
		{"no length", `{"timestamp":1,"output_length":1}`, "input_length is missing"},
		{"negative", `{"at_s":1,"input_tokens":-1,"output_tokens":1}`, "input_tokens is -1"},
		{"fraction", `{"at_s":1,"input_tokens":1.5,"output_tokens":1}`, "input_tokens is 1.5"},
		{"huge", `{"at_s":1,"input_tokens":1e300,"output_tokens":1}`, "input_tokens is 1e+300"},
		{"think", `{"at_s":1,"input_tokens":1,"output_tokens":1,"think_s":-1}`, "think_s is -1"},
		{"long ago", "{\"at_s\":0,\"input_tokens\":1,\"output_tokens\":1}\n{\"at_s\":1e11,\"input_tokens\":1,\"output_tokens\":1}", "span a year"},
		{"beyond time", `{"at_s":1e20,"input_tokens":1,"output_tokens":1}`, "line 1: a time of 1e+20 s"},
		{"bad time", "TIMESTAMP,ContextTokens,GeneratedTokens\nnoon,1,1\n", "line 2"},
		{"bad number", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,x\n", "line 2"},
		{"NaN", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,NaN,1\n", "line 2"},
		{"ragged", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1\n", "line 2"},
		{"long JSON line", `{"at_s":` + strings.Repeat(" ", 2*maxTraceLine) + `1}`, "line 1"},
		{"long CSV line", "TIMESTAMP,ContextTokens,GeneratedTokens\n\"" + strings.Repeat("x", 2*maxTraceLine), "longer than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ReadTrace(strings.NewReader(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%d arrivals, error %v; want one with %q", len(got), err, tc.want)
			}
		})
	}
}

// Whatever a trace holds, what comes of it is within bounds and can be replayed.
func FuzzReadTrace(f *testing.F) {
	f.Add([]byte(`{"at_s":1.5,"input_tokens":10,"output_tokens":2,"conversation":"a"}` + "\n" + `{"input_tokens":10,"output_tokens":2,"conversation":"a","think_s":1}`))
	f.Add([]byte(`{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}`))
	f.Add([]byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		trace, err := ReadTrace(bytes.NewReader(data))
		if err != nil {
			return
		}
		s := Replay(trace, ReplayOptions{})
		now := time.Duration(0)
		for i := range trace {
			a := trace[i]
			if a.At < 0 || a.At > 367*24*time.Hour || a.Input < 1 || a.Output < 0 || a.Think < 0 {
				t.Fatalf("arrival %+v", a)
			}
			st := State{Now: now, Issued: i, Done: i, Ended: i - 1, Freed: now}
			step := s.Next(st)
			if !step.sends() {
				t.Fatalf("step %d of %d: %+v", i, len(trace), step)
			}
			now = max(now, step.At)
		}
		if step := s.Next(State{Now: now, Issued: len(trace), Done: len(trace), Ended: len(trace) - 1, Freed: now}); !step.Stop {
			t.Fatalf("after all: %+v", step)
		}
	})
}

package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// transcript is a stream in short: a word for each event. R is a role alone,
// t text, s no text, r reasoning, c a tool call, F a finish without any of
// them, U usage without a choice, D the end, : a comment, null data null. A
// choice beyond the first stands before it (1.t), a finish reason after it
// (t+length), and the count of tokens after = if the event has one.
func transcript(t *testing.T, body string) string {
	t.Helper()
	var all []string
	for line := range strings.SplitSeq(body, "\n") {
		switch data, ok := strings.CutPrefix(line, "data: "); {
		case strings.HasPrefix(line, ":"):
			all = append(all, ":")
		case !ok:
		case data == "[DONE]":
			all = append(all, "D")
		case data == "null":
			all = append(all, "null")
		default:
			all = append(all, word(t, data))
		}
	}
	return strings.Join(all, " ")
}

func word(t *testing.T, data string) string {
	t.Helper()
	var ev struct {
		Choices []struct {
			Index  int
			Text   *string
			Finish string `json:"finish_reason"`
			Delta  struct {
				Role      *string
				Content   *string
				Reasoning *string
				Older     *string `json:"reasoning_content"`
				Tools     []any   `json:"tool_calls"`
			}
		}
		Usage json.RawMessage
	}
	if err := json.Unmarshal([]byte(data), &ev); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	w := "U"
	if len(ev.Choices) == 1 {
		c := ev.Choices[0]
		text := c.Text
		if text == nil {
			text = c.Delta.Content
		}
		switch {
		case c.Delta.Tools != nil:
			w = "c"
		case c.Delta.Reasoning != nil || c.Delta.Older != nil:
			w = "r"
		case text != nil && *text != "":
			w = "t"
		case c.Delta.Role != nil:
			w = "R"
		case text == nil:
			w = "F"
		default:
			w = "s"
		}
		if c.Index > 0 {
			w = fmt.Sprint(c.Index, ".", w)
		}
		if c.Finish != "" {
			w += "+" + c.Finish
		}
	}
	switch {
	case ev.Usage == nil:
	case string(ev.Usage) == "null":
		w += "=null"
	default:
		var u struct {
			N int `json:"completion_tokens"`
		}
		if err := json.Unmarshal(ev.Usage, &u); err != nil {
			t.Fatal(err)
		}
		w += fmt.Sprint("=", u.N)
	}
	return w
}

// Requests of the tables below.
const (
	ends  = `"stream":true`
	asks  = `"stream":true,"stream_options":{"include_usage":true}`
	each  = `"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`
	talks = `"messages":[{"role":"user","content":"a b"}],"max_tokens":`
	goes  = `"prompt":"a b","max_tokens":`
)

// Each habit by its wire and its truth.
func TestHabits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		habits string // words of --habit; like=X is --like
		body   string // chat if it has messages
		want   string
		truth  string // letters of its tokens; empty: not looked at
	}{
		{"none chat", "", talks + `2,` + each, "R=0 t=1 t=2 F+length=2 U=2 D", ""},
		{"none completions", "", goes + `2,` + each, "t=1 t=2 s+length=2 U=2 D", ""},

		{"silent in the middle", "silent-every=2", goes + `4,` + each, "t=1 s=2 t=3 s=4 s+length=4 U=4 D", "tsts"},
		{"silent tail", "silent-tail=2", talks + `4,` + asks, "R t t s s F+length U=4 D", "ttss"},
		{"silent answer", "silent-all", goes + `3,` + asks, "s s s s+length U=3 D", "sss"},
		{"silent, no chunk", "silent-every=2 no-chunk", goes + `4,` + asks, "t t s+length U=4 D", "t-t-"},
		{"silent answer, no chunk", "silent-all no-chunk", goes + `3,` + asks, "s+length U=3 D", "---"},
		{"no chunk, counted by the next", "silent-every=2 no-chunk", goes + `5,` + each, "t=1 t=3 t=5 s+length=5 U=5 D", "t-t-t"},
		{"end of sequence", "eos-after=2", goes + `5,` + asks, "t t s s+stop U=3 D", "tts"},
		{"end ignored", "eos-after=2", goes + `5,"ignore_eos":true,` + asks, "t t s s s s+length U=5 D", "ttsss"},
		{"end never reached", "eos-after=9", goes + `2,` + asks, "t t s+length U=2 D", "tt"},
		{"held back", "hold-back=2", goes + `4,` + each, "s=1 s=2 t=3 t=4 s+length=4 U=4 D", "sstt"},
		{"held back, no chunk", "hold-back=2 no-chunk finish=token", goes + `4,` + each, "t=3 t+length=4 U=4 D", "--tt"},
		{"held back to the end", "hold-back=9 no-chunk finish=token", goes + `4,` + asks, "t+length U=4 D", "---t"},

		{"partial", "char-tokens=3", goes + `5,` + each, "s=1 s=2 t=3 s=4 t=5 s+length=5 U=5 D", "sstst"},
		{"partial, no chunk", "char-tokens=2 no-partial silent-tail=2", goes + `5,` + each, "t=2 t=4 s=5 s+length=5 U=5 D", "-t-ts"},
		{"partial, like llama.cpp", "like=llama.cpp char-tokens=3", talks + `3,` + each, "t F+length U=3 D", "--t"},

		{"speculative", "speculative=3", goes + `12,` + each, "t=1 t=3 t=4 t=7 t=9 t=10 t=12 s+length=12 U=12 D", "tttttttttttt"},
		{"finish with a token", "finish=token", goes + `3,` + each, "t=1 t=2 t+length=3 U=3 D", "ttt"},
		{"finish with a silent token", "finish=token silent-tail=1", talks + `2,` + each, "R=0 t=1 s+length=2 U=2 D", "ts"},
		{"finish is the only token", "finish=token", goes + `1,` + each, "t+length=1 U=1 D", "t"},
		{"finish is the only chunk", "finish=token silent-all no-chunk", talks + `3,` + each, "R=0 F+length=3 U=3 D", "--s"},
		{"role null", "role-null", talks + `1,` + ends, "R t F+length D", "t"},
		{"role in every delta", "role-every", talks + `2,` + ends, "t t F+length D", "tt"},
		{"reasoning only", "reasoning-only", talks + `2,` + ends, "R r r F+length D", "rr"},
		{"reasoning only, named", "reasoning-only=reasoning", talks + `2,` + ends, "R r r F+length D", "rr"},
		{"tool call", "tool-head=3", talks + `5,` + each, "R=0 c=3 c=4 c=5 F+tool_calls=5 U=5 D", "--ccc"},
		{"tool call too short", "tool-head=9 finish=token", talks + `3,` + each, "R=0 F+length=3 U=3 D", "--s"},

		{"usage in each", "usage=each", goes + `2,` + ends, "t=1 t=2 s+length=2 U=2 D", "tt"},
		{"usage at the end", "usage=end", goes + `2,` + each, "t t s+length U=2 D", "tt"},
		{"usage never", "usage=never", goes + `2,` + each, "t t s+length D", "tt"},
		{"usage zero", "usage=zero", goes + `2,` + each, "t=0 t=0 s+length=0 U=2 D", "tt"},
		{"usage null", "usage=null", goes + `2,` + each, "t=null t=null s+length=null U=2 D", "tt"},
		{"usage on the finish", "usage=finish", goes + `2,` + each, "t t s+length=2 D", "tt"},
		{"usage with content", "usage=content", talks + `2,` + each, "R t=1 t=2 F+length U=2 D", "tt"},
		{"usage by choice", "finish=token", `"prompt":["a","b"],"max_tokens":2,` + each, "t=1 1.t=1 1.t+length=2 t+length=2 U=4 D", "tttt"},
		{"usage of all choices", "usage-total finish=token", `"prompt":["a","b"],"max_tokens":2,` + each, "t=1 1.t=2 1.t+length=3 t+length=4 U=4 D", "tttt"},
		{"usage after each choice", "usage-choice usage=end", `"prompt":["a","b"],"max_tokens":1,` + each, "t s+length U=1 1.t 1.s+length U=1 D", "tt"},

		{"comments", "comments=2", goes + `4,` + ends, ": t t : t t s+length D", "tttt"},
		{"null event", "null-event", `"prompt":["a","b"],"max_tokens":1,` + ends, "null t s+length 1.t 1.s+length D", "tt"},
		{"events in one write", "events-per-write=3", goes + `4,` + ends, "t t t t s+length D", "tttt"},
		{"dribble", "dribble=7", goes + `2,` + ends, "t t s+length D", "tt"},
		{"dribble with gaps", "dribble=40/1ms", goes + `2,` + ends, "t t s+length D", "tt"},
		{"proxy", "buffer=100000/20ms", goes + `9,` + ends, "t t t t t t t t t s+length D", "ttttttttt"},

		{"like vllm", "like=vllm", talks + `3,` + each, "R=0 t=1 t=2 t+length=3 U=3 D", "ttt"},
		{"like vllm, tool call", "like=vllm tool-head=2", talks + `6,` + each, "R=0 c=2 c=3 c=4 c=5 F+tool_calls=6 U=6 D", "-ccccs"},
		{"like sglang", "like=sglang silent-every=2", talks + `3,` + each, "R t=1 t=3 F+length U=3 D", "t-t"},
		{"like sglang completions", "like=sglang silent-every=2", goes + `3,` + each, "t=1 s=2 t+length=3 U=3 D", "tst"},
		{"like llama.cpp", "like=llama.cpp silent-every=2", talks + `3,` + each, "R t t F+length U=3 D", "t-t"},
		{"like llama.cpp, first silent", "like=llama.cpp silent-all", talks + `2,` + each, "R F+length U=2 D", "s-"},
		{"like llama.cpp completions", "like=llama.cpp silent-every=2", goes + `3,` + each, "t s t s+length=3 D", "tst"},
		{"like ollama", "like=ollama silent-every=2", talks + `3,` + each, "t t R+length U=3 D", "t-t"},
		{"like ollama completions", "like=ollama", goes + `3,` + each, "t=0 t=0 t=0 s+length=0 U=3 D", "ttt"},
		{"like tgi", "like=tgi", talks + `3,` + each, "t t t+length=3 D", "ttt"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := quick()
			habitual(t, &c, tt.habits)
			_, base := serve(t, c)
			path := "/v1/completions"
			if strings.Contains(tt.body, "messages") {
				path = "/v1/chat/completions"
			}
			_, body, err := post(t, client(t), base+path, "{"+tt.body+"}")
			if err != nil {
				t.Fatal(err)
			}
			if got := transcript(t, body); got != tt.want {
				t.Errorf("got  %s\nwant %s\n%s", got, tt.want, body)
			}
			l := truthOf(t, base)
			if tt.truth != "" && l.Tokens != tt.truth {
				t.Errorf("truth says %s, want %s", l.Tokens, tt.truth)
			}
			if tt.truth != "" {
				checkTruth(t, l, len(tt.truth))
			}
		})
	}
}

// habitual sets habits by their names, and lets the truth be kept.
func habitual(t *testing.T, c *Config, names string) {
	t.Helper()
	for name := range strings.FieldsSeq(names) {
		set := c.SetHabit
		if engine, ok := strings.CutPrefix(name, "like="); ok {
			set, name = c.Like, engine
		}
		if err := set(name); err != nil {
			t.Fatal(err)
		}
	}
	c.Truth = io.Discard
}

// truthOf gets the truth of the one request that was made.
func truthOf(t *testing.T, base string) (l truthLine) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		res, err := client(t).Get(base + "/truth?id=req-1")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%d %v %s", res.StatusCode, err, b)
		}
		if len(b) == 0 {
			continue // the client is faster than the books
		}
		if err := json.Unmarshal(b, &l); err != nil {
			t.Fatalf("%v in %s", err, b)
		}
		return l
	}
	t.Fatal("no truth")
	return l
}

// checkTruth compares a line with habits with the law: no token before it was
// due, none forgotten, and those without an event with the next one that has.
func checkTruth(t *testing.T, l truthLine, n int) {
	t.Helper()
	if len(l.Written) != n || len(l.Due) != n {
		t.Fatalf("%d tokens, %d stamps, %d due times", n, len(l.Written), len(l.Due))
	}
	last := map[int]int64{}
	for k := range slices.Backward(l.Written) {
		choice := 0
		if l.Choices != nil {
			choice = l.Choices[k]
		}
		switch {
		case l.Written[k] < l.Due[k]-1e6: // the wall clock may be slewed
			t.Errorf("token %d was written %d µs before it was due", k, (l.Due[k]-l.Written[k])/1000)
		case l.Tokens[k] == '-' && last[choice] != 0 && l.Written[k] != last[choice]:
			t.Errorf("token %d has no event and was not written with the next one", k)
		}
		last[choice] = l.Written[k]
	}
}

// The times of tokens are the law's, whatever the wire does with them; what
// holds them back shows in the stamps alone.
func TestHabitsKeepTheLaw(t *testing.T) {
	for _, tt := range []struct {
		habits string
		writes int // distinct stamps of 12 tokens, 5 ms apart
	}{
		{"silent-every=3", 12},
		{"silent-all no-chunk", 1},
		{"silent-every=3 no-chunk", 9}, // 3 of 4 with the next, the last with the finish
		{"events-per-write=4", 3},
		{"speculative=3", 7},
		{"dribble=16", 12},
		{"buffer=100000", 1},
		{"like=vllm", 12},
	} {
		t.Run(tt.habits, func(t *testing.T) {
			c := quick()
			c.ITL = 5 * time.Millisecond
			habitual(t, &c, tt.habits)
			_, base := serve(t, c)
			if _, _, err := post(t, client(t), base+"/v1/completions", `{`+goes+`12,`+asks+`}`); err != nil {
				t.Fatal(err)
			}
			l := truthOf(t, base)
			checkTruth(t, l, 12)
			for k, due := range l.Due {
				want := l.Read + 5e6 + int64(k)*5e6
				if strings.HasPrefix(tt.habits, "speculative") {
					want = due // several are due at once
				}
				if due != want {
					t.Errorf("token %d was due %d ns off", k, due-want)
				}
			}
			if n := len(slices.Compact(slices.Clone(l.Written))); n != tt.writes {
				t.Errorf("%d writes, want %d: %v", n, tt.writes, l.Written)
			}
		})
	}
}

// A proxy lets go by time: 30 tokens, one each 2 ms, in pieces of 20 ms.
func TestProxyLetsGoByTime(t *testing.T) {
	c := quick()
	c.ITL = 2 * time.Millisecond
	habitual(t, &c, "buffer=0/20ms")
	_, base := serve(t, c)
	if _, _, err := post(t, client(t), base+"/v1/completions", `{`+goes+`30,`+ends+`}`); err != nil {
		t.Fatal(err)
	}
	l := truthOf(t, base)
	checkTruth(t, l, 30)
	held := 0
	for k, w := range l.Written {
		if w-l.Due[k] > 10e6 {
			held++
		}
	}
	if n := len(slices.Compact(slices.Clone(l.Written))); n < 2 || n > 4 || held < 8 {
		t.Errorf("%d writes of 60 ms, %d tokens held back by more than 10 ms", n, held)
	}
}

// Small writes with gaps really are apart, and the stamp is the last one's.
func TestDribbleTakesItsTime(t *testing.T) {
	c := quick()
	c.ITL = 100 * time.Millisecond
	habitual(t, &c, "dribble=50/4ms")
	_, base := serve(t, c)
	if _, _, err := post(t, client(t), base+"/v1/completions", `{`+goes+`2,`+ends+`}`); err != nil {
		t.Fatal(err)
	}
	l := truthOf(t, base)
	// An event of some 190 bytes is four pieces: three gaps.
	if late := l.Written[0] - l.Due[0]; late < 10e6 || late > 60e6 {
		t.Errorf("the first token was complete %d µs after it was due, want 12 ms", late/1000)
	}
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct{ habits, body, want string }{
		{"refuse=ignore_eos", `"ignore_eos":true`, "Unrecognized request argument supplied: ignore_eos"},
		{"refuse=ignore_eos", `"seed":1`, ""},
		{"refuse=stream_options", each, "supplied: stream_options"},
		{"refuse=continuous_usage_stats", each, "supplied: stream_options.continuous_usage_stats"},
		{"refuse=continuous_usage_stats", asks, ""},
		{"refuse-new", `"min_tokens":4`, "supplied: min_tokens"},
		{"refuse-new", asks, ""},
		{"like=vllm refuse=ignore_eos", `"ignore_eos":true`, `'loc': 'body.ignore_eos', 'msg': 'Extra inputs are not permitted'`},
	} {
		c := quick()
		habitual(t, &c, tt.habits)
		_, base := serve(t, c)
		res, body, err := post(t, client(t), base+"/v1/completions", `{`+goes+`1,`+tt.body+`}`)
		if err != nil {
			t.Fatal(err)
		}
		var e struct{ Error struct{ Message string } }
		refused := tt.want != ""
		if refused != (res.StatusCode == 400) || (refused && (json.Unmarshal([]byte(body), &e) != nil || !strings.Contains(e.Error.Message, tt.want))) {
			t.Errorf("%s, %s: %d %s", tt.habits, tt.body, res.StatusCode, body)
		}
	}
}

// Habits of one API leave the other alone, and the list, the command line and
// the manual know the same ones.
func TestHabitList(t *testing.T) {
	var c Config
	if err := c.SetHabit("completions:usage=zero"); err != nil || c.Habits.Usage != "" || c.CompletionsHabits.Usage != UsageZero {
		t.Errorf("%v: %+v %+v", err, c.Habits, c.CompletionsHabits)
	}
	manual, err := os.ReadFile("../docs/simulate.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range HabitList() {
		var a Config
		value := map[string]string{"N": "2", "WHEN": "end", "FIELD": "x", "ENGINE": "vllm", "apart|token": "token", "BYTES[/GAP]": "9/1ms", "BYTES[/TIME]": "9/1ms"}[h.Value]
		text := h.Name
		if h.Value != "" {
			text += "=" + value
		}
		if err := a.SetHabit(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if reflect.DeepEqual(a.Habits, Habits{}) && a.Reasoning == 0 {
			t.Errorf("%s changes nothing", text)
		}
		if e, err := New(a); err != nil {
			t.Errorf("%s: %v", text, err)
		} else {
			e.Close()
		}
		if !strings.Contains(string(manual), "| `"+h.Name) {
			t.Errorf("docs/simulate.md lacks habit %s", h.Name)
		}
	}
	for _, wrong := range []string{"", "role", "silent-every", "silent-every=-1", "silent-every=x", "dribble=1/x", "role-null=perhaps", "all:role-null"} {
		if err := c.SetHabit(wrong); err == nil {
			t.Errorf("habit %q is accepted", wrong)
		}
	}
	for _, h := range []Habits{{Finish: "never"}, {Usage: "x"}, {Dialect: "latin"}, {SilentEvery: -1}, {DribbleGap: 1}, {EventsWrite: 2, BufferBytes: 1}} {
		if e, err := New(Config{Habits: h}); err == nil {
			e.Close()
			t.Errorf("%+v is accepted", h)
		}
	}
}

// Faults happen in streams with habits too, and what is held back comes first.
func TestHabitsAndFaults(t *testing.T) {
	for _, habits := range []string{"buffer=100000", "dribble=9/1ms", "like=llama.cpp silent-every=2", "events-per-write=5", "like=vllm"} {
		for name, f := range map[string]Faults{
			"truncate": {Truncate: 1}, "cut": {Cut: 1}, "error": {StreamError: 1}, "empty": {Empty: 1}, "malformed": {Malformed: 1}, "reset": {Reset: 1},
		} {
			c := quick()
			habitual(t, &c, habits)
			c.Faults = f
			e, base := serve(t, c)
			for range 2 {
				post(t, client(t), base+"/v1/completions", `{`+goes+`8,`+ends+`}`)
			}
			settle(t, e)
			if n := e.stats.error.Load(); n != 2 && name != "malformed" {
				t.Errorf("%s, %s: %d errors, want 2", habits, name, n)
			}
		}
	}
}

package simulate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// captured is a line of a capture's index.json.
type captured struct {
	File, Path, Request string
	Tokens              *int
}

// played says with which habits, beside those of --like, the simulator sends
// what an engine sent in a capture. Their models were random, so what had text
// and what had none is chosen here.
func played(dir, file string) []string {
	switch dir + " " + strings.TrimSuffix(file, ".http") {
	case "vllm-tools v1-chat-stream-tool":
		return []string{"chat:no-chunk", "tool-head=28"}
	case "vllm-tools v1-chat-stream-tool-no-counts":
		return []string{"chat:no-chunk", "tool-head=28"}
	case "vllm-tools v1-chat-stream-tool-cut":
		return []string{"chat:no-chunk", "tool-head=9"}
	case "vllm-tools v1-chat-stream-counts":
		return []string{"chat:no-chunk", "char-tokens=2"}
	case "vllm-tools v1-chat-stream-silent":
		return []string{"chat:no-chunk", "silent-all"}
	case "vllm v1-completions-stream-eos":
		return []string{"metrics", "eos-after=6"}
	case "vllm v1-completions-stream-silent", "vllm v1-chat-stream-silent", "llamacpp v1-completions-stream-silent", "llamacpp v1-chat-stream-silent":
		return []string{"metrics", "silent-all"}
	case "vllm v1-completions-stream-held":
		return []string{"metrics", "hold-back=9"}
	case "llamacpp v1-completions-stream-held", "llamacpp v1-chat-stream-held", "ollama v1-completions-stream-held", "ollama api-generate-stream-held":
		return []string{"hold-back=2"}
	case "llamacpp v1-completions-stream-partial", "llamacpp v1-chat-stream-partial":
		return []string{"char-tokens=8"}
	}
	if dir == "vllm" {
		return []string{"metrics"}
	}
	return nil
}

// For each stream that a real engine sent, the simulator that is like it sends
// the same events: the same members in the same order, the same kinds one after
// the other, as many to an HTTP chunk, and the same counts.
func TestLikeTheCaptures(t *testing.T) {
	indexes, _ := filepath.Glob("../testdata/wire/*/index.json")
	streams := 0
	for _, index := range indexes {
		var all struct {
			Engine string
			Files  []captured
		}
		b, err := os.ReadFile(index)
		if err == nil {
			err = json.Unmarshal(b, &all)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all.Files {
			if !strings.Contains(f.File, "stream") || strings.HasPrefix(f.File, "native") || strings.HasPrefix(f.File, "error") {
				continue
			}
			streams++
			t.Run(all.Engine+"/"+f.File, func(t *testing.T) {
				raw, err := os.ReadFile(filepath.Join(filepath.Dir(index), f.File))
				if err != nil {
					t.Fatal(err)
				}
				want, got := shapeOf(t, raw), shapeOf(t, play1(t, all.Engine, f))
				compareWire(t, want, got)
				if f.Tokens != nil && !chance(all.Engine, f.File) {
					compareCounts(t, want, got, f)
				}
			})
		}
	}
	if streams < 30 {
		t.Errorf("only %d captured streams", streams)
	}
}

// play1 sends a capture's request to the simulator and returns its raw reply.
func play1(t *testing.T, engine string, f captured) []byte {
	t.Helper()
	c := quick()
	like := map[string]string{"vllm": "vllm", "vllm-tools": "vllm", "llamacpp": "llama.cpp", "ollama": "ollama"}[engine]
	if err := c.Like(like); err != nil {
		t.Fatal(err)
	}
	for _, h := range played(engine, f.File) {
		if err := c.SetHabit(h); err != nil {
			t.Fatal(err)
		}
	}
	var ask struct{ Model string }
	if err := json.Unmarshal([]byte(f.Request), &ask); err != nil {
		t.Fatal(err)
	}
	c.Model = ask.Model
	_, base := serve(t, c)
	return []byte(talk(t, base, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", f.Path, len(f.Request), f.Request)))
}

// wire is what a stream looks like without what it says.
type wire struct {
	members map[string]string   // of each kind of event, in order
	kinds   map[string][]string // one after the other, by choice; repeated ones once
	chunks  []string            // kinds that share an HTTP chunk; repeated ones once
	counts  map[string][]int    // by choice
	events  int                 // with a choice that goes on
}

// shapeOf reads a raw reply.
func shapeOf(t *testing.T, raw []byte) wire {
	t.Helper()
	r := bufio.NewReader(bytes.NewReader(raw))
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("%v in %.300s", err, raw)
	}
	if res.StatusCode != 200 || len(res.TransferEncoding) == 0 {
		t.Fatalf("no stream: %d %.500s", res.StatusCode, raw)
	}
	_, body, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	w := wire{members: map[string]string{}, kinds: map[string][]string{}, counts: map[string][]int{}}
	for len(body) > 0 {
		line, rest, _ := bytes.Cut(body, []byte("\r\n"))
		n, err := strconv.ParseInt(string(line), 16, 32)
		if err != nil || int(n) > len(rest) {
			t.Fatalf("chunk size %q: %v", line, err)
		}
		if n == 0 {
			break
		}
		w.chunk(t, string(rest[:n]))
		body = rest[n+2:]
	}
	return w
}

func (w *wire) chunk(t *testing.T, text string) {
	t.Helper()
	var kinds []string
	for line := range strings.SplitSeq(text, "\n") {
		data := strings.TrimPrefix(line, "data: ")
		if data == "" {
			continue
		}
		kind := "[DONE]"
		if data != kind {
			kind = w.event(t, data)
		}
		kinds = append(kinds, kind)
	}
	w.chunks = append(w.chunks, strings.Join(kinds, " "))
}

// event notes an event and names its kind by its members' values that matter.
func (w *wire) event(t *testing.T, data string) string {
	t.Helper()
	if data == "null" {
		return data
	}
	var ev struct {
		Choices []struct {
			Index  int
			Finish *string `json:"finish_reason"`
			Delta  struct {
				Role    *string
				Content *string
				Tools   []struct{ ID string } `json:"tool_calls"`
			}
		}
		Usage *struct {
			N int `json:"completion_tokens"`
		}
		Timings *struct {
			N int `json:"predicted_n"`
		}
		Done *bool
	}
	if err := json.Unmarshal([]byte(data), &ev); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	kind, choice := "usage", ""
	if ev.Done != nil {
		kind = fmt.Sprint("line done ", *ev.Done)
	}
	if len(ev.Choices) == 1 {
		c := ev.Choices[0]
		choice = strconv.Itoa(c.Index)
		kind = "token"
		switch {
		case c.Delta.Tools != nil && c.Delta.Tools[0].ID != "":
			kind = "call"
		case c.Delta.Tools != nil:
			kind = "arguments"
		case c.Finish == nil && c.Delta.Role != nil && (c.Delta.Content == nil || *c.Delta.Content == ""):
			kind = "role"
		}
		if c.Finish != nil {
			kind += " " + *c.Finish
		}
	}
	if kind == "token" {
		w.events++
	}
	if k := w.kinds[choice]; len(k) == 0 || k[len(k)-1] != kind {
		w.kinds[choice] = append(k, kind)
	}
	if ev.Usage != nil {
		w.counts[choice] = append(w.counts[choice], ev.Usage.N)
	}
	if ev.Timings != nil {
		w.counts[choice+" timings"] = append(w.counts[choice+" timings"], ev.Timings.N)
	}
	names := members(t, data)
	if had, ok := w.members[kind]; ok && had != names && !strings.HasPrefix(kind, "role") {
		kind += "'" // the same kind with other members, as a first one
	}
	w.members[kind] = names
	return strings.TrimSuffix(kind, "'")
}

// members are the names of an object's members, in order, with those inside.
func members(t *testing.T, data string) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(data))
	var b strings.Builder
	var value func()
	value = func() {
		tok, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		switch tok {
		case json.Delim('{'):
			b.WriteByte('{')
			for d.More() {
				name, _ := d.Token()
				fmt.Fprint(&b, name, " ")
				value()
			}
		case json.Delim('['):
			b.WriteByte('[')
			if name := b.String(); strings.HasSuffix(name, "context [") { // token ids of an old request
				for d.More() {
					d.Token()
				}
			}
			for d.More() {
				value()
			}
		default:
			return
		}
		end, err := d.Token()
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		fmt.Fprint(&b, end)
	}
	value()
	return b.String()
}

func compareWire(t *testing.T, want, got wire) {
	t.Helper()
	for kind, m := range want.members {
		if got.members[kind] != m {
			t.Errorf("%s has members\n  %s\nthe engine's has\n  %s", kind, got.members[kind], m)
		}
	}
	for kind := range got.members {
		if _, ok := want.members[kind]; !ok {
			t.Errorf("the engine has no event %s", kind)
		}
	}
	for choice := range want.kinds {
		if !slices.Equal(got.kinds[choice], want.kinds[choice]) {
			t.Errorf("choice %s: events %q, the engine's %q", choice, got.kinds[choice], want.kinds[choice])
		}
	}
	if g, w := chunksOf(got), chunksOf(want); !slices.Equal(g, w) {
		t.Errorf("HTTP chunks %q, the engine's %q", g, w)
	}
}

// chance says which counts were the grammar's, or chance.
func chance(engine, file string) bool {
	return (engine == "vllm-tools" && !strings.Contains(file, "silent")) || strings.Contains(file, "merged")
}

func compareCounts(t *testing.T, want, got wire, f captured) {
	t.Helper()
	tokens := *f.Tokens
	if less := tokens - 1; (got.events < less) != (want.events < less) {
		t.Errorf("%d events for %d tokens, the engine's %d", got.events, tokens, want.events)
	}
	if strings.Contains(f.File, "partial") {
		return // which token completed a character was chance
	}
	for choice := range want.counts {
		if !slices.Equal(got.counts[choice], want.counts[choice]) {
			t.Errorf("choice %s: counts %v, the engine's %v", choice, got.counts[choice], want.counts[choice])
		}
	}
}

// chunksOf are the sorts of HTTP chunks: choices may take turns in any order.
func chunksOf(w wire) []string {
	all := slices.Clone(w.chunks)
	slices.Sort(all)
	return slices.Compact(all)
}

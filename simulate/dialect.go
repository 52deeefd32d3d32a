package simulate

import (
	"fmt"
	"strconv"
	"strings"
)

// Dialect names the engine whose events an OpenAI stream looks like: which
// members an event has, and in which order.
type Dialect string

const (
	Plain    Dialect = "plain"
	VLLM     Dialect = "vllm"
	SGLang   Dialect = "sglang"
	LlamaCpp Dialect = "llama.cpp"
	OllamaV1 Dialect = "ollama"
	TGI      Dialect = "tgi"
)

// shape is how one API of a dialect writes its events. Each is the text of an
// event with holes in it, taken from what the engine really sends.
type shape struct {
	role   template // the role alone (chat)
	token  template // tokens
	last   template // tokens and the end of the choice
	finish template // the end of the choice alone
	usage  template // counts, without a choice
	each   template // the counts themselves, in an event that has a choice
	total  template // and in the one that has none

	content, reasoning, tools wrap // members around those in a delta (chat)
	nameAlone                 bool // a tool call's first event has its name and no arguments
}

// wrap is what stands before and after a member.
type wrap struct {
	before, after string
}

// template is a text with holes.
type template []part

type part struct {
	text string
	hole hole // after the text
}

type hole uint8

const (
	holeNone    hole = iota
	holeID           // $id: the request's id
	holeCreated      // $created: Unix seconds
	holeModel        // $model
	holeIndex        // $index: of the choice
	holeDelta        // $delta: members of the delta; completions: the text
	holeEmpty        // $empty: "" or null, of a role chunk
	holeFinish       // $finish: finish_reason
	holeUsage        // $usage: ,"usage":… or nothing
	holeTimings      // $timings: ,"timings":… or nothing
	holeEnd          // $end(…): the text in parentheses, on a stream's last event only
	holeMetrics      // $metrics: ,"metrics":… or nothing
	holeIn           // $in: prompt tokens
	holeOut          // $out: answer's tokens
	holeAll          // $all: their sum
	holeCached       // $cached: prompt tokens from the prefix cache
	holeDetails      // $details: null, or cached tokens if there is a cache
)

var holes = [...]string{
	holeID: "id", holeCreated: "created", holeModel: "model", holeIndex: "index",
	holeDelta: "delta", holeEmpty: "empty", holeFinish: "finish", holeUsage: "usage",
	holeTimings: "timings", holeEnd: "end", holeMetrics: "metrics",
	holeIn: "in", holeOut: "out", holeAll: "all", holeCached: "cached", holeDetails: "details",
}

// compile reads a template's text. It panics on a hole that does not exist:
// the texts are this package's own.
func compile(text string) template {
	var t template
	for text != "" {
		before, after, found := strings.Cut(text, "$")
		if !found {
			return append(t, part{text: before})
		}
		p := part{text: before}
		for h, name := range holes {
			// The longest name that fits: $in is not the start of $index.
			if name != "" && strings.HasPrefix(after, name) && len(name) > len(holes[p.hole]) {
				p.hole = hole(h)
			}
		}
		if p.hole == holeNone {
			panic("simulate: no such hole: $" + after)
		}
		text = after[len(holes[p.hole]):]
		t = append(t, p)
		if p.hole == holeEnd {
			inside, rest, _ := strings.Cut(text[1:], ")")
			t = append(t, part{text: inside})
			text = rest
		}
	}
	return t
}

// event is what fills the holes of one event.
type event struct {
	q        *sequence
	from, to int  // tokens that it carries
	count    int  // tokens of its choice so far
	kind     kind // which template
	last     bool // no event of its choice, or of the stream, follows
}

type kind uint8

const (
	kindRole kind = iota
	kindToken
	kindLast
	kindFinish
	kindUsage
)

// render appends an event, without its data: and its end.
func (v *openAI) render(b []byte, t template, ev *event) []byte {
	r := ev.q.reply
	skip := false // the text of an $end that is not the end
	for i := range t {
		if !skip {
			b = append(b, t[i].text...)
		}
		skip = false
		switch t[i].hole {
		case holeID:
			b = append(b, r.quotedID...)
		case holeCreated:
			b = strconv.AppendInt(b, r.created, 10)
		case holeModel:
			b = append(b, v.model...)
		case holeIndex:
			b = strconv.AppendInt(b, int64(ev.q.index), 10)
		case holeDelta:
			b = v.delta(b, ev)
		case holeEmpty:
			if v.h.RoleNull {
				b = append(b, "null"...)
			} else {
				b = append(b, `""`...)
			}
		case holeFinish:
			b = append(b, r.finish...)
		case holeUsage:
			b = v.usageOf(b, ev)
		case holeTimings:
			b = v.timings(b, ev)
		case holeMetrics:
			b = v.metrics(b, ev)
		case holeEnd:
			skip = !ev.last
		default:
			b = v.number(b, t[i].hole, ev)
		}
	}
	return b
}

// fill puts in what is the same in all events of a reply.
func (t template) fill(id, created, model string) template {
	all := make(template, 0, len(t))
	text := ""
	for _, p := range t {
		text += p.text
		switch p.hole {
		case holeID:
			text += id
		case holeCreated:
			text += created
		case holeModel:
			text += model
		default:
			all = append(all, part{text, p.hole})
			text = ""
		}
	}
	return all
}

// number appends a count, false by the factor that was asked for.
func (v *openAI) number(b []byte, h hole, ev *event) []byte {
	in, cached, out := ev.q.input, ev.q.cached, ev.count
	switch {
	case ev.kind != kindUsage && v.h.usage == usageZero:
		in, cached, out = 0, 0, 0
	case v.h.UsageTotal || (ev.kind == kindUsage && !v.h.UsageChoice):
		r := ev.q.reply
		in, cached, out = r.input, r.cached, r.given
		if ev.kind == kindRole {
			out = 0
		}
	}
	switch h {
	case holeIn:
		return strconv.AppendInt(b, v.e.usage(in), 10)
	case holeOut:
		return strconv.AppendInt(b, v.e.usage(out), 10)
	case holeAll:
		return strconv.AppendInt(b, v.e.usage(in)+v.e.usage(out), 10)
	case holeCached:
		return strconv.AppendInt(b, v.e.usage(cached), 10)
	case holeDetails:
		if v.e.prefix == nil {
			return append(b, "null"...)
		}
		b = append(b, `{"cached_tokens":`...)
		b = strconv.AppendInt(b, v.e.usage(cached), 10)
		return append(b, '}')
	}
	return b
}

// usageOf appends an event's counts, where the habit has them.
func (v *openAI) usageOf(b []byte, ev *event) []byte {
	r := ev.q.reply
	if ev.kind == kindUsage {
		b = append(b, `,"usage":`...)
		return v.render(b, v.shape.total, ev)
	}
	has := false
	switch v.h.usage {
	case usageEach:
		has = true
	case usageAsked:
		has = r.running
	case usageContent:
		has = r.running && (ev.kind == kindToken || ev.kind == kindLast)
	case usageZero:
		has = r.usage
	case usageFinish:
		has = ev.kind == kindLast || ev.kind == kindFinish
	case usageNull:
		if r.usage {
			return append(b, `,"usage":null`...)
		}
	}
	if !has {
		return b
	}
	b = append(b, `,"usage":`...)
	return v.render(b, v.shape.each, ev)
}

// timings appends llama.cpp's own times, in milliseconds.
func (v *openAI) timings(b []byte, ev *event) []byte {
	r := ev.q.reply
	if !v.h.Timings || !(ev.last || (r.timings && (ev.kind == kindToken || ev.kind == kindRole) && ev.count > 0)) {
		return b
	}
	n, in := ev.count, ev.q.input-ev.q.cached
	now := v.e.pacer.now()
	first := ev.q.first
	if first == 0 {
		first = now
	}
	prompt, predicted := float64(first-r.read)/1e6, max(0.001, float64(now-first)/1e6)
	b = append(b, `,"timings":{"cache_n":`...)
	b = strconv.AppendInt(b, int64(ev.q.cached), 10)
	b = append(b, `,"prompt_n":`...)
	b = strconv.AppendInt(b, int64(in), 10)
	field := func(name string, x float64) {
		b = append(b, `,"`...)
		b = append(b, name...)
		b = append(b, `":`...)
		b = strconv.AppendFloat(b, x, 'f', 3, 64)
	}
	field("prompt_ms", prompt)
	field("prompt_per_token_ms", prompt/float64(max(1, in)))
	field("prompt_per_second", float64(in)/max(prompt, 1e-3)*1e3)
	b = append(b, `,"predicted_n":`...)
	b = strconv.AppendInt(b, int64(n), 10)
	field("predicted_ms", predicted)
	if n > 1 {
		field("predicted_per_token_ms", predicted/float64(n-1))
		field("predicted_per_second", float64(n-1)/predicted*1e3)
	} else {
		field("predicted_per_token_ms", 0)
		field("predicted_per_second", 0)
	}
	return append(b, '}')
}

// metrics appends what vLLM says of a request of one answer.
func (v *openAI) metrics(b []byte, ev *event) []byte {
	r := ev.q.reply
	if !v.h.Metrics || ev.kind != kindUsage || len(r.sequences) > 1 {
		return b
	}
	now := v.e.pacer.now()
	first := r.first
	if first == 0 {
		first = now
	}
	made := float64(now-first) / 1e6
	field := func(name string, x float64) {
		b = append(b, name...)
		b = strconv.AppendFloat(b, x, 'f', -1, 64)
	}
	field(`,"metrics":{"time_to_first_token_ms":`, float64(first-r.read)/1e6)
	field(`,"generation_time_ms":`, made)
	field(`,"queue_time_ms":`, 0)
	if r.given > 1 {
		field(`,"mean_itl_ms":`, made/float64(r.given-1))
	}
	field(`,"tokens_per_second":`, float64(r.given)/max(1e-6, float64(now-r.read)/1e9))
	return append(b, '}')
}

// dialectOf is both APIs of a dialect: chat and completions.
func dialectOf(d Dialect) (*[2]shape, error) {
	t, ok := texts()[d]
	if !ok {
		return nil, fmt.Errorf("dialect %q: want plain, vllm, sglang, llama.cpp, ollama or tgi", d)
	}
	var both [2]shape
	for i, x := range t {
		both[i] = shape{
			role: compile(x.role), token: compile(x.token), last: compile(x.last),
			finish: compile(x.finish), usage: compile(x.usage),
			each: compile(x.each), total: compile(x.total),
			content: x.content, reasoning: x.reasoning, tools: x.tools, nameAlone: x.nameAlone,
		}
		if x.total == "" {
			both[i].total = both[i].each
		}
	}
	return &both, nil
}

package summary

import (
	"fmt"
	"math"
	"strings"

	"github.com/assay-bench/assay"
)

// heldBack is the share of tokens that may come with their request's first
// chunk before the engine counts as holding them back: its first token was then
// long before the first that we could see. A parser of tool calls does so, and
// vLLM's, once it is switched on, sends no chunk for a token without text.
const heldBack = 0.005

// engineSide is what the engine's page said at the edges of one stage.
type engineSide struct {
	kind   string
	before map[string]float64
	open   bool // before was read, after not yet
	delta  map[string]float64
	why    string // no difference can be taken, because
}

// event takes an edge. A stage that was taken up again has several pairs.
func (e *engineSide) event(ev *assay.Event) {
	if len(ev.Data) == 0 {
		e.open = false
		e.fail("the engine's page could not be read: " + ev.Text)
		return
	}
	if ev.Kind == assay.EventEngineBefore {
		if e.open {
			e.fail("the stage was interrupted, and what the engine had counted until then was not read")
		}
		e.kind, e.before, e.open = ev.Text, ev.Data, true
		return
	}
	if !e.open {
		e.fail("what the engine had counted before the stage was not read")
		return
	}
	e.open = false
	if e.delta == nil {
		e.delta = map[string]float64{}
	}
	for name, after := range ev.Data {
		before := e.before[name]
		if name == assay.TotalStarted {
			if math.Abs(after-before) > 1 && before != 0 {
				e.fail("the engine was started anew during the stage")
			}
			continue
		}
		if d := after - before; d >= 0 && finite(d) {
			e.delta[name] += d
		} else {
			e.fail("the engine's counters fell: it was started anew")
		}
	}
}

func (e *engineSide) fail(why string) {
	if e.why == "" {
		e.why = why
	}
}

// mean is a time of the page in milliseconds, and of how many values.
func (e *engineSide) mean(name string) (ms float64, n int64, ok bool) {
	sum, ok := e.delta[name+"_seconds"]
	n = int64(e.delta[name+"_count"])
	return sum / float64(n) * 1e3, n, ok && n > 0
}

// checkEngine sets ours beside the engine's; nil when the engine says nothing.
func checkEngine(o *oursOf, e *engineSide, wall float64) *assay.EngineCheck {
	c := &checking{o: o, path: path{handshake: o.handshake / 1e6}}
	if wall > 0 {
		c.path.inFlight = o.e2e / wall
	}
	if o.ok > 0 {
		c.path.later = float64(o.later) / float64(o.ok)
	}
	if e != nil {
		c.out.Engine = e.kind
		c.page(e)
	}
	if o.ok > 0 {
		c.answers(&o.said)
	}
	if e == nil && len(c.out.Compared) == 0 {
		return nil
	}
	return c.verdict()
}

type checking struct {
	o    *oursOf
	out  assay.EngineCheck
	path path
	why  []string
}

func (c *checking) put(x assay.Compared) { c.out.Compared = append(c.out.Compared, x) }

// page compares with the engine's page. When it counted others too, or parts of
// requests that we saw no end of, its means are not those of our requests.
func (c *checking) page(e *engineSide) {
	if e.why == "" && e.delta == nil {
		e.fail("what the engine had counted at the stage's end was not read")
	}
	if e.why != "" {
		c.why = append(c.why, e.why)
		return
	}
	alone := c.counts(e)
	switch {
	case !alone || c.o.ok == 0:
	case c.o.cut > 0:
		c.why = append(c.why, fmt.Sprintf("%d requests were sent and not answered in full: the engine's sums have parts of them, so means are not compared", c.o.cut))
	case c.o.stepped > 0:
		c.why = append(c.why, fmt.Sprintf("%d requests have no times of their own, so means are not compared", c.o.stepped))
	default:
		c.times(e)
	}
}

// counts compares requests and tokens, and reports whether the engine served
// nobody else.
func (c *checking) counts(e *engineSide) bool {
	var extra []string
	count := func(what, name string, ours int64, known bool) {
		theirs, ok := e.delta[name]
		if !ok || !known {
			return
		}
		x := compare(what, "metrics", float64(ours), theirs, c.path)
		off := int64(*x.Off)
		if off < 0 && what == "requests" && c.o.ended > 0 {
			x.Note = fmt.Sprintf("%d requests failed here although their stream came to its end", c.o.ended)
		} else if off < 0 && c.o.cut == 0 {
			x.Verdict = assay.Unknown
			extra = append(extra, fmt.Sprintf("%d %s", -off, strings.ReplaceAll(what, "_", " ")))
		} else if off < 0 {
			x.Verdict = assay.Unknown
		} else if off > 0 {
			x.Note = "the engine counted fewer than it answered: its page may be that of one of several engines behind the address"
		}
		c.put(x)
	}
	input := c.o.input
	if e.kind == "llama.cpp" {
		input -= c.o.cached // it counts what it computed
	}
	usage := c.o.uncount == 0 && c.o.stepped == 0
	count("requests", assay.TotalRequests, c.o.ok, true)
	count("input_tokens", assay.TotalPromptTokens, input, usage)
	count("output_tokens", assay.TotalOutputTokens, c.o.output, usage)
	if len(extra) > 0 {
		c.why = append(c.why, "the engine counted more than was answered here ("+strings.Join(extra, ", ")+"): others used it meanwhile, or one request of ours is several of its own; means are not compared")
		return false
	}
	for _, x := range c.out.Compared {
		if x.Verdict != assay.Pass {
			return x.Verdict == assay.Unknown // with cut requests; told by the caller
		}
	}
	return true
}

// times compares means. Ours are over the requests that were answered.
func (c *checking) times(e *engineSide) {
	n := float64(c.o.ok)
	held := c.o.later > 0 && float64(c.o.held) > heldBack*float64(c.o.later)
	if held {
		c.why = append(c.why, fmt.Sprintf("%.1f %% of the tokens came with the first chunk of their answer: the engine held them back, so its first token is not the first that can be seen, and only the end is compared", 100*float64(c.o.held)/float64(c.o.later)))
	}
	put := func(what string, ours float64, oursN int64, theirs float64, theirsN int64) {
		x := compare(what, "metrics", ours, theirs, c.path)
		x.OursN, x.TheirsN = oursN, theirsN
		c.put(x)
	}
	perRequest := func(what, name string, ours float64) {
		theirs, k, ok := e.mean(name)
		switch {
		case !ok:
		case k == c.o.ok:
			put(what, ours/n/1e6, c.o.ok, theirs, k)
		default:
			c.why = append(c.why, fmt.Sprintf("the engine's %s is of %d requests and ours of %d, so it is not compared", what, k, c.o.ok))
		}
	}
	after, ok := e.delta[assay.TotalAfterFirst+"_seconds"]
	if !ok {
		after, ok = e.delta[assay.TotalStep+"_seconds"]
	}
	if ok {
		c.path.afterFirst = after / n * 1e3
	}
	if q, _, ok := e.mean(assay.TotalQueue); ok {
		c.path.queue = q
	}
	if !held {
		perRequest("ttft", assay.TotalTTFT, c.o.ttft)
		if x, found := c.out.Find("ttft", "metrics"); found {
			c.path.first = x.Off
		}
		if ok {
			put("after_first", c.o.afterFirst/n/1e6, c.o.ok, c.path.afterFirst, c.o.ok)
		}
		perRequest("tpot", assay.TotalTPOT, c.o.tpot)
		if theirs, k, ok := e.mean(assay.TotalStep); ok && c.o.gaps > 0 {
			p := c.path
			c.path.later = float64(c.o.gaps) / n
			put("gap", c.o.afterFirst/float64(c.o.gaps)/1e6, c.o.gaps, theirs, k)
			c.path = p
		}
	}
	perRequest("e2e", assay.TotalE2E, c.o.e2e)
	c.within()
	perRequest("token_time", assay.TotalTokenTime, c.o.perToken)
}

// within settles what is off between two parts of the engine, not between it
// and us. Its front end joins the tokens of several steps when it is late, so
// there are fewer chunks than steps; and it may hand on the first token later
// than the last, which shows in its own TTFT and E2E, and not in its decoding
// time.
func (c *checking) within() {
	ttft, ok1 := c.out.Find("ttft", "metrics")
	e2e, ok2 := c.out.Find("e2e", "metrics")
	front := ok1 && ok2 && ttft.Verdict == assay.Pass && e2e.Verdict == assay.Pass
	for i := range c.out.Compared {
		x := &c.out.Compared[i]
		if x.Verdict != assay.Fail {
			continue
		}
		switch x.What {
		case "after_first", "tpot":
			if front {
				x.Verdict = assay.Pass
				x.Note = "the engine's own E2E less its TTFT is as ours: its front end handed the first tokens on later than the last"
			}
		case "gap":
			if x.OursN < x.TheirsN && c.o.silent == 0 {
				x.Verdict = assay.Pass
				x.Note = fmt.Sprintf("the engine's front end sent %d of %d steps together with others", x.TheirsN-x.OursN, x.TheirsN)
			}
		}
	}
}

// answers compares with what the engine said in its answers.
func (c *checking) answers(s *said) {
	put := func(what string, n int64, ours, theirs float64) {
		x := compare(what, "answers", ours/float64(n)/1e6, theirs/float64(n)/1e6, c.path)
		x.OursN, x.TheirsN = n, n
		c.put(x)
	}
	held := c.o.later > 0 && float64(c.o.held) > heldBack*float64(c.o.later)
	if s.n > 0 && !held {
		put("after_first", s.n, s.ours, s.theirs)
		x := &c.out.Compared[len(c.out.Compared)-1]
		if page, ok := c.out.Find("after_first", "metrics"); ok && page.Verdict == assay.Pass && x.Verdict == assay.Fail && s.n == c.o.ok {
			x.Verdict = assay.Pass // the same times, by another way
		}
		x.Note = fmt.Sprintf("%d of %d requests are off by more than max(1 ms, 2 %%), the farthest by %+.2f ms", s.far, s.n, s.farthest/1e6)
	}
	if s.evalN > 0 {
		p := c.path
		c.path.later = s.evalLater / float64(s.evalN)
		put("tpot", s.evalN, s.evalOurs, s.eval)
		c.path = p
	}
	if s.promptN > 0 {
		put("prompt", s.promptN, s.promptOurs, s.prompt)
	}
}

// verdict is the whole's: fail if something is off, pass if the rest was
// compared, else unknown.
func (c *checking) verdict() *assay.EngineCheck {
	var off []string
	passed := false
	for _, x := range c.out.Compared {
		switch x.Verdict {
		case assay.Pass:
			passed = true
		case assay.Fail:
			off = append(off, sentence(x))
		}
	}
	switch {
	case len(off) > 0:
		c.out.Verdict = assay.Fail
	case passed && len(c.why) == 0:
		c.out.Verdict = assay.Pass
	}
	c.out.Why = strings.Join(append(off, c.why...), "; ")
	if c.out.Compared == nil {
		c.out.Compared = []assay.Compared{}
	}
	return &c.out
}

// sentence says what is off by how much.
func sentence(x assay.Compared) string {
	from := "its page"
	if x.From == "answers" {
		from = "its answers"
	}
	what := strings.ReplaceAll(x.What, "_", " ")
	if x.Unit != "ms" {
		s := fmt.Sprintf("%.0f %s here and %.0f by %s", *x.Ours, what, *x.Theirs, from)
		if x.Note != "" {
			s += " (" + x.Note + ")"
		}
		return s
	}
	if x.High == nil {
		return fmt.Sprintf("mean TTFT %.4g ms here and %.4g ms for the %s alone by %s", *x.Ours, *x.Theirs, what, from)
	}
	return fmt.Sprintf("mean %s %.4g ms here and %.4g ms by %s, which is %+.3g ms where transport explains %.3g to %+.3g", what, *x.Ours, *x.Theirs, from, *x.Off, *x.Low, *x.High)
}

// engineWarnings are the doubts that the comparison raises.
func engineWarnings(s *assay.StageSummary) []assay.Warning {
	c := s.EngineCheck
	switch {
	case c == nil || c.Why == "":
		return nil
	case c.Verdict == assay.Fail:
		return []assay.Warning{{Kind: "engine_disagrees", Stage: s.Name, Text: "the engine's own figures disagree with ours: " + c.Why}}
	}
	return []assay.Warning{{Kind: "engine_not_compared", Stage: s.Name, Text: "not all was compared with the engine's own figures: " + c.Why}}
}

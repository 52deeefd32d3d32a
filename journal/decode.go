package journal

import (
	"encoding/json"
	"math"
	"unicode/utf8"

	"github.com/assay-bench/assay"
)

// decoder reads request lines into one Request that it uses again.
//
// Lines of the shape that AppendRequest writes are read by hand, some ten times
// as fast as encoding/json; anything else, a space, an escape, a key of a later
// version, is left to encoding/json, which also has the last word on what is an
// error.
type decoder struct {
	r      assay.Request
	engine assay.EngineTimings
	// words keeps the few strings that every line repeats, such as the stage.
	words map[string]string
}

// wordsMost bounds what hostile lines could make the decoder keep.
const wordsMost = 1024

func (d *decoder) decode(line []byte) (*assay.Request, error) {
	d.reset()
	if d.fast(line) {
		return &d.r, nil
	}
	d.reset()
	d.r.Gaps, d.r.ChunkTokens, d.r.OtherUS = nil, nil, nil
	if err := json.Unmarshal(line, &d.r); err != nil {
		return nil, err
	}
	return &d.r, nil
}

func (d *decoder) reset() {
	d.r = assay.Request{Gaps: d.r.Gaps[:0], ChunkTokens: d.r.ChunkTokens[:0], OtherUS: d.r.OtherUS[:0]}
}

// cursor walks a line. A method that meets what it does not expect sets bad,
// after which nothing it gives means anything.
type cursor struct {
	b   []byte
	i   int
	bad bool
}

func (c *cursor) eat(want byte) bool {
	if c.i < len(c.b) && c.b[c.i] == want {
		c.i++
		return true
	}
	return false
}

func (c *cursor) need(want byte) {
	if !c.eat(want) {
		c.bad = true
	}
}

// int reads a whole number that fits; the smallest of all does not, and is left
// to encoding/json.
func (c *cursor) int() int64 {
	minus := c.eat('-')
	start, v := c.i, uint64(0)
	for c.i < len(c.b) {
		digit := c.b[c.i] - '0'
		if digit > 9 {
			break
		}
		v = v*10 + uint64(digit)
		c.i++
	}
	digits := c.i - start
	// Nineteen digits never overflow an uint64.
	if digits == 0 || digits > 19 || v > math.MaxInt64 || digits > 1 && c.b[start] == '0' {
		c.bad = true
		return 0
	}
	if c.i < len(c.b) {
		if k := c.b[c.i]; k == '.' || k == 'e' || k == 'E' {
			c.bad = true
		}
	}
	if minus {
		return -int64(v)
	}
	return int64(v)
}

func (c *cursor) count() int { return int(c.int()) }

// string reads a string without escapes; the bytes belong to the line.
func (c *cursor) string() []byte {
	c.need('"')
	start, ascii := c.i, true
	for c.i < len(c.b) {
		k := c.b[c.i]
		if k == '"' {
			s := c.b[start:c.i]
			c.i++
			if !ascii && !utf8.Valid(s) {
				c.bad = true
			}
			return s
		}
		if k == '\\' || k < 0x20 {
			break
		}
		if k >= utf8.RuneSelf {
			ascii = false
		}
		c.i++
	}
	c.bad = true
	return nil
}

func (c *cursor) true() bool {
	if len(c.b)-c.i >= 4 && string(c.b[c.i:c.i+4]) == "true" {
		c.i += 4
		return true
	}
	c.bad = true
	return false
}

func (c *cursor) ints(dst []int32) []int32 {
	dst = dst[:0]
	c.need('[')
	if c.bad || c.eat(']') {
		return dst
	}
	for {
		v := c.int()
		if c.bad || v < math.MinInt32 || v > math.MaxInt32 {
			c.bad = true
			return dst
		}
		dst = append(dst, int32(v))
		if !c.eat(',') {
			break
		}
	}
	c.need(']')
	return dst
}

func (d *decoder) word(b []byte) string {
	if s, ok := d.words[string(b)]; ok {
		return s
	}
	if d.words == nil {
		d.words = map[string]string{}
	}
	s := string(b)
	if len(d.words) < wordsMost && len(s) < 256 {
		d.words[s] = s
	}
	return s
}

// fast reports whether it could read the line.
func (d *decoder) fast(line []byte) bool {
	c := &cursor{b: line}
	r := &d.r
	c.need('{')
	for !c.bad {
		key := c.string()
		c.need(':')
		if c.bad {
			return false
		}
		switch string(key) {
		case "id":
			r.ID = string(c.string())
		case "stage":
			r.Stage = d.word(c.string())
		case "warmup":
			r.Warmup = c.true()
		case "stream":
			r.Stream = c.count()
		case "scheduled_ns":
			r.Scheduled = c.int()
		case "eligible_ns":
			r.Eligible = c.int()
		case "connect_ns":
			r.Connect = c.int()
		case "sent_ns":
			r.Sent = c.int()
		case "first_ns":
			r.First = c.int()
		case "answer_ns":
			r.Answer = c.int()
		case "no_answer":
			r.NoAnswer = c.true()
		case "last_ns":
			r.Last = c.int()
		case "end_ns":
			r.End = c.int()
		case "gaps_us":
			r.Gaps = c.ints(r.Gaps)
		case "chunk_tokens":
			r.ChunkTokens = c.ints(r.ChunkTokens)
		case "other":
			r.Other = d.word(c.string())
		case "other_us":
			r.OtherUS = c.ints(r.OtherUS)
		case "asked_input_tokens":
			r.AskedInput = c.count()
		case "asked_output_tokens":
			r.AskedOutput = c.count()
		case "input_tokens":
			r.InputTokens = c.count()
		case "output_tokens":
			r.OutputTokens = c.count()
		case "cached_tokens":
			r.CachedTokens = c.count()
		case "unplaced_tokens":
			r.Unplaced = c.count()
		case "tokens_from":
			r.TokensFrom = d.word(c.string())
		case "error":
			r.Error = assay.Failure(d.word(c.string()))
		case "error_detail":
			r.Detail = string(c.string())
		case "http_status":
			r.Status = c.count()
		case "address":
			r.Address = d.word(c.string())
		case "reads":
			r.Reads = c.count()
		case "merged_reads":
			r.MergedReads = c.count()
		case "burst_reads":
			r.BurstReads = c.count()
		case "burst_chunks":
			r.BurstChunks = c.count()
		case "first_merged":
			r.FirstMerged = c.true()
		case "first_lag_us":
			r.FirstLag = c.int()
		case "max_lag_us":
			r.MaxLag = c.int()
		case "clock_step":
			r.ClockStep = c.true()
		case "engine":
			if r.Engine != nil {
				return false
			}
			d.fastEngine(c)
		case "prompt":
			r.Prompt = c.count()
		case "text":
			r.Text = string(c.string())
		default:
			return false
		}
		if !c.eat(',') {
			break
		}
	}
	c.need('}')
	return !c.bad && c.i == len(line)
}

func (d *decoder) fastEngine(c *cursor) {
	d.engine = assay.EngineTimings{}
	e := &d.engine
	d.r.Engine = e
	c.need('{')
	if c.eat('}') {
		return
	}
	for !c.bad {
		key := c.string()
		c.need(':')
		switch string(key) {
		case "total_ns":
			e.Total = c.int()
		case "load_ns":
			e.Load = c.int()
		case "prompt_ns":
			e.Prompt = c.int()
		case "eval_ns":
			e.Eval = c.int()
		case "prompt_tokens":
			e.PromptTokens = c.count()
		case "eval_tokens":
			e.EvalTokens = c.count()
		case "eval_intervals":
			e.EvalIntervals = c.count()
		case "first_token_ns":
			e.FirstToken = c.int()
		case "generation_ns":
			e.Generation = c.int()
		case "queued_ns":
			e.Queued = c.int()
		default:
			c.bad = true
		}
		if !c.eat(',') {
			break
		}
	}
	c.need('}')
}

package journal

import (
	"strconv"
	"unicode/utf8"

	"github.com/assay-bench/assay"
)

// AppendRequest appends a request's line, without its newline. It writes what
// encoding/json would mean, without reflection and without allocating: this
// runs once a request while others are being timed.
func AppendRequest(b []byte, r *assay.Request) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, r.ID)
	b = append(b, `,"stage":`...)
	b = appendString(b, r.Stage)
	b = appendTrue(b, `,"warmup":`, r.Warmup)
	b = appendInt(b, `,"stream":`, int64(r.Stream))
	b = appendInt(b, `,"scheduled_ns":`, r.Scheduled)
	b = appendInt(b, `,"eligible_ns":`, r.Eligible)
	b = appendInt(b, `,"connect_ns":`, r.Connect)
	b = appendInt(b, `,"sent_ns":`, r.Sent)
	b = appendInt(b, `,"first_ns":`, r.First)
	b = appendInt(b, `,"answer_ns":`, r.Answer)
	b = appendTrue(b, `,"no_answer":`, r.NoAnswer)
	b = appendInt(b, `,"last_ns":`, r.Last)
	b = appendInt(b, `,"end_ns":`, r.End)
	b = appendInts(b, `,"gaps_us":[`, r.Gaps)
	b = appendInts(b, `,"chunk_tokens":[`, r.ChunkTokens)
	b = appendText(b, `,"other":`, r.Other)
	b = appendInts(b, `,"other_us":[`, r.OtherUS)
	b = appendInt(b, `,"asked_input_tokens":`, int64(r.AskedInput))
	b = appendInt(b, `,"asked_output_tokens":`, int64(r.AskedOutput))
	b = appendInt(b, `,"input_tokens":`, int64(r.InputTokens))
	b = appendInt(b, `,"output_tokens":`, int64(r.OutputTokens))
	b = appendInt(b, `,"cached_tokens":`, int64(r.CachedTokens))
	b = appendInt(b, `,"unplaced_tokens":`, int64(r.Unplaced))
	b = appendText(b, `,"tokens_from":`, r.TokensFrom)
	b = appendText(b, `,"error":`, string(r.Error))
	b = appendText(b, `,"error_detail":`, r.Detail)
	b = appendInt(b, `,"http_status":`, int64(r.Status))
	b = appendText(b, `,"address":`, r.Address)
	b = appendInt(b, `,"reads":`, int64(r.Reads))
	b = appendInt(b, `,"merged_reads":`, int64(r.MergedReads))
	b = appendInt(b, `,"burst_reads":`, int64(r.BurstReads))
	b = appendInt(b, `,"burst_chunks":`, int64(r.BurstChunks))
	b = appendTrue(b, `,"first_merged":`, r.FirstMerged)
	b = appendInt(b, `,"first_lag_us":`, r.FirstLag)
	b = appendInt(b, `,"max_lag_us":`, r.MaxLag)
	b = appendTrue(b, `,"clock_step":`, r.ClockStep)
	if e := r.Engine; e != nil {
		b = appendEngine(b, e)
	}
	b = append(b, `,"prompt":`...)
	b = strconv.AppendInt(b, int64(r.Prompt), 10)
	b = appendText(b, `,"text":`, r.Text)
	return append(b, '}')
}

func appendEngine(b []byte, e *assay.EngineTimings) []byte {
	b = append(b, `,"engine":{`...)
	start := len(b)
	b = appendInt(b, `,"total_ns":`, e.Total)
	b = appendInt(b, `,"load_ns":`, e.Load)
	b = appendInt(b, `,"prompt_ns":`, e.Prompt)
	b = appendInt(b, `,"eval_ns":`, e.Eval)
	b = appendInt(b, `,"prompt_tokens":`, int64(e.PromptTokens))
	b = appendInt(b, `,"eval_tokens":`, int64(e.EvalTokens))
	b = appendInt(b, `,"eval_intervals":`, int64(e.EvalIntervals))
	b = appendInt(b, `,"first_token_ns":`, e.FirstToken)
	b = appendInt(b, `,"generation_ns":`, e.Generation)
	b = appendInt(b, `,"queued_ns":`, e.Queued)
	if len(b) > start { // the first member has no comma before it
		b = append(b[:start], b[start+1:]...)
	}
	return append(b, '}')
}

func appendInt(b []byte, key string, v int64) []byte {
	if v == 0 {
		return b
	}
	return strconv.AppendInt(append(b, key...), v, 10)
}

func appendTrue(b []byte, key string, v bool) []byte {
	if !v {
		return b
	}
	return append(append(b, key...), "true"...)
}

func appendText(b []byte, key, v string) []byte {
	if v == "" {
		return b
	}
	return appendString(append(b, key...), v)
}

func appendInts(b []byte, key string, v []int32) []byte {
	if len(v) == 0 {
		return b
	}
	b = append(b, key...)
	for i, n := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return append(b, ']')
}

const hexDigits = "0123456789abcdef"

// appendString appends a JSON string. What is not UTF-8 becomes U+FFFD, as in
// encoding/json; the two separators that JavaScript takes for line ends are
// escaped likewise.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			b = append(b, s[start:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, '\\', 'n')
			case '\r':
				b = append(b, '\\', 'r')
			case '\t':
				b = append(b, '\\', 't')
			default:
				b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(append(b, s[start:i]...), `\ufffd`...)
			start = i + size
		case r == '\u2028' || r == '\u2029':
			b = append(append(b, s[start:i]...), `\u202`...)
			b = append(b, hexDigits[r&15])
			start = i + size
		}
		i += size
	}
	return append(append(b, s[start:]...), '"')
}

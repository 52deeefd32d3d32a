package inference

import (
	"fmt"
	"strings"
	"time"

	"github.com/assay-bench/assay"
)

type fault struct {
	name   string
	want   assay.Failure
	detail string
	tokens int
	hangs  bool // only a limit of ours ends it
	script func(*wire)
}

// patience is the limit for the first token and for gaps while a fault plays.
func (f fault) patience() time.Duration {
	if f.hangs {
		return 2 * time.Second
	}
	return time.Minute
}

// faults are the ways in which an engine goes wrong, and what each must be
// called.
func faults() []fault {
	return []fault{
		{"none", "", "", 2, false, func(w *wire) { w.stream(); w.token("a"); w.token("b"); w.finish() }},
		{"400", assay.FailHTTP4xx, `{"error":"no"}`, 0, false, func(w *wire) {
			w.head("400 Bad Request", "Content-Length: 14", "Content-Type: application/json")
			w.raw(`{"error":"no"}`)
		}},
		{"429", assay.FailHTTP429, `Retry-After "7"`, 0, false, func(w *wire) {
			w.head("429 Too Many", "Retry-After: 7", "Transfer-Encoding: chunked")
			w.chunk("slow\x00down\n")
			w.raw("0\r\n\r\n")
		}},
		{"503 without a body", assay.FailHTTP5xx, "", 0, false, func(w *wire) { w.head("503 Busy", "Content-Length: 0", "Retry-After: 1") }},
		{"500 that hangs", assay.FailHTTP5xx, "half", 0, true, func(w *wire) {
			w.head("500 Oops", "Content-Length: 100")
			w.raw("half")
			w.hang()
		}},
		{"500 without end", assay.FailHTTP5xx, "xxxx", 0, false, func(w *wire) {
			w.head("500 Oops", "Content-Length: 99999999999")
			for range 1000 {
				if _, err := w.Write([]byte(strings.Repeat("x", 10000))); err != nil {
					return
				}
			}
		}},
		{"redirect", assay.FailStreamError, "redirect to \"http://elsewhere/\" not followed", 0, false, func(w *wire) {
			w.head("307 Moved", "Location: http://elsewhere/", "Content-Length: 0")
		}},
		{"gzip", assay.FailStreamError, "content encoding", 0, false, func(w *wire) {
			w.head("200 OK", "Content-Encoding: gzip", "Content-Type: "+w.d.kind, "Content-Length: 5")
			w.raw("12345")
		}},
		{"reset before the reply", assay.FailReset, "before any reply", 0, false, func(w *wire) { w.reset() }},
		{"close before the reply", assay.FailReset, "before any reply", 0, false, func(w *wire) {}},
		{"reset in the head", assay.FailReset, "", 0, false, func(w *wire) { w.raw("HTTP/1.1 200 OK\r\nX: "); time.Sleep(10 * time.Millisecond); w.reset() }},
		{"reset in the stream", assay.FailReset, "after 1 token", 1, false, func(w *wire) {
			w.stream()
			w.token("a")
			time.Sleep(30 * time.Millisecond)
			w.reset()
		}},
		{"close with the last data", assay.FailReset, "after 1 token", 1, false, func(w *wire) { w.stream(); w.token("a") }},
		{"close within a length", assay.FailReset, "", 1, false, func(w *wire) {
			w.head("200 OK", "Content-Type: "+w.d.kind, "Content-Length: 100000")
			w.raw(w.d.wrap(w.d.token("a")))
		}},
		{"truncated", assay.FailTruncated, "after 1 token", 1, false, func(w *wire) { w.stream(); w.token("a"); w.raw("0\r\n\r\n") }},
		{"truncated at close", assay.FailTruncated, "after 1 token", 1, false, func(w *wire) {
			w.head("200 OK", "Content-Type: "+w.d.kind)
			w.raw(w.d.wrap(w.d.token("a")))
		}},
		{"empty", assay.FailEmpty, "", 0, false, func(w *wire) {
			w.stream()
			for _, e := range w.d.finish { // nobody counted a token
				w.event(strings.NewReplacer(`"completion_tokens":2`, `"completion_tokens":0`, `"eval_count":2`, `"eval_count":0`).Replace(e))
			}
			w.raw("0\r\n\r\n")
			w.keep = true
		}},
		{"nothing", assay.FailEmpty, "", 0, false, func(w *wire) { w.head("200 OK", "Content-Type: "+w.d.kind, "Content-Length: 0") }},
		{"204", assay.FailEmpty, "", 0, false, func(w *wire) { w.head("204 No Content") }},
		{"error event", assay.FailStreamError, "out of memory", 1, false, func(w *wire) { w.stream(); w.token("a"); w.event(w.d.failure) }},
		{"broken JSON", assay.FailStreamError, "not a JSON object", 1, false, func(w *wire) { w.stream(); w.token("a"); w.event(`{"choices":[{`) }},
		{"JSON that is no object", assay.FailStreamError, "not a JSON object", 1, false, func(w *wire) { w.stream(); w.token("a"); w.event(`"x"`) }},
		{"not HTTP", assay.FailStreamError, "not an HTTP reply", 0, false, func(w *wire) { w.raw("SSH-2.0-OpenSSH_9.6\r\n\r\n") }},
		{"broken chunk size", assay.FailStreamError, "chunk size", 1, false, func(w *wire) { w.stream(); w.token("a"); w.raw("zz\r\n") }},
		{"huge chunk size", assay.FailStreamError, "chunk size", 1, false, func(w *wire) { w.stream(); w.token("a"); w.raw("ffffffffffffffff\r\n") }},
		{"chunk of wrong size", assay.FailStreamError, "chunk", 1, false, func(w *wire) { w.stream(); w.token("a"); w.raw("1\r\nabcdef\r\n") }},
		{"a line of 100 MB", assay.FailStreamError, "longer than 1 MiB", 1, false, func(w *wire) {
			w.stream()
			w.token("a")
			block := []byte("186a0\r\n" + strings.Repeat("x", 100_000) + "\r\n")
			w.chunk(`data: {"a":"`)
			for range 1000 {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}},
		{"a head that never ends", assay.FailStreamError, "a head longer than 64 KiB", 0, false, func(w *wire) {
			w.raw("HTTP/1.1 200 OK\r\n")
			for i := range 100_000 {
				if _, err := fmt.Fprintf(w.Conn, "X-%d: y\r\n", i); err != nil {
					return
				}
			}
		}},
		{"a head line that never ends", assay.FailStreamError, "a head longer than 64 KiB", 0, false, func(w *wire) {
			w.raw("HTTP/1.1 200 OK\r\nX: ")
			for range 100 {
				if _, err := w.Write([]byte(strings.Repeat("y", 10_000))); err != nil {
					return
				}
			}
		}},
		{"a byte a second", assay.FailTimeout, "first token", 0, true, func(w *wire) {
			for _, b := range []byte("HTTP/1.1 200 OK") {
				if _, err := w.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(300 * time.Millisecond)
			}
			w.hang()
		}},
		{"interim replies", "", "", 2, false, func(w *wire) {
			w.raw("HTTP/1.1 100 Continue\r\n\r\n")
			w.raw("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
			w.stream()
			w.token("a")
			w.token("b")
			w.finish()
		}},
		{"interim replies without end", assay.FailStreamError, "interim", 0, false, func(w *wire) {
			for range 100 {
				w.raw("HTTP/1.1 102 Processing\r\n\r\n")
			}
		}},
		{"protocol switched", assay.FailStreamError, "switched", 0, false, func(w *wire) { w.raw("HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n") }},
		{"HTTP/1.0", "", "", 2, false, func(w *wire) {
			w.raw("HTTP/1.0 200 OK\r\nContent-Type: " + w.d.kind + "\r\n\r\n")
			w.raw(w.d.wrap(w.d.token("a")))
			time.Sleep(20 * time.Millisecond)
			w.raw(w.d.wrap(w.d.token("b")))
			for _, e := range w.d.finish {
				w.raw(w.d.wrap(e))
			}
		}},
		{"an end that does not come", "", "", 2, false, func(w *wire) {
			w.stream()
			w.token("a")
			w.token("b")
			for _, e := range w.d.finish {
				w.event(e)
			}
			w.hang()
		}},
		{"reset after the end", "", "", 2, false, func(w *wire) {
			w.stream()
			w.token("a")
			w.token("b")
			for _, e := range w.d.finish {
				w.event(e)
			}
			time.Sleep(20 * time.Millisecond)
			w.reset()
		}},
		{"line ends of Windows", "", "", 2, false, func(w *wire) {
			w.stream()
			crlf := func(data string) { w.chunk(strings.ReplaceAll(w.d.wrap(data), "\n", "\r\n")) }
			crlf(w.d.token("a"))
			crlf(w.d.token("b"))
			for _, e := range w.d.finish {
				crlf(e)
			}
			w.raw("0\r\n\r\n")
		}},
		{"a byte at a time", "", "", 2, false, func(w *wire) {
			var all strings.Builder
			for _, e := range append([]string{w.d.token("a"), w.d.token("b")}, w.d.finish...) {
				s := w.d.wrap(e)
				fmt.Fprintf(&all, "%x\r\n%s\r\n", len(s), s)
			}
			all.WriteString("0\r\n\r\n")
			w.stream()
			for _, b := range []byte(all.String()) {
				w.Write([]byte{b})
			}
		}},
	}
}

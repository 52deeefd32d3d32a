package simulate

import (
	"bytes"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
)

func TestSealEverySize(t *testing.T) {
	r := &reply{chunked: true}
	for _, n := range []int{1, 15, 16, 255, 256, 4095, 4096, 70000} {
		b := []byte("before")
		b, at := frame(b, r)
		body := strings.Repeat("x", n)
		b = append(b, body...)
		b = lastChunk(seal(b, r, at), r)
		got, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(b[6:])))
		if err != nil || string(got) != body || string(b[:6]) != "before" {
			t.Errorf("%d bytes: %v, read %d", n, err, len(got))
		}
		if b[6] == '0' {
			t.Errorf("%d bytes: the size has a leading zero", n)
		}
	}
}

func TestHistogram(t *testing.T) {
	for _, ns := range []int64{0, 1, 15, 16, 17, 31, 32, 33, 1000, 123456, 1e9, 1 << 40, 1<<62 + 5} {
		s := slot(ns)
		if upper(s) <= ns || (s > 0 && upper(s-1) > ns) {
			t.Errorf("%d lies in slot %d, which ends at %d", ns, s, upper(s))
		}
		if w := float64(upper(s)-ns) / float64(ns+1); w > 1.0/16+1e-9 && ns > 16 {
			t.Errorf("slot of %d is %.2f wide", ns, w)
		}
	}
	h := new(histogram)
	for i := range int64(1000) {
		h.add(i * 1000)
	}
	near(t, "median", float64(h.quantile(.5)), 500e3, 0.07)
	near(t, "p99", float64(h.quantile(.99)), 990e3, 0.07)
	near(t, "below 100 µs", float64(h.atMost(100e3)), 100, 0.07)
}

// A token costs no allocation, whatever the voice.
func TestTokensAllocateNothing(t *testing.T) {
	e, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	h := e.habits()[0]
	for name, v := range map[string]voice{
		"chat":       &openAI{e: e, h: h, shape: e.shapes[0], chat: true, model: "m", token: e.shapes[0].token.fill("request", "1", "m")},
		"completion": &openAI{e: e, h: h, shape: e.shapes[1], model: "m", token: e.shapes[1].token.fill("request", "1", "m")},
		"ollama":     &ollama{e: e, h: h, chat: true, model: "m"},
	} {
		r := &reply{voice: v, h: h, chunked: true, stream: true, running: true, output: 100}
		q := &sequence{reply: r, output: 100, given: 5}
		buf := make([]byte, 0, 4096)
		if n := testing.AllocsPerRun(100, func() { buf = v.tokens(buf[:0], q, 1) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

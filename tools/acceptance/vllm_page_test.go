package acceptance

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// vllmPage is what a vLLM has counted, by its own names. It is read here
// without a line of what the program reads it with: a mistake in that would
// else be on both sides.
type vllmPage map[string]float64

func readVLLM(t *testing.T, url string) vllmPage {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page := vllmPage{}
	in := bufio.NewScanner(io.LimitReader(resp.Body, 4<<20))
	for in.Scan() {
		name, rest, labels := strings.Cut(in.Text(), "{")
		if !labels || !strings.HasPrefix(name, "vllm:") {
			continue
		}
		label, value, _ := strings.Cut(rest, "} ")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || strings.Contains(label, `finished_reason="abort"`) || strings.Contains(label, `finished_reason="error"`) {
			continue
		}
		page[strings.TrimPrefix(name, "vllm:")] += v
	}
	if len(page) == 0 {
		t.Fatalf("%s has no page of vLLM's", url)
	}
	return page
}

// since gives what was counted since before, when that many requests are in it:
// vLLM counts one a moment after it has sent its last chunk.
func (p vllmPage) since(t *testing.T, url string, requests float64) vllmPage {
	t.Helper()
	var now vllmPage
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		now = readVLLM(t, url)
		for name, v := range p {
			now[name] -= v
		}
		if now["request_success_total"] >= requests || time.Now().After(end) {
			return now
		}
	}
}

// mean is the mean of one of vLLM's times in milliseconds.
func (p vllmPage) mean(name string) float64 {
	return p[name+"_seconds_sum"] / p[name+"_seconds_count"] * 1e3
}

func (p vllmPage) counts() string {
	return fmt.Sprintf("%.0f requests, %.0f input and %.0f output tokens", p["request_success_total"], p["prompt_tokens_total"], p["generation_tokens_total"])
}

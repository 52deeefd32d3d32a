package simulate

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

const streamed = `{"prompt":"a b","max_tokens":8,"stream":true}`
const wholly = `{"prompt":"a b","max_tokens":8}`

func TestFaults(t *testing.T) {
	type outcome struct {
		res  *http.Response
		body string
		err  error
	}
	events := func(body string) int { return strings.Count(body, `"text":" `) }
	done := func(body string) bool { return strings.HasSuffix(body, "data: [DONE]\n\n") }
	for _, tt := range []struct {
		name   string
		faults Faults
		body   string
		ok     func(outcome) bool
	}{
		{"none", Faults{}, streamed, func(o outcome) bool { return o.err == nil && events(o.body) == 8 && done(o.body) }},
		{"500", Faults{Status: map[int]float64{500: 1}}, streamed, func(o outcome) bool {
			return o.res.StatusCode == 500 && strings.Contains(o.body, `"type":"InternalServerError"`)
		}},
		{"429", Faults{Status: map[int]float64{429: 1}}, streamed, func(o outcome) bool {
			return o.res.StatusCode == 429 && o.res.Header.Get("Retry-After") == "1"
		}},
		{"400", Faults{Status: map[int]float64{400: 1}}, wholly, func(o outcome) bool { return o.res.StatusCode == 400 }},
		{"reset", Faults{Reset: 1}, streamed, func(o outcome) bool { return errors.Is(o.err, syscall.ECONNRESET) }},
		{"reset whole", Faults{Reset: 1}, wholly, func(o outcome) bool { return errors.Is(o.err, syscall.ECONNRESET) || errors.Is(o.err, io.EOF) }},
		{"truncate", Faults{Truncate: 1}, streamed, func(o outcome) bool {
			n := events(o.body)
			return o.err == nil && n >= 1 && n < 8 && !done(o.body) && !strings.Contains(o.body, `"length"`)
		}},
		{"truncate whole", Faults{Truncate: 1}, wholly, func(o outcome) bool { return errors.Is(o.err, io.ErrUnexpectedEOF) }},
		{"cut", Faults{Cut: 1}, streamed, func(o outcome) bool { return errors.Is(o.err, io.ErrUnexpectedEOF) && events(o.body) >= 1 }},
		{"malformed", Faults{Malformed: 1}, streamed, func(o outcome) bool {
			return o.err == nil && events(o.body) == 8 && done(o.body) && broken(o.body) == 1
		}},
		{"malformed whole", Faults{Malformed: 1}, wholly, func(o outcome) bool { return o.err == nil && !json.Valid([]byte(o.body)) }},
		{"empty", Faults{Empty: 1}, streamed, func(o outcome) bool {
			return o.err == nil && o.res.StatusCode == 200 && events(o.body) == 0 && done(o.body)
		}},
		{"empty whole", Faults{Empty: 1}, wholly, func(o outcome) bool {
			return o.err == nil && strings.Contains(o.body, `"text":""`) && strings.Contains(o.body, `"completion_tokens":0`)
		}},
		{"stream error", Faults{StreamError: 1}, streamed, func(o outcome) bool {
			return o.err == nil && events(o.body) < 8 && done(o.body) && strings.Contains(o.body, `data: {"error":{"message":`)
		}},
		{"stream error whole", Faults{StreamError: 1}, wholly, func(o outcome) bool { return o.res.StatusCode == 500 }},
		{"hang", Faults{Hang: 1}, streamed, func(o outcome) bool { return os.IsTimeout(o.err) }},
		{"slow start", Faults{SlowStart: time.Hour}, streamed, func(o outcome) bool { return o.res.StatusCode == 503 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, law := range []Law{LawFixed, LawBatching} {
				c := quick()
				c.Law, c.Faults = law, tt.faults
				e, base := serve(t, c)
				cl := client(t)
				if tt.faults.Hang > 0 {
					cl.Timeout = 100 * time.Millisecond
				}
				for range 2 { // the engine goes on after a fault
					res, body, err := post(t, cl, base+"/v1/completions", tt.body)
					if err != nil && res == nil {
						res = &http.Response{}
					}
					if o := (outcome{res, body, err}); !tt.ok(o) {
						t.Errorf("law %s: status %d, error %v, body:\n%s", law, res.StatusCode, err, body)
					}
				}
				settle(t, e)
			}
		})
	}
}

// broken counts the events of a stream that do not parse.
func broken(body string) (n int) {
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if ok && data != "[DONE]" && !json.Valid([]byte(data)) {
			n++
		}
	}
	return n
}

// settle waits until the engine has forgotten every request.
func settle(t *testing.T, e *Engine) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		running, waiting := e.load()
		reserved := e.gauges.reserved.Load()
		if running == 0 && waiting == 0 && reserved == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d running, %d waiting, %d tokens reserved", running, waiting, reserved)
		}
	}
}

func TestOllamaFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		faults Faults
		want   string
	}{
		"status":       {Faults{Status: map[int]float64{500: 1}}, `{"error":"simulated engine failure"}`},
		"stream error": {Faults{StreamError: 1}, "{\"error\":\"simulated engine failure\"}\n"},
		"malformed":    {Faults{Malformed: 1}, "{\"model\":\"\n"},
		"empty":        {Faults{Empty: 1}, `"eval_count":0`},
	} {
		c := quick()
		c.Faults = tt.faults
		_, base := serve(t, c)
		if _, body, err := post(t, client(t), base+"/api/generate", `{"prompt":"a b"}`); err != nil || !strings.Contains(body, tt.want) {
			t.Errorf("%s: %v %s", name, err, body)
		}
	}
}

func TestShareOfFaults(t *testing.T) {
	f := Faults{Status: map[int]float64{500: 0.1, 429: 0.2}, Reset: 0.05, Hang: 0.15}
	d, again, other := newDice(7, f), newDice(7, f), newDice(8, f)
	const n = 20000
	seen := map[plan]float64{}
	same, differ := true, false
	for i := range uint64(n) {
		p := d.roll(i, 100)
		same = same && p == again.roll(i, 100)
		differ = differ || p != other.roll(i, 100)
		if p.kind != faultNone && (p.at < 1 || p.at > 99) {
			t.Fatalf("fault after %d of 100 tokens", p.at)
		}
		p.at = 0
		seen[p]++
	}
	for p, want := range map[plan]float64{
		{kind: faultStatus, status: 500}: 0.1, {kind: faultStatus, status: 429}: 0.2,
		{kind: faultReset}: 0.05, {kind: faultHang}: 0.15, {}: 0.5,
	} {
		if got := seen[p] / n; !(math.Abs(got-want) <= 0.012) {
			t.Errorf("%v: share %.3f, want %.3f", p, got, want)
		}
	}
	if !same || !differ {
		t.Errorf("same seed same faults: %v; another seed other faults: %v", same, differ)
	}
}

func TestLeakIsResident(t *testing.T) {
	_, before := usageOfProcess()
	if before == 0 {
		t.Skip("resident memory is not known here")
	}
	c := quick()
	c.Faults.Leak = 4 << 20
	e, base := serve(t, c)
	for range 10 {
		if _, _, err := post(t, client(t), base+"/v1/completions", wholly); err != nil {
			t.Fatal(err)
		}
	}
	_, after := usageOfProcess()
	if grown := after - before; grown < 30<<20 {
		t.Errorf("resident memory grew by %d bytes, want 40 MB", grown)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.kept) != 10 {
		t.Errorf("%d leaks of 10 requests", len(e.kept))
	}
}

func TestSlowStartEnds(t *testing.T) {
	c := quick()
	c.Faults.SlowStart = 200 * time.Millisecond
	_, base := serve(t, c)
	cl := client(t)
	first := 0
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		res, err := cl.Get(base + "/health")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if first == 0 {
			first = res.StatusCode
		}
		if res.StatusCode == 200 {
			break
		}
	}
	if first != 503 {
		t.Errorf("/health at first: %d", first)
	}
	if res, _, err := post(t, cl, base+"/v1/completions", wholly); err != nil || res.StatusCode != 200 {
		t.Errorf("after the start: %v %v", res, err)
	}
}

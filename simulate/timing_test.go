package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/tools/stillness"
)

// shelf is a writer that tests may read while the engine writes.
type shelf struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shelf) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

type truthLine struct {
	ID      string  `json:"id"`
	Read    int64   `json:"read_ns"`
	Written []int64 `json:"written_ns"`
	Late    int64   `json:"late_us"`
	Due     []int64 `json:"due_ns"`
	Tokens  string  `json:"tokens"`
	Choices []int   `json:"choices"`
}

// lines are the truth so far, by id.
func (s *shelf) lines(t *testing.T) map[string]truthLine {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]truthLine{}
	for line := range bytes.Lines(s.b.Bytes()) {
		var l truthLine
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all[l.ID] = l
	}
	return all
}

func (s *shelf) wait(t *testing.T, n int) map[string]truthLine {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if l := s.lines(t); len(l) >= n {
			return l
		}
	}
	t.Fatalf("fewer than %d truth lines", n)
	return nil
}

// Tokens are written when the law says: never early, and late only by what
// the truth admits.
func TestTruthFollowsTheLaw(t *testing.T) {
	s := new(shelf)
	c := quick()
	c.TTFT, c.ITL, c.Truth = 40*time.Millisecond, 5*time.Millisecond, s
	_, base := serve(t, c)
	sent := time.Now().UnixNano()
	if _, _, err := post(t, client(t), base+"/v1/completions", `{"prompt":"a","max_tokens":20,"stream":true}`); err != nil {
		t.Fatal(err)
	}
	if _, _, err := post(t, client(t), base+"/v1/completions", `{"prompt":"a","max_tokens":3}`); err != nil {
		t.Fatal(err)
	}
	l := s.wait(t, 1)["req-1"]
	if len(l.Written) == 3 { // the second line has the same id and replaced it
		if l.Written[0] != l.Written[2] || l.Written[0]-l.Read < 50e6 {
			t.Errorf("a whole answer is one write at its last token's time: %+v", l)
		}
	}
	s.mu.Lock()
	first, _, _ := bytes.Cut(s.b.Bytes(), []byte("\n"))
	s.mu.Unlock()
	l = truthLine{}
	if err := json.Unmarshal(first, &l); err != nil {
		t.Fatal(err)
	}
	if l.ID != "req-1" || len(l.Written) != 20 || l.Read < sent {
		t.Fatalf("truth %+v", l)
	}
	for k, w := range l.Written {
		due := l.Read + 40e6 + int64(k)*5e6
		late := w - due
		// The wall clock may be slewed against the monotonic one.
		if late < -1e6 || late > (l.Late+1000)*1e3 {
			t.Errorf("token %d written %d µs after it was due; the worst is said to be %d", k, late/1000, l.Late)
		}
	}
}

func TestIDsAreTheClients(t *testing.T) {
	s := new(shelf)
	c := quick()
	c.Truth = s
	_, base := serve(t, c)
	cl := client(t)
	for _, id := range []string{"plain", `quote"and\slash`, ""} {
		req, _ := http.NewRequest("POST", base+"/v1/completions", strings.NewReader(streamed))
		req.Header.Set("X-Request-Id", id)
		res, err := cl.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if broken(string(b)) > 0 {
			t.Errorf("id %q breaks the stream:\n%s", id, b)
		}
	}
	got := s.wait(t, 3)
	if _, ok := got[`quote"and\slash`]; !ok {
		t.Errorf("ids %v", got)
	}
}

func TestStallHoldsTokensBack(t *testing.T) {
	for _, law := range []Law{LawFixed, LawBatching} {
		t.Run(string(law), func(t *testing.T) {
			stillness.Timed(t, string(law), func() error { return stallHolds(t, law) })
		})
	}
}

func stallHolds(t *testing.T, law Law) error {
	t.Helper()
	s := new(shelf)
	c := quick()
	c.Law, c.TTFT, c.ITL, c.Truth = law, 20*time.Millisecond, 10*time.Millisecond, s
	c.Batching = Batching{StepBase: 10 * time.Millisecond}
	_, base := serve(t, c)
	cl := client(t)
	var wg sync.WaitGroup
	wg.Go(func() { post(t, cl, base+"/v1/completions", `{"prompt":"a","max_tokens":60,"stream":true}`) })
	time.Sleep(150 * time.Millisecond)
	before := time.Now().UnixNano()
	res, body, err := post(t, cl, base+"/control/stall?ms=200", "")
	if err != nil || res.StatusCode != 200 || body != `{"stalled_ms":200}` {
		t.Fatalf("%v %s", err, body)
	}
	after := time.Now().UnixNano()
	wg.Wait()
	l := s.wait(t, 1)["req-1"]
	held := 0
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, w := range l.Written {
		// What was due before the stall may still come, late.
		if w > after+l.Late*1000 && w < before+200e6 {
			wrong("a token was written %d ms into the stall", (w-before)/1e6)
		}
		if w >= before+200e6 && w <= after+215e6 {
			held++
		}
	}
	if held < 15 {
		wrong("%d tokens came at the stall's end, want about 20", held)
	}
	// Schedules are absolute: the stall delays no token after it.
	if d := l.Written[59] - l.Written[0]; d < 580e6 || d > 700e6 {
		wrong("59 gaps took %d ms, want 590", d/1e6)
	}
	if l.Late > 150_000 {
		wrong("the stall is counted as lateness: %d µs", l.Late)
	}
	return errors.Join(errs...)
}

func TestPlannedStall(t *testing.T) {
	s := new(shelf)
	c := quick()
	c.Truth = s
	c.Faults.StallAt, c.Faults.StallFor = 0, 300*time.Millisecond
	e, base := serve(t, c)
	if _, _, err := post(t, client(t), base+"/v1/completions", streamed); err != nil {
		t.Fatal(err)
	}
	l := s.wait(t, 1)["req-1"]
	if w := l.Written[0] - e.created.UnixNano(); w < 299e6 {
		t.Errorf("first token %d ms after the start, inside the stall", w/1e6)
	}
	if res, _, _ := post(t, client(t), base+"/control/stall?ms=-1", ""); res.StatusCode != 400 {
		t.Errorf("a stall of −1 ms: %d", res.StatusCode)
	}
}

// An engine gets slower on demand, and what it was again.
func TestSlowOnDemand(t *testing.T) {
	for _, law := range []Law{LawFixed, LawBatching} {
		c := quick()
		c.Law, c.TTFT, c.ITL = law, time.Millisecond, time.Millisecond
		c.Batching = Batching{StepBase: time.Millisecond}
		_, base := serve(t, c)
		if res, body, err := post(t, client(t), base+"/control/slow?by=20", ""); err != nil || res.StatusCode != 200 || body != `{"slower_by":20}` {
			t.Fatalf("%v %s", err, body)
		}
		began := time.Now()
		if _, _, err := post(t, client(t), base+"/v1/completions", `{"prompt":"a","max_tokens":21,"stream":true}`); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 300*time.Millisecond {
			t.Errorf("law %v: 20 gaps of a millisecond, twenty times as long, took %s", law, took)
		}
	}
	_, base := serve(t, quick())
	for _, by := range []string{"", "0", "0.5", "-1", "NaN", "1e9"} {
		if res, _, _ := post(t, client(t), base+"/control/slow?by="+by, ""); res.StatusCode != 400 {
			t.Errorf("slower by %q: %d", by, res.StatusCode)
		}
	}
}

// A client that does not read delays nobody, and loses nothing.
func TestSlowReaderDelaysNobody(t *testing.T) {
	c := quick()
	c.ITL = 0
	_, base := serve(t, c)
	nc, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.(*net.TCPConn).SetReadBuffer(64 << 10)
	const tokens = 40000 // some 7 MB at once
	body := fmt.Sprintf(`{"prompt":"a","max_tokens":%d,"stream":true}`, tokens)
	fmt.Fprintf(nc, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	time.Sleep(100 * time.Millisecond)
	for range 3 { // while nobody reads the first, which would take for ever
		if _, _, err := post(t, client(t), base+"/v1/completions", streamed); err != nil {
			t.Fatal(err)
		}
	}
	nc.SetDeadline(time.Now().Add(time.Minute))
	b, err := io.ReadAll(nc)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte(`"text":" `)); n != tokens || !bytes.HasSuffix(b, []byte("[DONE]\n\n\r\n0\r\n\r\n")) {
		t.Errorf("the slow reader got %d of %d tokens", n, tokens)
	}
}

func TestDisconnectFreesTheStream(t *testing.T) {
	for _, law := range []Law{LawFixed, LawBatching} {
		c := quick()
		c.Law, c.TTFT = law, time.Hour
		c.Batching = Batching{Slots: 1, StepBase: 20 * time.Millisecond}
		e, base := serve(t, c)
		var all []net.Conn
		for range 3 {
			nc, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			const body = `{"prompt":"a","max_tokens":100000,"stream":true}`
			fmt.Fprintf(nc, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			all = append(all, nc)
		}
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
			if running, waiting := e.load(); running+waiting == 3 {
				break
			}
			if time.Now().After(end) {
				t.Fatal("requests never started")
			}
		}
		for _, nc := range all {
			nc.Close()
		}
		settle(t, e)
		if n := e.stats.aborted.Load(); n != 3 {
			t.Errorf("%d aborted, want 3", n)
		}
	}
}

func TestRoleComesEarly(t *testing.T) {
	c := quick()
	c.TTFT, c.Role = time.Minute, RoleEarly // longer than the client waits
	_, base := serve(t, c)
	res, err := client(t).Post(base+"/v1/chat/completions", "", strings.NewReader(`{"messages":[{"role":"user","content":"a"}],"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	buf := make([]byte, 4096)
	n, err := res.Body.Read(buf)
	if err != nil || !strings.Contains(string(buf[:n]), `"role":"assistant"`) {
		t.Errorf("%v %s", err, buf[:n])
	}
}

// A batching engine in real time keeps to the closed form.
func TestBatchingInRealTime(t *testing.T) {
	c := quick()
	c.Law = LawBatching
	c.Batching = Batching{Slots: 8, PrefillRate: 1000, StepBase: 4 * time.Millisecond, StepPerSeq: time.Millisecond}
	_, base := serve(t, c)
	cl := client(t)
	const n, rounds, in, out = 4, 4, 5, 30
	var wg sync.WaitGroup
	start := time.Now()
	for range n {
		wg.Go(func() {
			for range rounds {
				post(t, cl, base+"/v1/completions", `{"prompt":"a b c d e","max_tokens":30,"stream":true}`)
			}
		})
	}
	wg.Wait()
	got := n * rounds / time.Since(start).Seconds()
	near(t, "throughput", got, c.Batching.Throughput(n, in, out), 0.15)
}

func TestMetricsCount(t *testing.T) {
	e, base := serve(t, quick())
	cl := client(t)
	for range 3 {
		if _, _, err := post(t, cl, base+"/v1/completions", streamed); err != nil {
			t.Fatal(err)
		}
	}
	res, err := cl.Get(base + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(res.Body)
	res.Body.Close()
	for _, want := range []string{
		`vllm:prompt_tokens_total{model_name="sim"} 6`,
		`vllm:generation_tokens_total{model_name="sim"} 24`,
		`vllm:request_success_total{model_name="sim",finished_reason="length"} 3`,
		`vllm:time_to_first_token_seconds_bucket{model_name="sim",le="+Inf"} 3`,
		`vllm:inter_token_latency_seconds_count{model_name="sim"} 21`,
		`assay_simulate_lateness_seconds_count{model_name="sim"} 24`,
		"# TYPE assay_simulate_lateness_seconds histogram",
	} {
		if !strings.Contains(string(b), want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if l := e.Lateness(); l.Tokens != 24 || l.P99 < l.P50 || l.Max == 0 {
		t.Errorf("lateness %+v", l)
	}
}

package notary

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
)

func get(t *testing.T, h http.Handler, path string) (*http.Response, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	r := w.Result()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(b)
}

func TestServe(t *testing.T) {
	dir, m := t.TempDir(), filled(1, 299)
	for range 2 {
		m.put(0, runRecord("stranger", 0))
	}
	n := mustNotarise(t, options(t, dir), m) // 300 entries: one full bundle, one partial
	h := n.Handler()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	// What a crash leaves beyond the checkpoint is not served.
	for _, stale := range []string{"tile/0/001", "tile/0/002", "tile/entries/001.p/60"} {
		path := filepath.Join(dir, "log", stale)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte("stale"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	id := m.topic[0][20].Record.ID
	for _, c := range []struct {
		path  string
		code  int
		cache string
		kind  string
	}{
		{"/checkpoint", 200, "no-cache", "text/plain; charset=utf-8"},
		{"/tile/0/000", 200, forever, "application/octet-stream"},
		{"/tile/0/001.p/44", 200, forever, "application/octet-stream"},
		{"/tile/entries/000", 200, forever, "application/octet-stream"},
		{"/tile/entries/001.p/44", 200, forever, "application/octet-stream"},
		{"/tile/1/000.p/1", 200, forever, "application/octet-stream"},
		{"/tile/0/001", 404, "no-store", "text/plain; charset=utf-8"},
		{"/tile/0/002", 404, "no-store", ""},
		{"/tile/entries/001.p/60", 404, "no-store", ""},
		{"/tile/1/000.p/2", 404, "no-store", ""},
		{"/tile/0/0", 404, "", ""},
		{"/tile/00/000", 404, "", ""},
		{"/tile/0/x000/000", 404, "", ""},
		{"/tile/9/000", 404, "", ""},
		{"/tile/63/000", 404, "", ""},
		{"/tile/0/x999/x999/x999/x999/x999/999", 404, "", ""},
		{"/tile/0/..%2f..%2f..%2fsecret", 404, "", ""},
		{"/tile/entries/%2e%2e", 404, "", ""},
		{"/lookup/" + id.String(), 200, "no-store", "application/json"},
		{"/lookup/" + strings.ToLower(id.String()), 400, "", ""},
		{"/lookup/" + ulid.ULID{7: 7}.String(), 404, "", ""},
		{"/lookup/nonsense", 400, "", ""},
		{"/healthz", 503, "no-store", ""},
		{"/metrics", 200, "no-store", ""},
		{"/", 404, "", ""},
		{"/positions.json", 404, "", ""},
	} {
		r, body := get(t, h, c.path)
		if r.StatusCode != c.code || c.cache != "" && r.Header.Get("Cache-Control") != c.cache || c.kind != "" && r.Header.Get("Content-Type") != c.kind {
			t.Errorf("%s: %d %v\n%.100q", c.path, r.StatusCode, r.Header, body)
		}
		if r.StatusCode == 200 && strings.Contains(body, "stale") {
			t.Errorf("%s serves what no checkpoint covers", c.path)
		}
	}
	if _, body := get(t, h, "/lookup/"+id.String()); body != fmt.Sprintf("{\"index\": %d}\n", indexOf(t, dir, id)) {
		t.Errorf("lookup: %s", body)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/checkpoint", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	_, body := get(t, h, "/metrics")
	for line := range strings.Lines(body) {
		name, isHelp := strings.CutPrefix(line, "# HELP ")
		if name, _, _ = strings.Cut(name, " "); isHelp && assay.HelpOf(name) == "" {
			t.Errorf("%s is not in the table", name)
		}
	}
	for _, m := range assay.Metrics() {
		if m.In == assay.NotaryPage && !strings.Contains(body, "# HELP "+m.Name+" "+m.Help) {
			t.Errorf("the page has no %s", m.Name)
		}
	}
	for _, want := range []string{
		"assay_notary_log_entries 300\n", "assay_notary_logged_total 300\n", "assay_notary_events_total 61\n", `assay_notary_refused_total{reason="unknown_key"} 2` + "\n",
		"assay_notary_duplicates_total 0\n", `assay_notary_lag_records{partition="0"} 0` + "\n", "assay_notary_checkpoint_entries 300\n", "assay_notary_checkpoint_age_seconds ",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics have no %q:\n%s", want, body)
		}
	}
}

func indexOf(t *testing.T, dir string, id ulid.ULID) int {
	t.Helper()
	for i, e := range readLog(t, dir) {
		if e.ID == id {
			return i
		}
	}
	t.Fatal("not in the log")
	return -1
}

func TestLookupBeyondTheWindow(t *testing.T) {
	dir, m := t.TempDir(), filled(1, 100)
	o := options(t, dir)
	o.Window = 10
	n := mustOpen(t, o)
	if err := n.Run(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	for i, e := range readAfter(t, n, dir) {
		got, ok, err := n.ids.find(e.ID, nil)
		if err != nil || !ok || got != uint64(i) {
			t.Fatalf("entry %d is found at %d, %v, %v", i, got, ok, err)
		}
	}
	if len(n.ids.window) != 10 {
		t.Errorf("%d ids are kept in memory", len(n.ids.window))
	}
	n.release()
}

// Health is told from what stands still, not from what is slow.
func TestTrouble(t *testing.T) {
	now := epoch
	var c counters
	c.begin(now)
	if c.trouble(now) == nil {
		t.Error("well before it began")
	}
	c.lag(map[int32]Range{0: {0, 10}}, map[int32]int64{0: 0}, now)
	step := func(d time.Duration, want string) {
		t.Helper()
		now = now.Add(d)
		err := c.trouble(now)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %q", err, want)
		}
	}
	step(30*time.Second, "")
	step(31*time.Second, "10 records of partition 0 wait")
	c.done(4, 0, 0, 0, map[int32]int64{0: 4}, now)
	step(0, "")
	c.done(10, 0, 0, 0, map[int32]int64{0: 10}, now)
	step(2*time.Minute, "")
	c.asked(nil, fmt.Errorf("no broker"), now)
	step(0, "no broker")
	c.asked(map[int32]Range{0: {0, 10}, 7: {0, 99}}, nil, now)
	step(2*time.Minute, "")
	c.refuse(ReasonClock, now)
	step(0, "1 records were refused for that")
	step(2*time.Minute, "")
	c.stopped(ErrWrite)
	step(0, "could not write")
}

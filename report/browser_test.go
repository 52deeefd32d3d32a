package report

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
)

// browser is a Chromium that is spoken to over a pipe, in its own protocol:
// messages are JSON, each ended by a zero byte.
type browser struct {
	t       *testing.T
	to      *os.File
	session string
	id      int

	mu      sync.Mutex
	answers map[int]chan json.RawMessage
	seen    []event
	loaded  chan struct{}
}

type event struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// startBrowser needs chromium. Without it the test is skipped, unless the parts
// are said to be there.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		parttest.Need(t, "chromium is not installed: .ci/parts/native installs it")
	}
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--hide-scrollbars", "--window-size=1200,900", "--user-data-dir="+t.TempDir(),
		"--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{in, out}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = in.Close(), out.Close()
	b := &browser{t: t, to: to, answers: map[int]chan json.RawMessage{}, loaded: make(chan struct{}, 16)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.read(from)
	}()
	t.Cleanup(func() {
		b.send("", "Browser.close", nil)
		died := make(chan struct{})
		go func() { _ = cmd.Wait(); close(died) }()
		select {
		case <-died:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-died
		}
		_ = to.Close()
		<-done
		_ = from.Close()
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Network", "Log", "Runtime"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

func (b *browser) read(from *os.File) {
	r := bufio.NewReader(from)
	for {
		line, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID     int             `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
			event
		}
		if json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &m) != nil {
			continue
		}
		b.mu.Lock()
		switch {
		case m.ID != 0:
			if c := b.answers[m.ID]; c != nil {
				if m.Error != nil {
					m.Result = append([]byte(`{"error":`), append(m.Error, '}')...)
				}
				c <- m.Result
			}
		case m.Method == "Page.loadEventFired":
			b.loaded <- struct{}{}
		default:
			b.seen = append(b.seen, m.event)
		}
		b.mu.Unlock()
	}
}

func (b *browser) send(session, method string, params any) chan json.RawMessage {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.id++
	answer := make(chan json.RawMessage, 1)
	b.answers[b.id] = answer
	m := map[string]any{"id": b.id, "method": method}
	if params != nil {
		m["params"] = params
	}
	if session != "" {
		m["sessionId"] = session
	}
	data, err := json.Marshal(m)
	if err == nil {
		_, err = b.to.Write(append(data, 0))
	}
	if err != nil {
		b.t.Logf("%s: %v", method, err)
	}
	return answer
}

func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	select {
	case data := <-b.send(b.session, method, params):
		if bytes.HasPrefix(data, []byte(`{"error":`)) {
			b.t.Fatalf("%s: %s", method, data)
		}
		if result != nil {
			if err := json.Unmarshal(data, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(60 * time.Second):
		b.t.Fatalf("%s: the browser does not answer", method)
	}
}

// eval gives the value of an expression as text.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var out struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &out)
	if out.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, out.ExceptionDetails)
	}
	return fmt.Sprint(out.Result.Value)
}

// frame waits until what was asked for has been drawn.
func (b *browser) frame() {
	b.t.Helper()
	b.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
}

// open shows a page from a file and gives what it asked the network for and
// what the browser complained of.
func (b *browser) open(page []byte) (requests, complaints []string) {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "page.html")
	if err := os.WriteFile(path, page, 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	b.seen = nil
	b.mu.Unlock()
	b.call("Page.navigate", map[string]any{"url": (&url.URL{Scheme: "file", Path: path}).String()}, nil)
	select {
	case <-b.loaded:
	case <-time.After(60 * time.Second):
		b.t.Fatal("the page does not load")
	}
	b.frame()
	return b.heard()
}

func (b *browser) heard() (requests, complaints []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.seen {
		switch e.Method {
		case "Network.requestWillBeSent":
			var p struct{ Request struct{ URL string } }
			_ = json.Unmarshal(e.Params, &p)
			requests = append(requests, p.Request.URL)
		case "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled":
			complaints = append(complaints, e.Method+" "+string(e.Params))
		}
	}
	return requests, complaints
}

// blocked counts requests that the policy stopped.
func (b *browser) blocked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, e := range b.seen {
		if e.Method == "Network.loadingFailed" && strings.Contains(string(e.Params), `"blockedReason":"csp"`) {
			n++
		}
	}
	return n
}

func (b *browser) scheme(name string) {
	b.t.Helper()
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": name}}}, nil)
	b.frame()
}

func (b *browser) screenshot(name string) {
	b.t.Helper()
	dir := os.Getenv("ASSAY_SCREENSHOTS")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) mouse(kind string, x, y float64) {
	b.t.Helper()
	b.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1}, nil)
}

const (
	// painted counts charts whose canvas is not blank.
	painted = `[...document.querySelectorAll("[data-chart] canvas")].filter(c => {
	const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
	const seen = new Set();
	for (let i = 0; i < d.length; i += 4) if (d[i + 3]) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
	return seen.size > 8;
}).length`
	pictures = `JSON.stringify([...document.querySelectorAll("[data-chart] canvas")].map(c => c.toDataURL()))`
)

// The page opened from a file in a real browser: it asks the network for
// nothing, its policy forbids nothing that it does, and its charts are drawn,
// zoom together, and follow light, dark and paper.
func TestHealthInChromium(t *testing.T) {
	b := startBrowser(t)
	var page bytes.Buffer
	if err := HTML(&page, Health(sick())); err != nil {
		t.Fatal(err)
	}
	b.scheme("light")
	requests, complaints := b.open(page.Bytes())
	for _, c := range complaints {
		t.Error("the browser complains:", c)
	}
	if len(requests) != 1 || !strings.HasPrefix(requests[0], "file://") {
		t.Errorf("requests: %q, want the file alone", requests)
	}
	charts := b.eval(`document.querySelectorAll("[data-chart]").length`)
	if got := b.eval(painted); got != charts || charts == "0" {
		t.Errorf("%s of %s charts are painted", got, charts)
	}
	if got := b.eval(`document.documentElement.scrollWidth <= innerWidth`); got != "true" {
		t.Error("the page is wider than the window")
	}
	b.screenshot("light")
	light := b.eval(`getComputedStyle(document.body).backgroundColor`)

	images := func() []string {
		var out []string
		if err := json.Unmarshal([]byte(b.eval(pictures)), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := images()
	overTime := fmt.Sprintf("[data-chart=\"%d\"]", slices.IndexFunc(drawings(t, page.String()), func(d map[string]any) bool { return d["group"] == timeGroup }))
	b.eval(`document.querySelector('` + overTime + `').scrollIntoView({block: "center"})`)
	b.frame()
	var box struct{ X, Y, Width, Height float64 }
	if err := json.Unmarshal([]byte(b.eval(`JSON.stringify(document.querySelector('`+overTime+` .u-over').getBoundingClientRect())`)), &box); err != nil {
		t.Fatal(err)
	}
	y := box.Y + box.Height/2
	b.mouse("mouseMoved", box.X+box.Width*0.3, y)
	b.mouse("mousePressed", box.X+box.Width*0.3, y)
	b.mouse("mouseMoved", box.X+box.Width*0.5, y)
	b.mouse("mouseMoved", box.X+box.Width*0.6, y)
	b.mouse("mouseReleased", box.X+box.Width*0.6, y)
	b.frame()
	after := images()
	var groups []string
	for i, d := range drawings(t, page.String()) {
		if zoomed, want := before[i] != after[i], d["group"] == timeGroup; zoomed != want {
			t.Errorf("chart %d: zoomed %v, want %v", i, zoomed, want)
		}
		groups = append(groups, fmt.Sprint(d["group"]))
	}
	if !strings.Contains(strings.Join(groups, " "), "load") {
		t.Error("no chart of another group was looked at")
	}
	b.screenshot("zoomed")

	b.eval(`scrollTo(0, 0)`)
	b.scheme("dark")
	dark := b.eval(`getComputedStyle(document.body).backgroundColor`)
	if dark == light {
		t.Errorf("dark looks like light: %s", dark)
	}
	if got := b.eval(painted); got != charts {
		t.Errorf("%s of %s charts are painted in the dark", got, charts)
	}
	b.screenshot("dark")
	var pdf struct{ Data string }
	b.call("Page.printToPDF", map[string]any{}, &pdf)
	if len(pdf.Data) < 10_000 {
		t.Errorf("printed to %d bytes", len(pdf.Data))
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true}, nil)
	b.frame()
	if got := b.eval(`document.documentElement.scrollWidth`); got != "390" {
		t.Errorf("the page is %s wide on a phone of 390", got)
	}
	b.screenshot("phone")
	if requests, complaints := b.heard(); len(requests) != 1 || len(complaints) != 0 {
		t.Errorf("after use: requests %q, complaints %q", requests, complaints)
	}
}

// What the policy is for: a page into which somebody put more does not run it,
// does not load it, and the browser says so. It also proves that the test above
// would hear of a fault.
func TestPolicyHoldsInChromium(t *testing.T) {
	b := startBrowser(t)
	var page bytes.Buffer
	if err := HTML(&page, Page{Title: "small", Blocks: []Block{small}}); err != nil {
		t.Fatal(err)
	}
	evil := bytes.Replace(page.Bytes(), []byte("<main>"), []byte(`<main><script>document.title = "owned"</script>
<img src="x" onerror="document.title = 'owned'"><p style="color: red">x</p><img src="https://192.0.2.1/x.png"><link rel="stylesheet" href="https://192.0.2.1/x.css">`), 1)
	requests, complaints := b.open(evil)
	if len(complaints) < 4 {
		t.Errorf("the browser complains of %d things only: %q", len(complaints), complaints)
	}
	// The browser announces a request before it asks the policy: what counts is
	// that none was let through.
	outside := 0
	for _, r := range requests {
		if !strings.HasPrefix(r, "file://") {
			outside++
		}
	}
	if blocked := b.blocked(); outside == 0 || blocked < outside {
		t.Errorf("%d requests to the outside, of which the policy stopped %d", outside, blocked)
	}
	if got := b.eval("document.title"); got != "small" {
		t.Errorf("what was put into the page ran: %s", got)
	}
	if got := b.eval(painted); got != "1" {
		t.Error("our own chart is not painted any more")
	}
}

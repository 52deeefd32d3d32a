package inference

import (
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// A cancellation that comes late must not end the next request, which has the
// same stream and perhaps the same connection.
func TestLateCancel(t *testing.T) {
	c := offline(t, OpenAI)
	var a, b conn
	w := new(watched)
	first := w.attach(&a, phaseFirst, 10, 20)
	if !w.detach() {
		t.Fatal("not clean")
	}
	w.cancel(first)
	second := w.attach(&b, phaseFirst, 10, 20)
	w.cancel(first)
	if w.killed.Load() != killedNot {
		t.Fatal("the next request was ended")
	}
	ln := serve(t, dialects()[0], transports()[0], func(*wire) {})
	tcp, err := c.dialer.Dial("tcp", ln[len("http://"):])
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	b.tcp = tcp
	w.cancel(second)
	if w.killed.Load() != killedCancel || w.detach() {
		t.Fatal("the request was not ended")
	}
}

func TestOverdue(t *testing.T) {
	ln := serve(t, dialects()[0], transports()[0], func(*wire) {})
	c := offline(t, OpenAI)
	tcp, err := c.dialer.Dial("tcp", ln[len("http://"):])
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	for _, tt := range []struct {
		phase           int32
		now, due, total int64
		want            int32
	}{
		{phaseFirst, 5, 10, 20, killedNot},
		{phaseFirst, 11, 10, 20, killedFirst},
		{phaseGap, 11, 10, 20, killedGap},
		{phaseLinger, 11, 10, 20, killedLinger},
		{phaseGap, 21, 30, 20, killedTotal},
		{phaseFirst, 21, 10, 20, killedTotal},
	} {
		w := new(watched)
		w.attach(&conn{tcp: tcp}, tt.phase, tt.due, tt.total)
		w.overdue(tt.now)
		if got := w.killed.Load(); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

func TestTimeoutDefaults(t *testing.T) {
	got := Timeouts{Gap: -1, Total: time.Second}.filled()
	if got.Connect != 10*time.Second || got.FirstToken != 10*time.Minute || got.Gap < 1000*time.Hour || got.Total != time.Second {
		t.Fatalf("%+v", got)
	}
	if f, detail := (&stream{c: &Client{timeouts: got}, begun: true, completion: 37}).killedDetail(killedTotal); f != assay.FailTimeout || detail != "total: not done within 1s, 37 tokens so far" {
		t.Fatal(detail)
	}
}

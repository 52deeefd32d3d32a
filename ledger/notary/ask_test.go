package notary

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/ledger"
)

// hostile gives a policy that needs a witness that answers as h does.
func hostile(t *testing.T, h http.HandlerFunc) []byte {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return fmt.Appendf(nil, "log %s\nwitness w %s %s\nquorum w\n", ledger.NoteVerifierKey(origin, held("log").Public()),
		ledger.CosignatureVerifierKey("example.org/witness", held("witness").Public()), server.URL)
}

// A witness that answers without end does not fill the notary's memory: it hangs
// up after little more than what a cosignature may have.
func TestAWitnessAnswersWithoutEnd(t *testing.T) {
	const flood = 600 << 20
	for _, announced := range []bool{false, true} {
		t.Run(fmt.Sprintf("length announced: %v", announced), func(t *testing.T) {
			var most atomic.Int64
			asked := make(chan struct{}, 100)
			o := options(t, t.TempDir())
			o.WitnessTimeout = time.Minute // it is not the deadline that ends it
			o.Policy = hostile(t, func(w http.ResponseWriter, _ *http.Request) {
				if announced {
					w.Header().Set("Content-Length", fmt.Sprint(flood))
				}
				chunk := []byte(strings.Repeat("x", 1<<20))
				var sent int64
				for sent < flood {
					k, err := w.Write(chunk)
					if sent += int64(k); err != nil {
						break
					}
				}
				for old := most.Load(); sent > old && !most.CompareAndSwap(old, sent); old = most.Load() {
				}
				asked <- struct{}{}
			})
			n := mustOpen(t, o)
			defer n.release()
			<-asked
			if got := most.Load(); got > 32<<20 { // what sockets hold, and no more
				t.Errorf("the notary took %d bytes", got)
			}
		})
	}
}

func TestAWitnessSendsUsElsewhere(t *testing.T) {
	var asked atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	defer elsewhere.Close()
	o := options(t, t.TempDir())
	var said parttest.Buffer
	o.Log = slog.New(slog.NewTextHandler(&said, nil))
	o.Policy = hostile(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	n := mustOpen(t, o)
	defer n.release()
	if asked.Load() {
		t.Error("the checkpoint was sent to where the witness pointed")
	}
	if all := said.String(); !strings.Contains(all, "sends us elsewhere") {
		t.Errorf("said %q", all)
	}
}

// A witness that answers a byte at a time is given up at the deadline.
func TestAWitnessAnswersSlowly(t *testing.T) {
	left := make(chan struct{}, 100)
	o := options(t, t.TempDir())
	o.WitnessTimeout = 300 * time.Millisecond
	o.Policy = hostile(t, func(w http.ResponseWriter, r *http.Request) {
		for {
			select {
			case <-r.Context().Done():
				left <- struct{}{}
				return
			case <-time.After(10 * time.Millisecond):
				w.Write([]byte("x"))
				w.(http.Flusher).Flush()
			}
		}
	})
	n := mustOpen(t, o)
	defer n.release()
	<-left
}

// The client by itself keeps the bounds, whatever Tessera does with its own.
func TestWitnessClientTakesAnswersUpToTheBound(t *testing.T) {
	for size, want := range map[int]error{maxAnswer: nil, maxAnswer + 1: errLongAnswer} {
		c := witnessClient(time.Minute)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range size {
				w.Write([]byte("x"))
			}
		}))
		resp, err := c.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		n, err := resp.Body.Read(make([]byte, 10))
		for err == nil {
			var k int
			k, err = resp.Body.Read(make([]byte, 1000))
			n += k
		}
		if want == nil && n != size || want != nil && err != want {
			t.Errorf("%d bytes: read %d, %v", size, n, err)
		}
		resp.Body.Close()
		c.CloseIdleConnections()
		server.Close()
	}
}

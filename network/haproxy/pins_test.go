package haproxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/network/server/ask"
)

// A request with a pin reaches that replica and no other, also while it gets no
// customers; the replica does not see the pin; and one whose slot is off is answered by
// nobody. A reload forgets none of it.
func TestRealNetworkHAProxyPins(t *testing.T) {
	r := start(t, 3, "100ms")
	secret := []byte("a secret of sixteen bytes")
	r.keeper.o.PinMap, r.keeper.o.PinSecret = filepath.Join(r.dir, "pins.map"), secret
	node := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			fmt.Fprintf(w, "%s pin=%q", name, q.Header.Get(ask.PinHeader))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	r.named(id(1), node("one"), id(2), node("two"), id(3), "http://127.0.0.1:1")
	r.answer(id(1), "ready up 100%", id(2), "ready up 100%", id(3), "ready up 100%")
	r.pass()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(r.dir, "front.sock"))
	}}}
	get := func(pin string) string {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://llm/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		if pin != "" {
			q.Header.Set(ask.PinHeader, pin)
		}
		a, err := client.Do(q)
		if err != nil {
			return err.Error()
		}
		defer a.Body.Close()
		b, _ := io.ReadAll(a.Body)
		if a.StatusCode != http.StatusOK {
			return a.Status
		}
		return string(b)
	}
	until := func(pin, want string) {
		t.Helper()
		end := time.Now().Add(20 * time.Second)
		for got := get(pin); !strings.HasPrefix(got, want); got = get(pin) {
			if time.Now().After(end) {
				t.Fatalf("%q, and not %q; the slots are %s", got, want, r.shown())
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	one, two, three := ask.Pin(secret, id(1)), ask.Pin(secret, id(2)), ask.Pin(secret, id(3))
	pinned := func() {
		t.Helper()
		until(one, `one pin=""`)
		until(two, `two pin=""`)
		for range 10 {
			if a, b := get(one), get(two); a != `one pin=""` || b != `two pin=""` {
				t.Fatalf("pinned to one: %q, to two: %q", a, b)
			}
		}
	}
	pinned()
	// Nobody listens there, and nobody else answers for it.
	if got := get(three); !strings.HasPrefix(got, "50") {
		t.Errorf("pinned to one that is away: %q", got)
	}
	if got := get("0000"); !strings.HasPrefix(got, "503") {
		t.Errorf("a pin of nobody: %q", got)
	}
	r.answer(id(2), "drain")
	untilShown(r, " drain ")
	pinned() // customers do not get there any more
	r.answer(id(2), "down")
	until(two, "50")
	r.answer(id(2), "ready up 100%")
	until(two, `two pin=""`)

	before, _, err := r.keeper.runtime.observe(t.Context(), "llm")
	if err != nil {
		t.Fatal(err)
	}
	parttest.Run(t, nil, r.serve, "reload", r.dir)
	for now := before; now == before; time.Sleep(20 * time.Millisecond) {
		if p, _, err := r.keeper.runtime.observe(t.Context(), "llm"); err == nil {
			now = p
		}
	}
	r.pass()
	pinned()

	// Who has no slot any more has no pin.
	r.named(id(1), r.routes[0].ServingUrl)
	r.pass()
	until(two, "503")
	if info, err := os.Stat(r.keeper.o.PinMap); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the map of pins: %v, %v", info, err)
	}
}

// The map is changed by what differs, and by no more.
func TestDifferences(t *testing.T) {
	have := parseMap("0x55 aa slot1\n0x56 bb slot2\n0x57 cc slot3\n\ngarbage\n")
	got := strings.Join(differences("f", have, map[string]string{"aa": "slot1", "bb": "slot9", "dd": "slot3"}), "; ")
	if got != "del map f cc; set map f bb slot9; add map f dd slot3" {
		t.Error(got)
	}
	if got := differences("f", have, have); len(got) > 0 {
		t.Error(got)
	}
}

// untilShown waits until some slot is as it says.
func untilShown(r *router, want string) {
	r.Helper()
	for end := time.Now().Add(20 * time.Second); !strings.Contains(r.shown(), want); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("the slots are %s", r.shown())
		}
	}
}

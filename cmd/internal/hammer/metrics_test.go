package hammer

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay"
)

func TestMetricsAreForThisMachineUnlessGuarded(t *testing.T) {
	for _, ok := range []metricsOutput{
		{}, {Address: ":0"}, {Address: "127.0.0.1:9400"}, {Address: "localhost:9400"}, {Address: "[::1]:9400", DCGM: true},
		{Address: "0.0.0.0:9400", TLS: "cert.pem,key.pem", TokenFile: "token"},
	} {
		if err := ok.check(); err != nil {
			t.Errorf("%+v: %v", ok, err)
		}
	}
	for _, bad := range []metricsOutput{
		{Address: "9400"}, {Address: "0.0.0.0:9400"}, {Address: "[::]:9400"}, {Address: "10.0.0.7:9400", TLS: "cert,key"},
		{Address: "10.0.0.7:9400", TokenFile: "token"}, {Address: "example.org:9400"}, {DCGM: true}, {Address: ":1", TLS: "cert"},
	} {
		if bad.check() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

func TestMetricsAreServedToWhomHasTheToken(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("open sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })
	addr, stop, err := metricsOutput{Address: ":0", TokenFile: token}.serve(page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(addr, "http://127.0.0.1:") {
		t.Errorf("served at %s, not on loopback", addr)
	}
	for auth, want := range map[string]int{"": 401, "Bearer wrong": 401, "open sesame": 401, "Bearer open sesame": 200} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", auth)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%q: %s, want %d", auth, res.Status, want)
		}
	}
	stop()
	if _, err := http.Get(addr); err == nil {
		t.Error("it is served after its end")
	}
}

// health resolves flags into the configuration, or says what is wrong.
func TestPricesAndBaselines(t *testing.T) {
	resolve := func(args ...string) (assay.Judge, error) {
		var f hammerFlags
		fs := pflag.NewFlagSet("hammer", pflag.ContinueOnError)
		f.register(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		c, _, _, err := f.config(fs, func(string) string { return "" }, os.ReadFile)
		return c.Judge, err
	}
	j, err := resolve("--price", "0.35/h", "--energy-rate", "0.30/kWh", "--currency", "EUR")
	if err != nil || j.PricePerHour == nil || *j.PricePerHour != (assay.Money{Nano: 350_000_000, Currency: "EUR"}) || j.EnergyRate.Nano != 300_000_000 {
		t.Errorf("%+v, %v", j, err)
	}
	const shipped = "nim-1.8.0-llama-3.3-70b-2xh100-25"
	if j, err = resolve("--baseline", shipped); err != nil || j.Baseline == nil || j.Baseline.Name != shipped {
		t.Errorf("%+v, %v", j.Baseline, err)
	}
	if _, err := resolve("--baseline", "nim"); err == nil || !strings.Contains(err.Error(), shipped) {
		t.Errorf("a name that is not shipped: %v", err)
	}
	for _, bad := range [][]string{
		{"--price", "cheap"}, {"--price", "0.35/day"}, {"--price", "-1/h"}, {"--energy-rate", "0.3/h"}, {"--currency", ""},
		{"--baseline", "not-there.json"}, {"--sample-interval", "1ms"}, {"--dcgm-exporter", "node:9400"},
	} {
		if j, err := resolve(bad...); err == nil {
			t.Errorf("%v was accepted: %+v", bad, j)
		}
	}
}

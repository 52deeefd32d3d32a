package hammer

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay"
)

func TestMetricsAreForThisMachineUnlessGuarded(t *testing.T) {
	resolve := func(args string) error {
		_, _, _, err := resolve(strings.Fields(args), nil)
		return err
	}
	for _, ok := range []string{
		"", "--metrics :0", "--metrics 127.0.0.1:9400", "--metrics localhost:9400", "--metrics [::1]:9400 --dcgm-names",
		"--metrics 0.0.0.0:9400 --metrics-tls-cert c --metrics-tls-key k --metrics-token-file t",
		"--metrics 0.0.0.0:9400 --metrics-tls-cert c --metrics-tls-key k --metrics-tls-client-ca a",
	} {
		if err := resolve(ok); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
	for _, bad := range []string{
		"--metrics 9400", "--metrics 0.0.0.0:9400", "--metrics [::]:9400", "--metrics example.org:9400", "--dcgm-names",
		"--metrics 10.0.0.7:9400 --metrics-tls-cert c --metrics-tls-key k", "--metrics 10.0.0.7:9400 --metrics-token-file t",
		"--metrics :1 --metrics-tls-cert c", "--metrics-token-file t", "--metrics-tls-client-ca a",
	} {
		if err := resolve(bad); err == nil || !strings.Contains(err.Error(), "--metrics") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestMetricsAreServed(t *testing.T) {
	m := metricsOutput{Listener: metricsListener()}
	m.Address = ":0"
	addr, stop, err := m.serve(t.Context(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") }))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(addr, "http://127.0.0.1:") {
		t.Errorf("served at %s, not on loopback", addr)
	}
	for path, want := range map[string]int{addr: 200, strings.TrimSuffix(addr, "metrics"): 404} {
		res, err := http.Get(path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, res.Status, want)
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

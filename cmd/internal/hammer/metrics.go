package hammer

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/assay-bench/assay/cmd/internal/cli"
)

// metricsOutput is where --metrics serves.
type metricsOutput struct {
	cli.Listener
	DCGM bool `json:"dcgm_names,omitempty"`
}

// IsZero reports whether nothing is served, for JSON.
func (m metricsOutput) IsZero() bool { return m.Address == "" }

// metricsListener is one without an address: readings of a node are not for
// everybody, and a run does not wait for who reads them.
func metricsListener() cli.Listener {
	return cli.Listener{Flag: "metrics", Private: true, Grace: time.Second}
}

// check refuses what goes with --metrics alone, and an address that others reach
// unprotected.
func (m metricsOutput) check() error {
	if m.Address != "" {
		return m.Check()
	}
	if m.DCGM || m.Cert != "" || m.Key != "" || m.ClientCA != "" || m.TokenFile != "" {
		return errors.New("--dcgm-names, --metrics-tls-cert and the like go with --metrics ADDRESS")
	}
	return nil
}

// serve answers GET /metrics with h until stop is called; it says where.
func (m metricsOutput) serve(ctx context.Context, h http.Handler) (addr string, stop func(), err error) {
	ln, err := m.Open(ctx)
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = ln.Serve(serving, mux) // a scrape that fails is the scraper's to report
	}()
	return ln.URL + "/metrics", func() {
		cancel()
		<-done
	}, nil
}

package hammer

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// metricsOutput is where --metrics serves.
type metricsOutput struct {
	Address   string `json:"address,omitempty"`
	DCGM      bool   `json:"dcgm_names,omitempty"`
	TLS       string `json:"tls,omitempty"`
	TokenFile string `json:"token_file,omitempty"`
}

// check refuses an address that others reach without TLS and a token.
func (m metricsOutput) check() error {
	if m.Address == "" {
		if m.DCGM || m.TLS != "" || m.TokenFile != "" {
			return errors.New("--dcgm-names, --metrics-tls and --metrics-token-file go with --metrics ADDRESS")
		}
		return nil
	}
	host, _, err := net.SplitHostPort(m.Address)
	if err != nil {
		return fmt.Errorf("--metrics: write HOST:PORT or :PORT: %w", err)
	}
	if m.TLS != "" && strings.Count(m.TLS, ",") != 1 {
		return errors.New("--metrics-tls: write CERT,KEY: two PEM files")
	}
	if loopback(host) || m.TLS != "" && m.TokenFile != "" {
		return nil
	}
	return fmt.Errorf("--metrics %s can be reached by others: give --metrics-tls CERT,KEY and --metrics-token-file FILE, or leave out the host to serve on loopback", m.Address)
}

func loopback(host string) bool {
	if host == "" || host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// serve answers GET /metrics with h until stop is called; it says where.
func (m metricsOutput) serve(h http.Handler) (addr string, stop func(), err error) {
	host, port, err := net.SplitHostPort(m.Address)
	if err != nil {
		return "", nil, err
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if m.TokenFile != "" {
		b, err := os.ReadFile(m.TokenFile)
		if err != nil {
			return "", nil, fmt.Errorf("read the token: %w", err)
		}
		token := strings.TrimSpace(string(b))
		if token == "" {
			return "", nil, fmt.Errorf("read the token: %s is empty", m.TokenFile)
		}
		h = bearer(token, h)
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return "", nil, fmt.Errorf("--metrics: %w", err)
	}
	scheme := "http"
	if m.TLS != "" {
		cert, key, _ := strings.Cut(m.TLS, ",")
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			_ = ln.Close() // the error that is returned matters more
			return "", nil, fmt.Errorf("--metrics-tls: %w", err)
		}
		ln = tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
		scheme = "https"
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln) // ends with Shutdown; a scrape that fails is the scraper's to report
	}()
	return scheme + "://" + ln.Addr().String() + "/metrics", func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = srv.Shutdown(ctx)
		_ = srv.Close()
		<-done
	}, nil
}

// bearer lets only those in who have the token. Hashes are compared, so that
// neither length nor content shows in the time that it takes.
func bearer(token string, h http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		got := sha256.Sum256([]byte(given))
		if !ok || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

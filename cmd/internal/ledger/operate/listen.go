package operate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/pflag"
)

// listenFlags say where a service of the ledger answers. The rule is one for all
// of them: an address that others reach needs TLS, or a word that somebody in
// front of it does that.
type listenFlags struct {
	address, cert, key string
	insecure           bool
}

// register adds the flags; address is the default.
func (f *listenFlags) register(fs *pflag.FlagSet, address string) {
	fs.StringVar(&f.address, "listen", address, "`HOST:PORT` to answer on; without a host, on loopback")
	fs.StringVar(&f.cert, "tls-cert", "", "the certificate's PEM `file`: needed for an address that others reach")
	fs.StringVar(&f.key, "tls-key", "", "its key's PEM `file`")
	fs.BoolVar(&f.insecure, "insecure", false, "answer others without TLS: behind a proxy that has it, or in a network of one's own")
}

// check refuses an address that others reach without TLS. It gives the address
// with its host.
func (f *listenFlags) check() (string, error) {
	host, port, err := net.SplitHostPort(f.address)
	if err != nil {
		return "", fmt.Errorf("--listen: write HOST:PORT or :PORT: %w", err)
	}
	if (f.cert == "") != (f.key == "") {
		return "", errors.New("--tls-cert and --tls-key go together")
	}
	if host == "" {
		host = "127.0.0.1"
	}
	ip := net.ParseIP(host)
	if host == "localhost" || ip != nil && ip.IsLoopback() || f.cert != "" || f.insecure {
		return net.JoinHostPort(host, port), nil
	}
	return "", fmt.Errorf("--listen %s can be reached by others: give --tls-cert and --tls-key, or --insecure, or leave out the host to answer on loopback", f.address)
}

// listen answers with h until ctx ends, and then lets requests under way end. It
// says where it answers once it does.
func (f *listenFlags) listen(ctx context.Context, h http.Handler, ready func(url string)) error {
	address, err := f.check()
	if err != nil {
		return err
	}
	scheme := "http"
	var pair tls.Certificate
	if f.cert != "" {
		if pair, err = tls.LoadX509KeyPair(f.cert, f.key); err != nil {
			return fmt.Errorf("read --tls-cert and --tls-key: %w", err)
		}
		scheme = "https"
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	where := scheme + "://" + ln.Addr().String()
	if f.cert != "" {
		ln = tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	}
	// Whoever asks is unknown: none may hold a connection for long.
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	if ready != nil {
		ready(where)
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("answer on %s: %w", where, err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := srv.Shutdown(end); err != nil {
		_ = srv.Close() // who still waits has waited ten seconds
	}
	<-failed
	return nil
}

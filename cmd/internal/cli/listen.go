package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/ledger"
)

// Listener says where a service answers, and whom. The rule is one for all
// services: an address that others reach needs TLS, and where what is served is
// not for everybody, also a token or certificates of the clients.
type Listener struct {
	Address   string `json:"address,omitempty"` // HOST:PORT; without a host, on loopback
	Cert      string `json:"tls_cert,omitempty"`
	Key       string `json:"tls_key,omitempty"`
	ClientCA  string `json:"tls_client_ca,omitempty"` // whose certificates clients must show
	TokenFile string `json:"token_file,omitempty"`    // of the bearer token that clients must send
	Insecure  bool   `json:"insecure,omitempty"`      // somebody in front of it has TLS

	Flag    string        `json:"-"` // that names the address; empty: listen
	Private bool          `json:"-"` // what is served is not for everybody
	Local   bool          `json:"-"` // nobody but this machine may ask, whatever guards it
	Grace   time.Duration `json:"-"` // for requests under way at the end; zero: ten seconds
}

// Register adds the flags. Those of --listen are --tls-cert and so on; those of
// another begin with its name.
func (l *Listener) Register(fs *pflag.FlagSet, address, help string) {
	fs.StringVar(&l.Address, l.flag(""), address, help+"`HOST:PORT`; without a host, on loopback")
	fs.StringVar(&l.Cert, l.flag("tls-cert"), "", "the certificate's PEM `file`: needed for an address that others reach")
	fs.StringVar(&l.Key, l.flag("tls-key"), "", "its key's PEM `file`")
	fs.StringVar(&l.ClientCA, l.flag("tls-client-ca"), "", "answer only clients with a certificate of these authorities, a PEM `file`")
	fs.StringVar(&l.TokenFile, l.flag("token-file"), "", "answer only clients with the bearer token in this `file`, which is for its owner only")
	if !l.Private {
		fs.BoolVar(&l.Insecure, "insecure", false, "answer others without TLS: behind a proxy that has it, or in a network of one's own")
	}
}

// flag is the name of a flag; the address' own for the empty one.
func (l *Listener) flag(of string) string {
	name := l.Flag
	if name == "" {
		name = "listen"
	}
	switch {
	case of == "":
		return name
	case name == "listen" && strings.HasPrefix(of, "tls-"):
		return of
	}
	return name + "-" + of
}

// Check refuses flags that contradict each other and an address that others reach
// unprotected. It opens nothing, so it can be asked before a person is.
func (l *Listener) Check() error {
	_, err := l.address()
	return err
}

// address is the address with its host.
func (l *Listener) address() (string, error) {
	host, port, err := net.SplitHostPort(l.Address)
	if err != nil {
		return "", fmt.Errorf("--%s: write HOST:PORT or :PORT: %w", l.flag(""), err)
	}
	if (l.Cert == "") != (l.Key == "") {
		return "", fmt.Errorf("--%s and --%s go together", l.flag("tls-cert"), l.flag("tls-key"))
	}
	if l.ClientCA != "" && l.Cert == "" {
		return "", fmt.Errorf("--%s is for TLS: give --%s and --%s too", l.flag("tls-client-ca"), l.flag("tls-cert"), l.flag("tls-key"))
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if l.Local && !loopback(host) {
		return "", fmt.Errorf("--%s %s can be reached by others: what is answered there is for this machine only", l.flag(""), l.Address)
	}
	if loopback(host) || l.guarded() {
		return net.JoinHostPort(host, port), nil
	}
	return "", fmt.Errorf("--%s %s can be reached by others: give %s, or leave out the host to answer on loopback", l.flag(""), l.Address, l.missing())
}

// guarded reports whether others may be let in. A token alone does not do: without
// TLS everybody on the way reads it.
func (l *Listener) guarded() bool {
	return l.Insecure || l.Cert != "" && (!l.Private || l.TokenFile != "" || l.ClientCA != "")
}

// missing is the advice for an address that others reach.
func (l *Listener) missing() string {
	need := fmt.Sprintf("--%s and --%s", l.flag("tls-cert"), l.flag("tls-key"))
	if l.Private {
		return need + fmt.Sprintf(", and --%s or --%s", l.flag("token-file"), l.flag("tls-client-ca"))
	}
	return need + ", or --insecure behind a proxy that has TLS"
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Open takes the address, and reads what guards it.
func (l *Listener) Open(ctx context.Context) (*Listening, error) {
	address, err := l.address()
	if err != nil {
		return nil, err
	}
	s := &Listening{grace: l.Grace}
	if s.grace == 0 {
		s.grace = 10 * time.Second
	}
	if s.token, err = l.token(); err != nil {
		return nil, err
	}
	conf, err := l.tls()
	if err != nil {
		return nil, err
	}
	if s.ln, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err != nil {
		return nil, fmt.Errorf("--%s: %w", l.flag(""), err)
	}
	s.URL = "http://" + s.ln.Addr().String()
	if conf != nil {
		s.URL = "https://" + s.ln.Addr().String()
		s.ln = tls.NewListener(s.ln, conf)
	}
	return s, nil
}

// maxToken bounds a token's file.
const maxToken = 4096

// token reads the token; empty when none is asked for.
func (l *Listener) token() (string, error) {
	if l.TokenFile == "" {
		return "", nil
	}
	token, err := ReadToken(l.TokenFile)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", l.flag("token-file"), err)
	}
	return token, nil
}

// ReadToken reads a bearer token from a file that is for its owner only.
func ReadToken(path string) (string, error) {
	b, err := ledger.ReadSecretFile(path, maxToken)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("read the token: %s is empty", path)
	}
	return token, nil
}

// tls reads the certificates; nil when there are none.
func (l *Listener) tls() (*tls.Config, error) {
	if l.Cert == "" {
		return nil, nil
	}
	pair, err := loadPair(l.Cert, l.Key)
	if err != nil {
		return nil, fmt.Errorf("read --%s and --%s: %w", l.flag("tls-cert"), l.flag("tls-key"), err)
	}
	conf := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if l.ClientCA == "" {
		return conf, nil
	}
	b, err := os.ReadFile(l.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("read --%s: %w", l.flag("tls-client-ca"), err)
	}
	conf.ClientCAs = x509.NewCertPool()
	if !conf.ClientCAs.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("read --%s: %s has no certificate in PEM form", l.flag("tls-client-ca"), l.ClientCA)
	}
	conf.ClientAuth = tls.RequireAndVerifyClientCert
	return conf, nil
}

// loadPair reads a certificate and its key, which nobody but its owner and group
// may read: a group is how orchestrators hand keys to a process.
func loadPair(cert, key string) (tls.Certificate, error) {
	info, err := os.Stat(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return tls.Certificate{}, fmt.Errorf("%s has mode %04o, so that everybody on this machine has it: chmod 600 %s, and make a new key", key, mode, key)
	}
	return tls.LoadX509KeyPair(cert, key)
}

// Listening is an address that was taken. It must be served or closed.
type Listening struct {
	URL string

	ln    net.Listener
	token string
	grace time.Duration
}

// Close gives the address back.
func (s *Listening) Close() error { return s.ln.Close() }

// Serve answers with h until ctx ends, and then lets requests under way end.
func (s *Listening) Serve(ctx context.Context, h http.Handler) error {
	if s.token != "" {
		h = bearer(s.token, h)
	}
	// Whoever asks is unknown: none may hold a connection for long.
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(Log(ctx).Handler(), slog.LevelDebug), // anybody can fail a handshake, a thousand times
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(s.ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("answer on %s: %w", s.URL, err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.grace)
	defer cancel()
	if err := srv.Shutdown(end); err != nil {
		_ = srv.Close() // who still waits has waited long enough
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("answer on %s: %w", s.URL, err)
	}
	return nil
}

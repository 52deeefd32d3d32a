package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// An address that others reach needs TLS, and what is not for everybody also a
// token or certificates of its clients.
func TestListenRule(t *testing.T) {
	public := func(l Listener) Listener { return l }
	private := func(l Listener) Listener { l.Flag, l.Private = "metrics", true; return l }
	for _, c := range []struct {
		l    Listener
		want string // the address; empty: refused
	}{
		{public(Listener{Address: "127.0.0.1:1"}), "127.0.0.1:1"},
		{public(Listener{Address: ":1"}), "127.0.0.1:1"},
		{public(Listener{Address: "localhost:1"}), "localhost:1"},
		{public(Listener{Address: "[::1]:1"}), "[::1]:1"},
		{public(Listener{}), ""},
		{public(Listener{Address: "1"}), ""},
		{public(Listener{Address: "0.0.0.0:1"}), ""},
		{public(Listener{Address: "[::]:1"}), ""},
		{public(Listener{Address: "192.0.2.1:1"}), ""},
		{public(Listener{Address: "log.example.org:1"}), ""},
		{public(Listener{Address: "0.0.0.0:1", TokenFile: "t"}), ""}, // anybody on the way would read it
		{public(Listener{Address: "0.0.0.0:1", Insecure: true}), "0.0.0.0:1"},
		{public(Listener{Address: "0.0.0.0:1", Cert: "c", Key: "k"}), "0.0.0.0:1"},
		{public(Listener{Address: "0.0.0.0:1", Cert: "c"}), ""},
		{public(Listener{Address: "127.0.0.1:1", Key: "k"}), ""},
		{public(Listener{Address: "127.0.0.1:1", ClientCA: "a"}), ""},
		{private(Listener{Address: ":1"}), "127.0.0.1:1"},
		{private(Listener{Address: ":1", TokenFile: "t"}), "127.0.0.1:1"},
		{private(Listener{Address: "0.0.0.0:1"}), ""},
		{private(Listener{Address: "0.0.0.0:1", Cert: "c", Key: "k"}), ""},
		{private(Listener{Address: "0.0.0.0:1", TokenFile: "t"}), ""},
		{private(Listener{Address: "0.0.0.0:1", Cert: "c", Key: "k", TokenFile: "t"}), "0.0.0.0:1"},
		{private(Listener{Address: "0.0.0.0:1", Cert: "c", Key: "k", ClientCA: "a"}), "0.0.0.0:1"},
	} {
		got, err := c.l.address()
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: %q, %v; want %q", c.l, got, err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), "--"+c.l.flag("")) && !strings.Contains(err.Error(), "--"+c.l.flag("tls-cert")) {
			t.Errorf("%+v: %v names no flag", c.l, err)
		}
	}
}

// The names of the flags are the same for all services.
func TestListenFlags(t *testing.T) {
	for flag, want := range map[string]string{
		"":        "listen tls-cert tls-key tls-client-ca listen-token-file insecure",
		"metrics": "metrics metrics-tls-cert metrics-tls-key metrics-tls-client-ca metrics-token-file",
	} {
		l := Listener{Flag: flag, Private: flag != ""}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		fs.SortFlags = false
		l.Register(fs, "", "")
		var got []string
		fs.VisitAll(func(f *pflag.Flag) { got = append(got, f.Name) })
		if names := strings.Join(got, " "); names != want {
			t.Errorf("%q: flags %s, want %s", flag, names, want)
		}
	}
}

// served answers "ok" at the URL that it gives, until the test ends.
func served(t *testing.T, l Listener) string {
	t.Helper()
	ln, err := l.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- ln.Serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ln.URL
}

func TestListenAsksForTheToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("open sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := served(t, Listener{Address: ":0", TokenFile: file})
	for auth, want := range map[string]int{"": 401, "Bearer wrong": 401, "open sesame": 401, "Bearer open sesame": 200} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header["Authorization"] = []string{auth}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%q: %s, want %d", auth, res.Status, want)
		}
	}
}

// A token that others can read, or that is none, is refused before the address is
// taken.
func TestListenRefusesTokenFiles(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		mode os.FileMode
		text string
	}{"readable": {0o644, "t"}, "group": {0o640, "t"}, "empty": {0o600, " \n"}, "large": {0o600, strings.Repeat("t", maxToken+1)}} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		l := Listener{Address: ":0", TokenFile: path}
		if ln, err := l.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "--listen-token-file") {
			t.Errorf("%s: %v, %v", name, ln, err)
		}
	}
	l := Listener{Address: ":0", TokenFile: filepath.Join(dir, "absent")}
	if _, err := l.Open(t.Context()); err == nil {
		t.Error("a token that is not there is no error")
	}
}

// certificate makes one that is its own authority. It gives the files of it and of
// its key.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: b}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func TestListenTLS(t *testing.T) {
	cert, key := certificate(t)
	other, otherKey := certificate(t)
	url := served(t, Listener{Address: "127.0.0.1:0", Cert: cert, Key: key, ClientCA: cert})
	roots := x509.NewCertPool()
	b, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots.AppendCertsFromPEM(b)
	get := func(conf *tls.Config) error {
		conf.RootCAs = roots
		client := http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
		res, err := client.Get(url)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "ok" {
			return fmt.Errorf("%s: %w", body, err)
		}
		return nil
	}
	pair := func(cert, key string) []tls.Certificate {
		p, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{p}
	}
	if err := get(&tls.Config{Certificates: pair(cert, key)}); err != nil {
		t.Error(err)
	}
	if get(&tls.Config{}) == nil {
		t.Error("a client without a certificate was answered")
	}
	if get(&tls.Config{Certificates: pair(other, otherKey)}) == nil {
		t.Error("a client with a certificate of another authority was answered")
	}
	if get(&tls.Config{Certificates: pair(cert, key), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}) == nil {
		t.Error("TLS 1.1 was answered")
	}
	for name, l := range map[string]Listener{
		"no certificate": {Address: ":0", Cert: key, Key: key}, "no authority": {Address: ":0", Cert: cert, Key: key, ClientCA: key},
	} {
		if ln, err := l.Open(t.Context()); err == nil {
			t.Errorf("%s: %v", name, ln)
		}
	}
}

// A request that is under way when the service is told to end gets its answer.
func TestListenEndsInOrder(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := Listener{Address: "127.0.0.1:0"}
	ln, err := l.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	began, ending, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-ending
		fmt.Fprint(w, "ok")
	})
	go func() { done <- ln.Serve(ctx, h) }()
	got := make(chan string, 1)
	go func() {
		resp, err := http.Get(ln.URL)
		if err != nil {
			got <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		got <- string(b)
	}()
	<-began
	cancel()
	for { // until it takes nobody in any more
		c, err := net.Dial("tcp", strings.TrimPrefix(ln.URL, "http://"))
		if err != nil {
			break
		}
		c.Close()
	}
	close(ending)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if words := <-got; words != "ok" {
		t.Errorf("the request under way got %q", words)
	}
	if resp, err := http.Get(ln.URL); err == nil {
		resp.Body.Close()
		t.Error("it answers after its end")
	}
}

func TestListenAddressTaken(t *testing.T) {
	url := served(t, Listener{Address: "127.0.0.1:0"})
	second := Listener{Address: strings.TrimPrefix(url, "http://")}
	if _, err := second.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("second: %v", err)
	}
}

// A key that everybody on the machine can read is not served with.
func TestTLSKeyIsNotForEverybody(t *testing.T) {
	cert, key := certificate(t)
	for mode, fits := range map[os.FileMode]bool{0o600: true, 0o640: true, 0o644: false, 0o604: false} {
		if err := os.Chmod(key, mode); err != nil {
			t.Fatal(err)
		}
		s, err := (&Listener{Address: "127.0.0.1:0", Cert: cert, Key: key}).Open(t.Context())
		if err == nil {
			s.ln.Close()
		}
		if (err == nil) != fits || err != nil && !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

// Whoever sends half a header, or one without end, does not keep a connection.
func TestListenHoldsNobody(t *testing.T) {
	url := served(t, Listener{Address: "127.0.0.1:0"})
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(2 * time.Minute)) // far beyond what is allowed
		return c
	}
	long := dial()
	_, _ = io.WriteString(long, "GET / HTTP/1.1\r\nHost: x\r\nA: "+strings.Repeat("a", 1<<20)+"\r\n\r\n") // it may be cut off
	answer, _ := io.ReadAll(io.LimitReader(long, 12))
	if words := string(answer); words != "" && words != "HTTP/1.1 431" {
		t.Errorf("a header of a megabyte: %q", words)
	}
	slow := dial()
	if _, err := io.WriteString(slow, "GET / HTTP/1.1\r\nHost: x\r\nA: "); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, slow); err != nil { // it is our deadline that passed, and not the server's
		t.Errorf("half a header is waited for: %v", err)
	}
}

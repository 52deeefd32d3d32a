package kafka

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/assay-bench/assay/ledger/kafka/kafkatest"
)

// authority is a certificate authority of the test's own.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.key, a.cert = a.issue("authority", nil, nil)
	a.write("ca.pem", 0o644, block("CERTIFICATE", a.cert.Raw))
	return a
}

func (a *authority) issue(name string, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true,
	}
	if parent == nil {
		tmpl.IsCA, tmpl.KeyUsage = true, x509.KeyUsageCertSign
		tmpl.ExtKeyUsage, tmpl.IPAddresses = nil, nil
		parent, signer = tmpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, cert
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func (a *authority) write(name string, mode os.FileMode, b []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, b, mode); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// pair gives a certificate's files: key, certificate, and both in one.
func (a *authority) pair(name string) (key, cert, both string) {
	a.t.Helper()
	k, c := a.issue(name, a.cert, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	kp, cp := block("PRIVATE KEY", der), block("CERTIFICATE", c.Raw)
	return a.write(name+".key", 0o600, kp), a.write(name+".pem", 0o644, cp), a.write(name+".both", 0o600, append(kp, cp...))
}

func TestRealSecure(t *testing.T) {
	a := newAuthority(t)
	_, _, broker := a.pair("broker")
	key, cert, _ := a.pair("client")
	ca := filepath.Join(a.dir, "ca.pem")
	cluster := kafkatest.StartWith(t, kafkatest.Options{PEM: broker, CA: ca, User: "alice:wonder-land"})
	password := a.write("password", 0o600, []byte("wonder-land\n"))
	good := func(mechanism string) Config {
		return Config{
			Brokers: cluster.Brokers, Timeout: 5 * time.Second,
			TLS:  &TLS{CAFile: ca, CertFile: cert, KeyFile: key},
			SASL: &SASL{Mechanism: mechanism, User: "alice", PasswordFile: password},
		}
	}
	ensure(t, good("SCRAM-SHA-512"), 1)
	for _, m := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		if _, err := newSink(t, good(m)).Deliver(t.Context(), records("n", 0, 10, 100)); err != nil {
			t.Errorf("%s: %v", m, err)
		}
	}
	if got := all(t, good("PLAIN")); len(got) != 30 {
		t.Errorf("%d records", len(got))
	}

	other := newAuthority(t)
	for _, tc := range []struct {
		name string
		bend func(*Config)
		want error
	}{
		{"a wrong password", func(c *Config) { c.SASL.PasswordFile, c.SASL.Password = "", "wrong" }, ErrRefused},
		{"no user", func(c *Config) { c.SASL = nil }, ErrUnreachable},
		{"no TLS", func(c *Config) { c.TLS = nil }, ErrUnreachable},
		{"another authority", func(c *Config) { c.TLS.CAFile = filepath.Join(other.dir, "ca.pem") }, ErrUnreachable},
		{"no certificate", func(c *Config) { c.TLS.CertFile, c.TLS.KeyFile = "", "" }, ErrUnreachable},
	} {
		c := good("SCRAM-SHA-256")
		tc.bend(&c)
		began := time.Now()
		_, err := Dial(t.Context(), c)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if d := time.Since(began); d > 2*c.Timeout {
			t.Errorf("%s: that took %s", tc.name, d)
		}
		t.Logf("%s: %v", tc.name, err)
	}
}

package hammer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pki is an authority of the test's own, and what it certified.
type pki struct {
	pool   *x509.CertPool
	server tls.Certificate
}

// newPKI writes ca.pem, client.pem and client.key into dir.
func newPKI(t *testing.T, dir string) pki {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	serial := int64(0)
	issue := func(template *x509.Certificate, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		check(err)
		serial++
		template.SerialNumber = big.NewInt(serial)
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		if parent == nil {
			parent, signer = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		check(err)
		return der, key
	}
	write := func(name, kind string, der []byte) {
		check(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	caDER, caKey := issue(&x509.Certificate{Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	ca, err := x509.ParseCertificate(caDER)
	check(err)
	serverDER, serverKey := issue(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, ca, caKey)
	clientDER, clientKey := issue(&x509.Certificate{Subject: pkix.Name{CommonName: "client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, ca, caKey)
	keyDER, err := x509.MarshalECPrivateKey(clientKey)
	check(err)
	write("ca.pem", "CERTIFICATE", caDER)
	write("client.pem", "CERTIFICATE", clientDER)
	write("client.key", "EC PRIVATE KEY", keyDER)
	p := pki{pool: x509.NewCertPool(), server: tls.Certificate{Certificate: [][]byte{serverDER}, PrivateKey: serverKey}}
	p.pool.AddCert(ca)
	return p
}

// listener asks for a certificate of the authority's.
func (p pki) listener(ln net.Listener) net.Listener {
	return tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{p.server}, ClientCAs: p.pool, ClientAuth: tls.RequireAndVerifyClientCert})
}

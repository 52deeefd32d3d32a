package hammer

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// tls is how the engine's certificate is checked, and which one is shown to
// it; nil where the system's way is asked for.
func (c *Config) tls() (*tls.Config, error) {
	if !c.Insecure && c.CACert == "" && c.Cert == "" && c.Key == "" {
		return nil, nil
	}
	if c.Key != "" && c.Cert == "" {
		return nil, errors.New("--key is the key of a certificate: give --cert too")
	}
	out := &tls.Config{InsecureSkipVerify: c.Insecure} //nolint:gosec // asked for by --insecure
	if c.CACert != "" {
		pem, err := os.ReadFile(c.CACert)
		if err != nil {
			return nil, fmt.Errorf("--cacert: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--cacert %s: no certificate in it; it must be PEM", c.CACert)
		}
	}
	if c.Cert != "" {
		key := c.Key
		if key == "" {
			key = c.Cert
		}
		pair, err := tls.LoadX509KeyPair(c.Cert, key)
		if err != nil {
			return nil, fmt.Errorf("--cert %s with the key in %s: %w", c.Cert, key, err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

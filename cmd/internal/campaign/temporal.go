package campaign

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/campaign/flow"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/native"
)

// temporalFlags say which Temporal.
type temporalFlags struct {
	address, namespace, binary string
	tls                        bool
	ca, cert, key              string
}

func (f *temporalFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.address, "temporal", "", "`HOST:PORT` of a Temporal server; by default one is started for as long as the command runs")
	fs.StringVar(&f.namespace, "temporal-namespace", "", "`name` of the namespace there; by default \"default\"")
	fs.BoolVar(&f.tls, "temporal-tls", false, "connect to it by TLS; the files below say so too")
	fs.StringVar(&f.ca, "temporal-tls-ca", "", "PEM `file` of the authorities that its certificate is of; by default the system's")
	fs.StringVar(&f.cert, "temporal-tls-cert", "", "PEM `file` of a certificate to show it")
	fs.StringVar(&f.key, "temporal-tls-key", "", "PEM `file` of its key")
	fs.StringVar(&f.binary, "temporal-binary", "", "`file` of the program that a server is started with; by default temporal on the PATH")
}

// connect connects to a server, and starts one where none was named.
func (f *temporalFlags) connect(ctx context.Context, dir string) (*flow.Client, func(), error) {
	secure, err := f.secure()
	if err != nil {
		return nil, nil, err
	}
	address, stop := f.address, func() {}
	if address == "" {
		supervisor, err := native.Command("supervise")
		if err != nil {
			return nil, nil, err
		}
		s, err := flow.StartServer(ctx, flow.ServerOptions{Binary: f.binary, Dir: filepath.Join(dir, "temporal"), Supervisor: supervisor, Env: os.Environ()})
		if err != nil {
			return nil, nil, err
		}
		address, stop = s.Address, s.Stop
	}
	c, err := flow.Dial(ctx, flow.ClientOptions{Address: address, Namespace: f.namespace, TLS: secure, Log: cli.Log(ctx)})
	if err != nil {
		stop()
		return nil, nil, err
	}
	return c, func() { c.Close(); stop() }, nil
}

// secure is how TLS is spoken with the server; nil: it is not.
func (f *temporalFlags) secure() (*tls.Config, error) {
	if !f.tls && f.ca == "" && f.cert == "" && f.key == "" {
		return nil, nil //nolint:nilnil // no TLS is an answer
	}
	if f.address == "" {
		return nil, errors.New("--temporal-tls is for a server of one's own: --temporal HOST:PORT names it")
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		b, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("--temporal-tls-ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("--temporal-tls-ca: %s has no certificate", f.ca)
		}
	}
	if f.cert != "" || f.key != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("--temporal-tls-cert and --temporal-tls-key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

package kafka

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/assay-bench/assay/internal/yamltext"
	"github.com/assay-bench/assay/ledger"
)

// Config says where Kafka is and how to speak to it. Only Brokers is needed. It
// can be printed: it holds names of files, and a password that does not print.
type Config struct {
	Brokers []string `yaml:"brokers"` // HOST:PORT; some of the cluster's, from which the others are learnt
	Topic   string   `yaml:"topic"`   // empty: gpu-monitor
	TLS     *TLS     `yaml:"tls"`     // nil: in the clear
	SASL    *SASL    `yaml:"sasl"`    // nil: no user

	// Timeout is how long a request, or the delivery of one batch, may take
	// before it is an error. 0: ten seconds for a request, thirty for a delivery.
	Timeout time.Duration `yaml:"timeout"`
}

// TLS of a connection. The zero value trusts the system's certificates.
type TLS struct {
	CAFile     string `yaml:"ca_file"`     // PEM; empty: the system's
	CertFile   string `yaml:"cert_file"`   // PEM: ours, where brokers ask for one
	KeyFile    string `yaml:"key_file"`    // PEM: its private key; not readable by others
	ServerName string `yaml:"server_name"` // in the brokers' certificates; empty: the name that was dialled
}

// SASL says who we are.
type SASL struct {
	Mechanism    string `yaml:"mechanism"` // PLAIN (with TLS only), SCRAM-SHA-256 or SCRAM-SHA-512
	User         string `yaml:"user"`
	PasswordFile string `yaml:"password_file"` // its first line; not readable by others
	Password     Secret `yaml:"-"`             // in place of the file, from a caller who has it elsewhere
}

// Secret is a word that does not print.
type Secret string

// String hides it.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(hidden)"
}

// GoString hides it.
func (s Secret) GoString() string { return `"` + s.String() + `"` }

// MarshalText hides it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Bounds of what is read from disk: a page of YAML, a chain of certificates.
const (
	maxConfigFile = 1 << 20
	maxSecretFile = 1 << 16
)

// ReadConfig reads a file in YAML or JSON. Files that it names are looked for
// beside it.
func ReadConfig(path string) (Config, error) {
	var c Config
	b, err := readBounded(path, maxConfigFile)
	if err != nil {
		return c, fmt.Errorf("read Kafka's configuration: %w", err)
	}
	if _, err := yamltext.Decode(b, &c); err != nil {
		return Config{}, fmt.Errorf("read %s: %w", path, err)
	}
	beside := func(name *string) {
		if *name != "" && !filepath.IsAbs(*name) {
			*name = filepath.Join(filepath.Dir(path), *name)
		}
	}
	if c.TLS != nil {
		beside(&c.TLS.CAFile)
		beside(&c.TLS.CertFile)
		beside(&c.TLS.KeyFile)
	}
	if c.SASL != nil {
		beside(&c.SASL.PasswordFile)
	}
	return c, nil
}

// ErrConfig marks a configuration that cannot be used; its text says what to
// change.
var ErrConfig = errors.New("Kafka's configuration")

func (c Config) topic() string {
	if c.Topic == "" {
		return ledger.Topic
	}
	return c.Topic
}

func (c Config) requestTimeout() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return 10 * time.Second
}

func (c Config) deliveryTimeout() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return 30 * time.Second
}

// options checks the configuration and makes of it what every client of ours has.
func (c Config) options() ([]kgo.Opt, error) {
	fail := func(format string, args ...any) ([]kgo.Opt, error) {
		return nil, fmt.Errorf("%w: %w", ErrConfig, fmt.Errorf(format, args...))
	}
	if len(c.Brokers) == 0 {
		return fail("no broker is named; give at least one as HOST:PORT")
	}
	for _, b := range c.Brokers {
		host, port, err := net.SplitHostPort(b)
		if err != nil || host == "" || port == "" {
			return fail("broker %q is not HOST:PORT", b)
		}
	}
	if err := checkTopic(c.topic()); err != nil {
		return fail("%w", err)
	}
	if c.Timeout < 0 {
		return fail("the timeout is %s; it must be positive, or left out", c.Timeout)
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID("assay"),
		kgo.DialTimeout(min(c.requestTimeout(), 5*time.Second)),
		kgo.RetryTimeout(c.requestTimeout()),
		kgo.RequestTimeoutOverhead(min(max(c.requestTimeout()/2, time.Second), 5*time.Second)),
		kgo.BrokerMaxReadBytes(128 << 20),
		kgo.MaxDecompressBatchBytes(128 << 20),
		kgo.DisableClientMetrics(), // nobody asked for our figures
		// A leader that died is looked for again soon, as a person may be waiting.
		kgo.MetadataMinAge(250 * time.Millisecond),
	}
	if c.TLS != nil {
		conf, err := c.TLS.config()
		if err != nil {
			return fail("%w", err)
		}
		opts = append(opts, kgo.DialTLSConfig(conf))
	}
	if c.SASL != nil {
		m, err := c.SASL.mechanism(c.TLS != nil)
		if err != nil {
			return fail("%w", err)
		}
		opts = append(opts, kgo.SASL(m))
	}
	return opts, nil
}

// checkTopic holds a name against Kafka's rule, so that a wrong one is not a
// message of the broker's. A log's entry has the name between spaces.
func checkTopic(name string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if len(name) > 249 || name == "." || name == ".." || strings.Trim(name, allowed) != "" || strings.ContainsFunc(name, func(r rune) bool { return !strings.ContainsRune(allowed, r) }) {
		return fmt.Errorf("%.60q is no name of a topic: 1 to 249 letters, digits, dots, dashes and underscores", name)
	}
	return nil
}

func (t TLS) config() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := readBounded(t.CAFile, maxConfigFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: %s holds no certificate in PEM", t.CAFile)
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, errors.New("tls.cert_file and tls.key_file go together: give both, or neither")
	}
	if t.CertFile != "" {
		cert, err := readBounded(t.CertFile, maxConfigFile)
		if err != nil {
			return nil, fmt.Errorf("tls.cert_file: %w", err)
		}
		key, err := readSecret(t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls.key_file: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("tls.cert_file %s with tls.key_file %s: %w", t.CertFile, t.KeyFile, err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

func (s SASL) mechanism(encrypted bool) (sasl.Mechanism, error) {
	if s.User == "" {
		return nil, errors.New("sasl.user is missing")
	}
	password := s.Password
	switch {
	case password != "" && s.PasswordFile != "":
		return nil, errors.New("the password is given twice: by sasl.password_file, and by the caller; leave one out")
	case s.PasswordFile != "":
		b, err := readSecret(s.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("sasl.password_file: %w", err)
		}
		line, _, _ := bytes.Cut(b, []byte("\n"))
		password = Secret(strings.TrimSuffix(string(line), "\r"))
	}
	if password == "" {
		return nil, fmt.Errorf("user %s has no password: name a file by sasl.password_file", s.User)
	}
	switch s.Mechanism {
	case "PLAIN":
		if !encrypted {
			return nil, errors.New("sasl.mechanism PLAIN would send the password in the clear: add tls, or take SCRAM-SHA-512")
		}
		return plain.Auth{User: s.User, Pass: string(password)}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.User, Pass: string(password)}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.User, Pass: string(password)}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("sasl.mechanism %q is not known; known are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512", s.Mechanism)
}

// readSecret reads a file that must not be readable by everybody. Its group may
// read it: that is how orchestrators hand secrets to a process.
func readSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat() // of what was opened: nothing can be exchanged in between
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return nil, fmt.Errorf("%s has mode %04o, so that everybody on this machine has it: chmod 600 %s, and change what was in it", path, mode, path)
	}
	return readAll(f, maxSecretFile)
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, limit)
}

func readAll(f *os.File, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", f.Name(), limit)
	}
	return b, nil
}

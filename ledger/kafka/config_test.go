package kafka

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/assay-bench/assay/internal/yamltext"
)

func TestReadConfig(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kafka.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(`brokers: [a:9092, "b:9092"]
topic: other
timeout: 7s
tls:
  ca_file: ca.pem
  cert_file: /etc/client.pem
  key_file: client.key
sasl:
  mechanism: SCRAM-SHA-512
  user: alice
  password_file: secret
`)
	c, err := ReadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Brokers) != 2 || c.topic() != "other" || c.Timeout != 7*time.Second ||
		c.TLS.CAFile != filepath.Join(dir, "ca.pem") || c.TLS.CertFile != "/etc/client.pem" || c.SASL.PasswordFile != filepath.Join(dir, "secret") {
		t.Errorf("%+v %+v %+v", c, c.TLS, c.SASL)
	}
	write(`{"brokers": ["a:1"]}`)
	if c, err = ReadConfig(path); err != nil || c.topic() != "gpu-monitor" || c.TLS != nil || c.SASL != nil {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []string{"brokers: a:\n  - b", "broker: [a:1]", "sasl: {password: x}", strings.Repeat("#", maxConfigFile+1)} {
		write(bad)
		if _, err := ReadConfig(path); err == nil {
			t.Errorf("%.40q was taken", bad)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	dir := t.TempDir()
	open, shut := filepath.Join(dir, "open"), filepath.Join(dir, "shut")
	for path, mode := range map[string]os.FileMode{open: 0o644, shut: 0o640} {
		if err := os.WriteFile(path, []byte("pass word\r\nmore\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	good := func() Config { return Config{Brokers: []string{"a:1"}} }
	user := func(m, file string, pw Secret) *SASL { return &SASL{m, "alice", file, pw} }
	for _, tc := range []struct {
		name string
		bend func(*Config)
		says string // empty: right
	}{
		{"good", func(*Config) {}, ""},
		{"no broker", func(c *Config) { c.Brokers = nil }, "no broker is named"},
		{"no port", func(c *Config) { c.Brokers = []string{"a"} }, `broker "a" is not HOST:PORT`},
		{"an empty one", func(c *Config) { c.Brokers = []string{"a:1", ""} }, "not HOST:PORT"},
		{"a topic with a space", func(c *Config) { c.Topic = "a b" }, "no name of a topic"},
		{"a long topic", func(c *Config) { c.Topic = strings.Repeat("t", 250) }, "no name of a topic"},
		{"time that runs back", func(c *Config) { c.Timeout = -1 }, "timeout"},
		{"SCRAM", func(c *Config) { c.SASL = user("SCRAM-SHA-256", shut, "") }, ""},
		{"a password that everybody can read", func(c *Config) { c.SASL = user("SCRAM-SHA-256", open, "") }, "chmod 600"},
		{"no such file", func(c *Config) { c.SASL = user("SCRAM-SHA-256", open+"x", "") }, "no such file"},
		{"two passwords", func(c *Config) { c.SASL = user("SCRAM-SHA-256", shut, "x") }, "given twice"},
		{"no password", func(c *Config) { c.SASL = user("SCRAM-SHA-256", "", "") }, "no password"},
		{"no user", func(c *Config) { c.SASL = &SASL{Mechanism: "PLAIN", Password: "x"} }, "sasl.user"},
		{"PLAIN in the clear", func(c *Config) { c.SASL = user("PLAIN", shut, "") }, "in the clear"},
		{"PLAIN", func(c *Config) { c.TLS, c.SASL = &TLS{}, user("PLAIN", shut, "") }, ""},
		{"another mechanism", func(c *Config) { c.SASL = user("GSSAPI", shut, "") }, `"GSSAPI" is not known`},
		{"half a pair", func(c *Config) { c.TLS = &TLS{CertFile: shut} }, "go together"},
		{"no certificate", func(c *Config) { c.TLS = &TLS{CAFile: shut} }, "no certificate in PEM"},
		{"a key that everybody can read", func(c *Config) { c.TLS = &TLS{CertFile: shut, KeyFile: open} }, "chmod 600"},
		{"no key", func(c *Config) { c.TLS = &TLS{CertFile: shut, KeyFile: shut} }, "tls.cert_file"},
	} {
		c := good()
		tc.bend(&c)
		_, err := c.options()
		switch {
		case tc.says == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.says != "" && (!errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%s: %v", tc.name, err)
		case err != nil && strings.Contains(err.Error(), "pass word"):
			t.Errorf("%s: the password is in the error", tc.name)
		}
	}
}

func TestSecretDoesNotPrint(t *testing.T) {
	c := Config{SASL: &SASL{User: "alice", Password: "wonder-land"}}
	j, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{string(j), fmt.Sprintf("%v %+v %#v %s %q", *c.SASL, *c.SASL, *c.SASL, c.SASL.Password, c.SASL.Password)} {
		if strings.Contains(s, "wonder") {
			t.Error(s)
		}
	}
}

// Nobody there, and somebody there who never answers: both are said in time.
func TestDialSaysWhenNobodyAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			if _, err := l.Accept(); err != nil {
				return
			}
		}
	}()
	defer l.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for name, addr := range map[string]string{"silent": l.Addr().String(), "gone": gone.Addr().String()} {
		began := time.Now()
		_, err := Dial(t.Context(), Config{Brokers: []string{addr}, Timeout: time.Second})
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), addr) {
			t.Errorf("%s: %v", name, err)
		}
		if d := time.Since(began); d > 4*time.Second {
			t.Errorf("%s: that took %s", name, d)
		}
	}
}

func TestTopicIsHeldToWhatItMustKeep(t *testing.T) {
	describeWith := func(brokers, replicas int, settings map[string]string) Topic {
		var configs []kadm.Config
		for k, v := range settings {
			configs = append(configs, kadm.Config{Key: k, Value: kadm.StringPtr(v)})
		}
		d := kadm.TopicDetail{Topic: "t", Partitions: kadm.PartitionDetails{0: {Replicas: make([]int32, replicas)}, 1: {Replicas: make([]int32, replicas+1)}}}
		return describe(d, configs, brokers)
	}
	right := func() map[string]string {
		return map[string]string{
			"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "message.timestamp.type": "LogAppendTime",
			"min.insync.replicas": "2", "unclean.leader.election.enable": "false", "max.message.bytes": "1048588",
		}
	}
	for _, tc := range []struct {
		name              string
		brokers, replicas int
		bend              func(map[string]string)
		wrong             string
	}{
		{"right", 3, 3, func(map[string]string) {}, ""},
		{"more than asked for", 5, 5, func(m map[string]string) { m["min.insync.replicas"] = "3" }, ""},
		{"one broker", 1, 1, func(m map[string]string) { m["min.insync.replicas"] = "1" }, ""},
		{"a broker is away", 2, 3, func(m map[string]string) { m["min.insync.replicas"] = "1" }, "min.insync.replicas"},
		{"few replicas", 3, 2, func(map[string]string) {}, "replication"},
		{"more in sync than there are", 1, 1, func(m map[string]string) { m["min.insync.replicas"] = "2" }, "min.insync.replicas"},
		{"compacted", 3, 3, func(m map[string]string) { m["cleanup.policy"] = "compact,delete" }, "cleanup.policy"},
		{"by age", 3, 3, func(m map[string]string) { m["retention.ms"] = "604800000" }, "retention.ms"},
		{"by size", 3, 3, func(m map[string]string) { m["retention.bytes"] = "1" }, "retention.bytes"},
		{"by the sender's clock", 3, 3, func(m map[string]string) { m["message.timestamp.type"] = "CreateTime" }, "message.timestamp.type"},
		{"unclean", 3, 3, func(m map[string]string) { m["unclean.leader.election.enable"] = "true" }, "unclean.leader.election.enable"},
		{"small batches", 3, 3, func(m map[string]string) { m["max.message.bytes"] = "1000" }, "max.message.bytes"},
		{"unknown", 3, 3, func(m map[string]string) { delete(m, "retention.ms") }, "retention.ms"},
	} {
		m := right()
		tc.bend(m)
		topic := describeWith(tc.brokers, tc.replicas, m)
		err := topic.Check()
		if tc.wrong == "" {
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		if w := topic.Wrong(); len(w) != 1 || w[0].Name != tc.wrong || !errors.Is(err, ErrTopic) || !strings.Contains(err.Error(), tc.wrong) {
			t.Errorf("%s: %v, %v", tc.name, w, err)
		}
	}
}

func TestReadConfigRefusesWhatExplodes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kafka.yaml")
	if err := os.WriteFile(path, []byte("brokers: "+strings.Repeat("[", 100_000)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadConfig(path); !errors.Is(err, yamltext.ErrBounds) {
		t.Error(err)
	}
}

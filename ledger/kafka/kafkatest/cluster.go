// Package kafkatest starts a real Kafka for tests: one broker or three, on this
// machine, with a proxy in front where the network is to be cut. There is no
// imitation of Kafka here; where Kafka cannot be had a test is skipped, or fails
// under ASSAY_PARTS=1.
//
// A test that starts a broker has Real in its name.
package kafkatest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
)

// Cluster is a running Kafka. Brokers count from 1.
type Cluster struct {
	Brokers []string        // what clients connect to; with a proxy, the proxy
	Proxy   *parttest.Proxy // the network between clients and brokers; nil unless asked for

	tb    testing.TB
	dir   string
	serve string
}

// Options of a cluster. The zero value is one broker in the clear.
type Options struct {
	Brokers int  // 1 (also 0) or 3
	Proxied bool // all traffic of clients goes through a toxiproxy

	PEM  string // file: clients speak TLS; private key (PKCS #8) and certificates of the brokers
	CA   string // file, with PEM: clients must have a certificate from here
	User string // NAME:PASSWORD: clients speak SASL, by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
}

// Start gives a cluster of n brokers, which stops with the test.
func Start(tb testing.TB, n int) *Cluster {
	tb.Helper()
	return StartWith(tb, Options{Brokers: n})
}

// StartWith gives a cluster, which stops with the test.
func StartWith(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	parts := parttest.Scripts(tb)
	parttest.Install(tb, "kafka")
	n := max(o.Brokers, 1)
	c := &Cluster{tb: tb, dir: tb.TempDir(), serve: filepath.Join(parts, "kafka-serve")}
	parttest.StopAtEnd(tb, c.serve, c.dir)
	var env []string
	if o.Proxied {
		var listen []string
		for range n {
			listen = append(listen, net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(tb))))
		}
		env = append(env, "KAFKA_ADVERTISED="+strings.Join(listen, ","))
	}
	if o.PEM != "" {
		env = append(env, "KAFKA_PEM="+o.PEM)
	}
	if o.CA != "" {
		env = append(env, "KAFKA_CA="+o.CA, "KAFKA_CLIENT_AUTH=required")
	}
	if o.User != "" {
		env = append(env, "KAFKA_USER="+o.User)
	}
	c.Brokers = strings.Split(c.run(env, "start", c.dir, strconv.Itoa(n)), ",")
	if o.Proxied {
		c.Proxy = parttest.StartProxy(tb)
		for i, port := range readPorts(tb, filepath.Join(c.dir, "ports")) {
			c.Proxy.Route(c.Brokers[i], net.JoinHostPort("127.0.0.1", port))
		}
	}
	return c
}

// Kill ends broker i at once, as kill -9 does.
func (c *Cluster) Kill(i int) { c.tb.Helper(); c.run(nil, "kill", c.dir, strconv.Itoa(i)) }

// Restart starts broker i again, with its port and its data, and waits until it
// serves.
func (c *Cluster) Restart(i int) { c.tb.Helper(); c.run(nil, "restart", c.dir, strconv.Itoa(i)) }

// Log is what broker i has printed.
func (c *Cluster) Log(i int) string {
	b, err := os.ReadFile(filepath.Join(c.dir, strconv.Itoa(i), "log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (c *Cluster) run(env []string, args ...string) string {
	c.tb.Helper()
	return parttest.Run(c.tb, env, c.serve, args...)
}

func readPorts(tb testing.TB, path string) []string {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Fields(string(b))
}

// freePort is below the ports of outgoing connections, for the reason that
// kafka-serve names.
func freePort(tb testing.TB) int {
	tb.Helper()
	low := 32768
	if b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if _, err := fmt.Sscan(string(b), &low); err != nil {
			tb.Fatal(err)
		}
	}
	for range 1000 {
		port := 12000 + rand.IntN(max(low-12000, 1000))
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			l.Close()
			return port
		}
	}
	tb.Fatal("no free port")
	return 0
}

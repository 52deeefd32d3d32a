package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Errors of a cluster. Each is a different thing to do.
var (
	// ErrUnreachable: no broker answered in time. Wait, or look at the network.
	ErrUnreachable = errors.New("Kafka cannot be reached")
	// ErrRefused: a broker answered, and does not let us in or may not do what was
	// asked. Waiting does not help.
	ErrRefused = errors.New("Kafka refuses us")
	// ErrNoTopic: the topic does not exist. EnsureTopic makes it.
	ErrNoTopic = errors.New("the topic does not exist")
)

// Conn asks a cluster about its topics.
type Conn struct {
	conf  Config
	cl    *kgo.Client
	admin *kadm.Client
}

// Dial connects, and is an error when no broker answers in time.
func Dial(ctx context.Context, c Config) (*Conn, error) {
	conn, err := open(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.requestTimeout())
	defer cancel()
	if err := conn.cl.Ping(ctx); err != nil {
		conn.Close()
		return nil, explain(c, "connect", err)
	}
	return conn, nil
}

// open makes a connection that is not dialled yet.
func open(c Config) (*Conn, error) {
	opts, err := c.options()
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return &Conn{conf: c, cl: cl, admin: kadm.NewClient(cl)}, nil
}

// Close ends the connection.
func (c *Conn) Close() { c.cl.Close() }

// explain says what an error of the client means, with the brokers that were
// asked and what to do.
func explain(c Config, doing string, err error) error {
	brokers := strings.Join(c.Brokers, ",")
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", doing, err)
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return fmt.Errorf("%w: %s at %s; `assay ledger topics --create` makes it", ErrNoTopic, c.topic(), brokers)
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism):
		return fmt.Errorf("%w: %s at %s: %w; look at sasl in the configuration", ErrRefused, doing, brokers, err)
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fmt.Errorf("%w: %s at %s: %w; our user needs the right to do this", ErrRefused, doing, brokers, err)
	}
	var broker *kerr.Error
	if errors.As(err, &broker) && !broker.Retriable {
		return fmt.Errorf("%w: %s at %s: %w", ErrRefused, doing, brokers, err)
	}
	hint := "is it running, and is this the right address?"
	var op *net.OpError
	if !errors.As(err, &op) && c.TLS == nil {
		hint = "is it running? does it want TLS, which is not configured?"
	}
	return fmt.Errorf("%w: %s at %s within %s: %w; %s", ErrUnreachable, doing, brokers, c.requestTimeout(), err, hint)
}

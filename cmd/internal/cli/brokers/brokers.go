// Package brokers has the flags of every command that speaks to Kafka.
package brokers

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka"
)

// password is the variable that may hold the password of SASL, which is never an
// argument: everybody on a machine can read arguments.
const password = "ASSAY_KAFKA_PASSWORD"

// Flags say where Kafka is.
type Flags struct{ brokers, file, topic string }

// Register adds them to a command.
func (f *Flags) Register(fs *pflag.FlagSet) {
	fs.StringVar(&f.brokers, "kafka", "", "Kafka's `brokers`, HOST:PORT,HOST:PORT…")
	fs.StringVar(&f.file, "kafka-config", "", "YAML `file` with brokers, topic, tls and sasl; the password comes from its password_file or from $"+password)
	fs.StringVar(&f.topic, "topic", "", "the `topic` (default "+ledger.Topic+")")
}

// Given reports whether Kafka was asked for.
func (f *Flags) Given() bool { return f.brokers != "" || f.file != "" }

// Config is what the flags and the file say together; a flag wins.
func (f *Flags) Config() (kafka.Config, error) {
	var c kafka.Config
	if f.file != "" {
		var err error
		if c, err = kafka.ReadConfig(f.file); err != nil {
			return c, err
		}
	}
	if f.brokers != "" {
		c.Brokers = strings.Split(f.brokers, ",")
	}
	if f.topic != "" {
		c.Topic = f.topic
	}
	if c.Topic == "" {
		c.Topic = ledger.Topic
	}
	if len(c.Brokers) == 0 {
		return c, errors.New("where is Kafka? give --kafka HOST:PORT, or --kafka-config FILE")
	}
	if c.SASL != nil && c.SASL.PasswordFile == "" {
		c.SASL.Password = kafka.Secret(os.Getenv(password))
	}
	return c, nil
}

// Outcome gives an error of Kafka its exit code: one that is not a matter of usage
// means that nothing could be found out.
func Outcome(err error) error {
	for _, known := range []error{kafka.ErrUnreachable, kafka.ErrRefused, kafka.ErrNoTopic, kafka.ErrTruncated, kafka.ErrDeleted} {
		if errors.Is(err, known) {
			return cli.Unknown(err)
		}
	}
	if errors.Is(err, kafka.ErrTopic) {
		return cli.Failed(err)
	}
	return err
}

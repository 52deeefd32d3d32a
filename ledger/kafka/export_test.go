package kafka

import "github.com/twmb/franz-go/pkg/kgo"

// ProducerOptions are the sink's, for a bare producer to be held against it.
func ProducerOptions() []kgo.Opt { return producerOptions(Config{}) }

package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Partitions is how many a topic gets unless told otherwise.
const Partitions = 12

// minBatch is the least max.message.bytes: a batch of our producer.
const minBatch = batchBytes

// ErrTopic marks a topic whose settings would lose records, or say when they
// were appended by the word of whoever sent them. It is not altered: its text has
// what to change, and that is for its owner to do.
var ErrTopic = errors.New("the topic's settings are wrong")

// Setting is one setting of a topic that matters here.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Want  string `json:"want"`
	Wrong bool   `json:"wrong"`
	Why   string `json:"why"` // what happens otherwise
}

// Topic is a topic as the cluster has it.
type Topic struct {
	Name        string    `json:"name"`
	ID          string    `json:"id"` // another one under the same name has another
	Partitions  int       `json:"partitions"`
	Replication int       `json:"replication"` // of the partition that has least
	InSync      int       `json:"in_sync"`     // likewise
	Settings    []Setting `json:"settings"`
}

// Wrong are the settings that are not as they should be.
func (t Topic) Wrong() []Setting {
	return slices.DeleteFunc(slices.Clone(t.Settings), func(s Setting) bool { return !s.Wrong })
}

// Check is nil when every setting is right, and else says each that is wrong and
// how to change it.
func (t Topic) Check() error {
	wrong := t.Wrong()
	if len(wrong) == 0 {
		return nil
	}
	var lines []string
	var alter []string
	for _, s := range wrong {
		lines = append(lines, fmt.Sprintf("%s is %s and should be %s: %s", s.Name, s.Value, s.Want, s.Why))
		if s.Name != replication {
			alter = append(alter, s.Name+"="+strings.TrimPrefix(s.Want, "at least "))
		}
	}
	do := ""
	if len(alter) > 0 {
		do = fmt.Sprintf("; to change it: kafka-configs --alter --entity-type topics --entity-name %s --add-config %s", t.Name, strings.Join(alter, ","))
	}
	if len(alter) < len(wrong) {
		do += "; replication is changed by kafka-reassign-partitions"
	}
	return fmt.Errorf("%w: %s: %s%s", ErrTopic, t.Name, strings.Join(lines, "; "), do)
}

const replication = "replication"

// wanted are the settings of a topic in a cluster of so many brokers.
func wanted(brokers int) (replicas int16, settings []Setting) {
	replicas, inSync := int16(1), "1"
	if brokers >= 3 {
		replicas, inSync = 3, "2"
	}
	return replicas, []Setting{
		{Name: "cleanup.policy", Want: "delete", Why: "compaction removes all but a node's last record"},
		{Name: "retention.ms", Want: "-1", Why: "records are deleted by age"},
		{Name: "retention.bytes", Want: "-1", Why: "records are deleted when there are many"},
		{Name: "message.timestamp.type", Want: "LogAppendTime", Why: "a record's time is its sender's word, not the broker's"},
		{Name: "min.insync.replicas", Want: inSync, Why: "a record counts as kept before enough brokers have it, or nothing can be written"},
		{Name: "unclean.leader.election.enable", Want: "false", Why: "a broker that missed records may become the one that is asked"},
		{Name: "max.message.bytes", Want: "at least " + strconv.Itoa(minBatch), Why: "batches are refused"},
	}
}

// EnsureTopic makes the topic with the right settings, or checks those that it
// has. It never alters one: an error that is ErrTopic says what is wrong.
func (c *Conn) EnsureTopic(ctx context.Context, partitions int) (made bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*c.conf.requestTimeout())
	defer cancel()
	name := c.conf.topic()
	brokers, err := c.brokers(ctx)
	if err != nil {
		return false, err
	}
	if partitions <= 0 {
		partitions = Partitions
	}
	replicas, settings := wanted(brokers)
	configs := map[string]*string{}
	for _, s := range settings {
		if s.Name != "max.message.bytes" { // the default will do, where nobody has lowered it
			configs[s.Name] = kadm.StringPtr(s.Want)
		}
	}
	_, err = c.admin.CreateTopic(ctx, int32(partitions), replicas, configs, name)
	switch {
	case err == nil:
		made = true
	case !errors.Is(err, kerr.TopicAlreadyExists):
		return false, explain(c.conf, "make the topic "+name, err)
	}
	if made {
		if err := c.everywhere(ctx, name, partitions); err != nil {
			return made, err
		}
	}
	all, err := c.Topics(ctx, name)
	if err != nil {
		return made, err
	}
	return made, all[0].Check()
}

// Topics describes topics; without a name, all that are not Kafka's own.
func (c *Conn) Topics(ctx context.Context, names ...string) ([]Topic, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*c.conf.requestTimeout())
	defer cancel()
	brokers, err := c.brokers(ctx)
	if err != nil {
		return nil, err
	}
	meta, err := c.admin.ListTopics(ctx, names...)
	if err != nil {
		return nil, explain(c.conf, "list topics", err)
	}
	var found []string
	for name, t := range meta {
		if t.Err != nil {
			conf := c.conf
			conf.Topic = name
			return nil, explain(conf, "describe the topic "+name, t.Err)
		}
		found = append(found, name)
	}
	if len(found) == 0 {
		return nil, nil
	}
	slices.Sort(found)
	configs, err := c.admin.DescribeTopicConfigs(ctx, found...)
	if err != nil {
		return nil, explain(c.conf, "read the settings of topics", err)
	}
	var out []Topic
	for _, name := range found {
		rc, err := configs.On(name, nil)
		if err == nil {
			err = rc.Err
		}
		if err != nil {
			return nil, explain(c.conf, "read the settings of the topic "+name, err)
		}
		out = append(out, describe(meta[name], rc.Configs, brokers))
	}
	return out, nil
}

// everywhere waits until each broker knows a topic that was made a moment ago, with
// a leader for every partition: who asks next may ask any of them.
func (c *Conn) everywhere(ctx context.Context, name string, partitions int) error {
	brokers, err := c.admin.ListBrokers(ctx)
	if err != nil {
		return explain(c.conf, "list brokers", err)
	}
	for _, b := range brokers {
		_, err := backoff.Retry(ctx, func() (struct{}, error) {
			if !c.knows(ctx, int(b.NodeID), name, partitions) {
				return struct{}{}, ErrNoTopic
			}
			return struct{}{}, nil
		}, backoff.WithBackOff(backoff.NewConstantBackOff(50*time.Millisecond)), backoff.WithMaxElapsedTime(0))
		if err != nil { // the time is up
			return fmt.Errorf("%w: it was made, and broker %d does not know it yet; look again in a moment", ErrNoTopic, b.NodeID)
		}
	}
	return nil
}

func (c *Conn) knows(ctx context.Context, broker int, name string, partitions int) bool {
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(name)
	req.Topics = append(req.Topics, topic)
	answer, err := c.cl.Broker(broker).RetriableRequest(ctx, req)
	if err != nil {
		return false
	}
	m, ok := answer.(*kmsg.MetadataResponse)
	if !ok || len(m.Topics) != 1 || m.Topics[0].ErrorCode != 0 || len(m.Topics[0].Partitions) < partitions {
		return false
	}
	for _, p := range m.Topics[0].Partitions {
		if p.ErrorCode != 0 || p.Leader < 0 {
			return false
		}
	}
	return true
}

// brokers counts the brokers of the cluster.
func (c *Conn) brokers(ctx context.Context) (int, error) {
	b, err := c.admin.ListBrokers(ctx)
	if err != nil {
		return 0, explain(c.conf, "list brokers", err)
	}
	return len(b), nil
}

func describe(t kadm.TopicDetail, configs []kadm.Config, brokers int) Topic {
	out := Topic{Name: t.Topic, ID: t.ID.String(), Partitions: len(t.Partitions)}
	for i, p := range t.Partitions.Sorted() {
		if i == 0 || len(p.Replicas) < out.Replication {
			out.Replication = len(p.Replicas)
		}
		if i == 0 || len(p.ISR) < out.InSync {
			out.InSync = len(p.ISR)
		}
	}
	values := map[string]string{}
	for _, c := range configs {
		values[c.Key] = c.MaybeValue()
	}
	// A cluster that lost a broker for a while lists fewer; the topic's own
	// replication then says how many there should be.
	replicas, settings := wanted(max(brokers, out.Replication))
	out.Settings = append(out.Settings, Setting{
		Name: replication, Value: strconv.Itoa(out.Replication), Want: "at least " + strconv.Itoa(int(replicas)),
		Wrong: out.Replication < int(replicas), Why: "records are lost with a broker",
	})
	for _, s := range settings {
		s.Value = values[s.Name]
		switch s.Name {
		case "max.message.bytes":
			n, err := strconv.Atoi(s.Value)
			s.Wrong = err != nil || n < minBatch
		case "min.insync.replicas":
			// More than asked for is right too, as long as something can be written.
			n, err := strconv.Atoi(s.Value)
			least, _ := strconv.Atoi(s.Want)
			s.Wrong = err != nil || n < least || n > out.Replication
		default:
			s.Wrong = s.Value != s.Want
		}
		if s.Value == "" {
			s.Value = "unknown"
		}
		out.Settings = append(out.Settings, s)
	}
	return out
}

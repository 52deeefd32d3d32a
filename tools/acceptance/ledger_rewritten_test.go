package acceptance

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka/kafkatest"
)

// Must show 3: whoever runs Kafka can rewrite its files, checksums and all, and
// no consumer notices. The notary and fsck do.
func TestRealRewrittenRecord(t *testing.T) {
	const count = 20
	k := kafkatest.Start(t, 1)
	brokers := strings.Join(k.Brokers, ",")
	command(t, 0, "ledger", "topics", "--create", "--kafka", brokers)
	data := plainTopic(t, k.Brokers)
	n := makeNodes(t, k.Brokers, count, 0, "-nodes", "1")
	o := openOffice(t, k.Brokers, n.trust())
	n.start()
	n.finish(time.Minute)
	ids := slices.Sorted(func(yield func(string) bool) {
		for id := range n.ids() {
			if !yield(id) {
				return
			}
		}
	})
	rewrite := func(id string) topicRecord {
		t.Helper()
		before := readTopic(t, k.Brokers, whole)
		k.Kill(1)
		at, err := rewriteRecord(data, id)
		if err != nil {
			t.Fatal(err)
		}
		k.Restart(1)
		after := readTopic(t, k.Brokers, whole) // the client checks every checksum
		for place, value := range before.values {
			if bytes.Equal(after.values[place], value) == (place == at) {
				t.Fatalf("the record at %v, rewritten at %v: %s", place, at, after.values[place])
			}
		}
		return at
	}

	at := rewrite(ids[5])
	o.startNotary()
	o.covers(count, time.Minute) // the key, and all but one statement
	b, err := os.ReadFile(filepath.Join(o.dir, "notary", "refused.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var refused struct {
		Partition   int32
		Offset      int64
		ID          string
		Reason, Why string
	}
	if err := json.Unmarshal(b, &refused); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	if refused.Reason != "signature" || refused.ID != ids[5] || (topicRecord{refused.Partition, refused.Offset}) != at {
		t.Errorf("refused %+v, want %s at %v for its signature", refused, ids[5], at)
	}
	say(t, "rewritten before it was notarised: refused, %s: %s", refused.Reason, refused.Why)
	if code := o.notary.stop(time.Minute); code != 0 {
		t.Errorf("the notary exits %d: %s", code, o.notary.said())
	}
	fsck := func(exit int, more ...string) string {
		t.Helper()
		return command(t, exit, append([]string{"ledger", "fsck", o.notaryDir(), "--policy", o.policy, "--trust", o.trust}, more...)...)
	}
	fsck(0, "--kafka", brokers)

	at = rewrite(ids[9])
	out := fsck(3, "--kafka", brokers)
	want := fmt.Sprintf("record %d/%d in Kafka is not what was logged", at.partition, at.offset)
	if strings.Count(out, "in Kafka is not") != 1 || !strings.Contains(out, want) {
		t.Errorf("fsck does not say %q, or more:\n%s", want, out)
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, want) {
			say(t, "rewritten after it was notarised: fsck: %s", strings.TrimSpace(line))
		}
	}
	fsck(0) // the log itself is unhurt
}

// plainTopic has the broker keep records as they are, without compression, and
// gives the directory of its files.
func plainTopic(t *testing.T, brokers []string) string {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	plain := "uncompressed"
	answers, err := adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "compression.type", Value: &plain}}, ledger.Topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	dirs, err := adm.DescribeAllLogDirs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, broker := range dirs {
		for _, d := range broker {
			return d.Dir
		}
	}
	t.Fatal("the broker has no directory")
	return ""
}

// rewriteRecord alters one digit in what the record with this id holds, in the
// broker's own file, and mends the checksum of its batch. The batch is as Kafka's
// protocol documents it, version 2.
func rewriteRecord(data, id string) (topicRecord, error) {
	files, err := filepath.Glob(filepath.Join(data, ledger.Topic+"-*", "*.log"))
	if err != nil {
		return topicRecord{}, err
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return topicRecord{}, err
		}
		const toRecords, toAttributes, crcAt = 61, 21, 17
		for rest := b; len(rest) > toRecords; {
			n := 12 + int(binary.BigEndian.Uint32(rest[8:]))
			if n > len(rest) || n < toRecords {
				break
			}
			batch := rest[:n]
			rest = rest[n:]
			if !bytes.Contains(batch, []byte(id)) {
				continue
			}
			if c := batch[toAttributes+1] & 7; c != 0 {
				return topicRecord{}, fmt.Errorf("%s: the batch is compressed (%d)", file, c)
			}
			delta, err := alterIn(batch[toRecords:], id)
			if err != nil {
				return topicRecord{}, fmt.Errorf("%s: %w", file, err)
			}
			binary.BigEndian.PutUint32(batch[crcAt:], crc32.Checksum(batch[toAttributes:], crc32.MakeTable(crc32.Castagnoli)))
			_, p, _ := strings.Cut(filepath.Base(filepath.Dir(file)), ledger.Topic+"-")
			partition, err := strconv.ParseInt(p, 10, 32)
			at := topicRecord{int32(partition), int64(binary.BigEndian.Uint64(batch)) + delta}
			return at, errors.Join(err, os.WriteFile(file, b, 0o644))
		}
	}
	return topicRecord{}, fmt.Errorf("no record %s in %d files", id, len(files))
}

// alterIn finds the record in a batch and alters it in place; it gives the
// record's offset in the batch.
func alterIn(records []byte, id string) (int64, error) {
	for len(records) > 0 {
		length, n := binary.Varint(records)
		if n <= 0 || length <= 0 || int(length) > len(records)-n {
			return 0, errors.New("the batch cannot be read")
		}
		r := records[n : n+int(length)]
		records = records[n+int(length):]
		if !bytes.Contains(r, []byte(id)) {
			continue
		}
		next := func() int64 {
			v, n := binary.Varint(r)
			r = r[max(n, 0):]
			return v
		}
		r = r[1:] // attributes
		next()    // time
		delta := next()
		r = r[next():] // key
		size := next()
		return delta, alterDigit(r[:size])
	}
	return 0, errors.New("the record is not in its batch")
}

// alterDigit makes another digit of one in a signed figure: the envelope and the
// statement in it stay well formed.
func alterDigit(envelope []byte) error {
	const opening = `"payload":"`
	from := bytes.Index(envelope, []byte(opening)) + len(opening)
	to := from + bytes.IndexByte(envelope[from:], '"')
	payload, err := base64.StdEncoding.DecodeString(string(envelope[from:to]))
	if err != nil {
		return err
	}
	for i := bytes.Index(payload, []byte(`"value":`)); i > 0 && i < len(payload); i++ {
		// Here the digit is one character of the base64, and one byte of the file.
		if c := payload[i]; i%3 == 2 && c >= '0' && c <= '9' && payload[i-1] != ':' {
			payload[i] ^= 1
			copy(envelope[from:to], base64.StdEncoding.EncodeToString(payload))
			return nil
		}
	}
	return errors.New("no digit to alter")
}

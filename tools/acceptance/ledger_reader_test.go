package acceptance

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// The independent reader. It knows the log from the documents only: tiles and
// checkpoints from C2SP, entries from docs/formats/log.md, envelopes from DSSE.
// It uses nothing of ours and nothing of what wrote the log; the tree is x/mod's.

// readEntry is one entry of the log.
type readEntry struct {
	index     int64
	topic     string
	partition int32
	offset    int64
	id        string
	envelope  []byte
}

// readLog is what there is to know of a log.
type readLog struct {
	size      int64
	witnessed bool
	statement int // entries that are statements of runs
	keys      int // entries that are statements about keys
}

// independently reads a whole log over HTTP: its checkpoint must be signed by log
// and witness, the entries must lead to its root, and each entry must be signed
// by a key that the log has from the authority. Each entry is given to see.
func independently(t *testing.T, o *office, see func(readEntry)) readLog {
	t.Helper()
	size, root, err := openCheckpoint(o.url, o.logKey, o.witKey)
	if err != nil {
		t.Fatal(err)
	}
	out := readLog{size: size, witnessed: true}
	pub, err := authorityKey(o.trust)
	if err != nil {
		t.Fatal(err)
	}
	c := newSignatures(pub)
	var hashes memoryHashes
	for first := int64(0); first < size; first += 256 {
		list, err := readBundle(o.url, first, min(256, size-first))
		if err != nil {
			t.Fatal(err)
		}
		for i, raw := range list {
			index := first + int64(i)
			more, err := tlog.StoredHashesForRecordHash(index, tlog.RecordHash(raw), hashes)
			if err != nil {
				t.Fatal(err)
			}
			hashes = append(hashes, more...)
			e, err := parseEntry(index, raw)
			if err != nil {
				t.Fatalf("entry %d: %v", index, err)
			}
			isKey, err := c.take(e)
			if err != nil {
				t.Fatalf("entry %d (%s): %v", index, e.id, err)
			}
			if isKey {
				out.keys++
			} else {
				out.statement++
			}
			see(e)
		}
	}
	if err := c.wait(); err != nil {
		t.Fatal(err)
	}
	if size > 0 {
		got, err := tlog.TreeHash(size, hashes)
		if err != nil {
			t.Fatal(err)
		}
		if got != root {
			t.Fatalf("the %d entries have the root %s, the checkpoint says %s", size, got, root)
		}
	}
	return out
}

type memoryHashes []tlog.Hash

func (m memoryHashes) ReadHashes(at []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(at))
	for i, x := range at {
		if x >= int64(len(m)) {
			return nil, fmt.Errorf("no hash %d of %d", x, len(m))
		}
		out[i] = m[x]
	}
	return out, nil
}

// openCheckpoint reads size and root, and checks both signatures.
func openCheckpoint(url, logKey, witKey string) (int64, tlog.Hash, error) {
	fail := func(err error) (int64, tlog.Hash, error) {
		return 0, tlog.Hash{}, fmt.Errorf("checkpoint: %w", err)
	}
	raw, err := get(url + "/checkpoint")
	if err != nil {
		return fail(err)
	}
	v, err := note.NewVerifier(logKey)
	if err != nil {
		return fail(err)
	}
	n, err := note.Open(raw, note.VerifierList(v))
	if err != nil {
		return fail(err)
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) != 4 || lines[0] != origin {
		return fail(fmt.Errorf("%q", n.Text))
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return fail(err)
	}
	b, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(b) != tlog.HashSize {
		return fail(fmt.Errorf("root %q: %v", lines[2], err))
	}
	for _, s := range n.UnverifiedSigs {
		if err = cosigned(witKey, s, n.Text); err == nil {
			return size, tlog.Hash(b), nil
		}
	}
	return fail(fmt.Errorf("no witness signed it: %v", err))
}

// cosigned checks a signature of kind cosignature/v1.
func cosigned(vkey string, s note.Signature, text string) error {
	f := strings.SplitN(vkey, "+", 3)
	if len(f) != 3 || f[0] != s.Name {
		return fmt.Errorf("signed by %q", s.Name)
	}
	key, err1 := base64.StdEncoding.DecodeString(f[2])
	sig, err2 := base64.StdEncoding.DecodeString(s.Base64)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if len(key) != 33 || key[0] != 4 || len(sig) != 4+8+64 {
		return fmt.Errorf("a key of %d bytes, a signature of %d", len(key), len(sig))
	}
	at := binary.BigEndian.Uint64(sig[4:])
	if !ed25519.Verify(key[1:], fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, text), sig[12:]) {
		return errors.New("the cosignature is not good")
	}
	return nil
}

// readBundle reads the entries of one bundle, of which the checkpoint covers n.
func readBundle(url string, first, n int64) ([][]byte, error) {
	index := first / 256
	name := fmt.Sprintf("%03d", index%1000)
	for index >= 1000 {
		index /= 1000
		name = fmt.Sprintf("x%03d/%s", index%1000, name)
	}
	if n < 256 {
		name += ".p/" + strconv.FormatInt(n, 10)
	}
	b, err := get(url + "/tile/entries/" + name)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", name, err)
	}
	var out [][]byte
	for len(b) > 0 {
		if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
			return nil, fmt.Errorf("bundle %s is cut off", name)
		}
		end := 2 + int(binary.BigEndian.Uint16(b))
		out, b = append(out, b[2:end]), b[end:]
	}
	if int64(len(out)) != n {
		return nil, fmt.Errorf("bundle %s has %d entries, want %d", name, len(out), n)
	}
	return out, nil
}

func parseEntry(index int64, raw []byte) (readEntry, error) {
	head, envelope, ok := strings.Cut(string(raw), "\n")
	f := strings.Split(head, " ")
	if !ok || len(f) != 6 || f[0] != "assay/entry/v1" || len(f[5]) != 26 {
		return readEntry{}, fmt.Errorf("its head is %q", head)
	}
	partition, err1 := strconv.ParseInt(f[2], 10, 32)
	offset, err2 := strconv.ParseInt(f[3], 10, 64)
	_, err3 := strconv.ParseInt(f[4], 10, 64)
	return readEntry{index, f[1], int32(partition), offset, f[5], []byte(envelope)}, errors.Join(err1, err2, err3)
}

// statementOf is what the reader looks at in a statement.
type statementOf struct {
	PredicateType string `json:"predicateType"`
	Predicate     struct {
		ID        string `json:"id"`
		PublicKey string `json:"public_key"`
	} `json:"predicate"`
}

// openEnvelope takes a DSSE envelope apart.
func openEnvelope(raw []byte) (keyID string, signed, sig []byte, s statementOf, err error) {
	var e struct {
		PayloadType, Payload string
		Signatures           []struct{ KeyID, Sig string }
	}
	if err = json.Unmarshal(raw, &e); err != nil {
		return
	}
	if len(e.Signatures) != 1 {
		err = fmt.Errorf("%d signatures", len(e.Signatures))
		return
	}
	payload, err1 := base64.StdEncoding.DecodeString(e.Payload)
	sig, err2 := base64.StdEncoding.DecodeString(e.Signatures[0].Sig)
	if err = errors.Join(err1, err2); err != nil {
		return
	}
	err = json.Unmarshal(payload, &s)
	signed = fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(payload), payload)
	return e.Signatures[0].KeyID, signed, sig, s, err
}

// signatures checks the signature of each entry, on all cores.
type signatures struct {
	keys      map[string]ed25519.PublicKey
	authority string
	work      chan func() error
	wg        sync.WaitGroup
	mu        sync.Mutex
	err       error
}

func newSignatures(authority ed25519.PublicKey) *signatures {
	c := &signatures{authority: nameOfKey(authority), work: make(chan func() error, 1024)}
	c.keys = map[string]ed25519.PublicKey{c.authority: authority}
	for range runtime.NumCPU() {
		c.wg.Go(func() {
			for do := range c.work {
				if err := do(); err != nil {
					c.mu.Lock()
					c.err = err
					c.mu.Unlock()
				}
			}
		})
	}
	return c
}

// take checks an entry. A statement about a key counts from here on, when the
// authority signed it.
func (c *signatures) take(e readEntry) (isKey bool, err error) {
	keyID, signed, sig, s, err := openEnvelope(e.envelope)
	if err != nil {
		return false, err
	}
	if s.Predicate.ID != e.id {
		return false, fmt.Errorf("its statement has the id %q", s.Predicate.ID)
	}
	pub, ok := c.keys[keyID]
	if !ok {
		return false, fmt.Errorf("signed by %s, of whom the log says nothing before", keyID)
	}
	if strings.HasSuffix(s.PredicateType, "/key/v1") {
		of, err := base64.StdEncoding.DecodeString(s.Predicate.PublicKey)
		if err != nil || len(of) != ed25519.PublicKeySize || keyID != c.authority || !ed25519.Verify(pub, signed, sig) {
			return true, fmt.Errorf("a key that is not the authority's to state: %v", err)
		}
		c.keys[nameOfKey(of)] = of
		return true, nil
	}
	c.work <- func() error {
		if !ed25519.Verify(pub, signed, sig) {
			return fmt.Errorf("entry %d (%s): its signature is not good", e.index, e.id)
		}
		return nil
	}
	return false, nil
}

func (c *signatures) wait() error {
	close(c.work)
	c.wg.Wait()
	return c.err
}

func nameOfKey(pub ed25519.PublicKey) string {
	sum := sha256.Sum256(pub)
	return hex.EncodeToString(sum[:])
}

func authorityKey(path string) (ed25519.PublicKey, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	_, signed, sig, s, err := openEnvelope(raw)
	if err != nil {
		return nil, err
	}
	pub, err := base64.StdEncoding.DecodeString(s.Predicate.PublicKey)
	if err != nil || len(pub) != ed25519.PublicKeySize || !ed25519.Verify(pub, signed, sig) {
		return nil, fmt.Errorf("%s is not a self-signed key: %v", path, err)
	}
	return pub, nil
}

package ledger

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
)

func verifyText(t testing.TB, v Verification) string {
	t.Helper()
	var b bytes.Buffer
	if err := v.Text(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestVerifyAnswersInWords(t *testing.T) {
	v := newProvedRun(t).verify(t)
	if v.Verdict != assay.Pass || len(v.Problems) > 0 || v.Err() != nil {
		t.Fatalf("%v: %v", v.Verdict, v.Problems)
	}
	if v.Since == nil || v.Since.By != "witness" || !v.Since.Time.Equal(runNow.Add(61*time.Minute)) {
		t.Errorf("since = %+v", v.Since)
	}
	text := verifyText(t, v)
	for _, want := range []string{
		"verdict     pass: as Ada Example signed it, and unaltered since\n", "signed by   Ada Example", "index 3 of 6", "index 4 of 6", "seen by witness one at 2026-11-15T13:01:00Z",
		"all 10 follow from the evidence", "unaltered   since 2026-11-15T13:01:00Z at the latest, by the word of witness one",
		"this does not prove", "that the GPU was real: assay verify", "one that the log's own operator runs proves little",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// What somebody might do to a run, and what he is told.
func TestVerifyFindsOut(t *testing.T) {
	authority, other := runSigner(9), runSigner(2)
	revoke := func(t *testing.T, s *provedRun, from time.Time) {
		r, err := StateRevocation(context.Background(), s.key, runSigner(1), from, "stolen", RevocationOptions{Now: from})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.opts.Keys.Add(r.Envelope, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	unreceipted := func(t *testing.T, s *provedRun) {
		s.opts.NeedReceipt = false
		for _, n := range []string{TestResultReceipt, BenchmarkReceiptFile} {
			if err := os.Remove(filepath.Join(s.dir, n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	swap := func(t *testing.T, s *provedRun, a, b string) {
		x, y := s.get(t, a), s.get(t, b)
		s.put(t, a, y)
		s.put(t, b, x)
	}
	// resign puts statements by another signer beside the run.
	resign := func(t *testing.T, s *provedRun, signer Signer, key Key) {
		if _, err := SignRun(context.Background(), s.dir, signer, key, SignOptions{Now: runNow, Replace: true}); err != nil {
			t.Fatal(err)
		}
		s.opts.NeedReceipt = false
	}
	for _, c := range []struct {
		name    string
		do      func(*testing.T, *provedRun)
		verdict assay.Verdict
		want    string
	}{
		{"nothing", func(*testing.T, *provedRun) {}, assay.Pass, ""},
		{"no receipts, none asked for", unreceipted, assay.Pass, "in no log"},
		{"no receipts", func(t *testing.T, s *provedRun) { unreceipted(t, s); s.opts.NeedReceipt = true }, assay.Unknown, "is in no log"},
		{"receipts and no policy", func(_ *testing.T, s *provedRun) { s.opts.Policy = nil; s.opts.NeedReceipt = false }, assay.Pass, "was not judged: no policy says which logs"},
		{"receipts asked for and no policy", func(_ *testing.T, s *provedRun) { s.opts.Policy = nil }, assay.Unknown, "give one with --trust"},
		{"nobody trusted", func(_ *testing.T, s *provedRun) { s.opts.Keys = nil }, assay.Unknown, "no trusted statement says whose key"},
		{"the key is not beside the run", func(t *testing.T, s *provedRun) {
			s.opts.Keys = nil
			_ = os.Remove(filepath.Join(s.dir, KeyFile))
		}, assay.Unknown, "nobody here vouches"},
		{"the auditor's nonce", func(_ *testing.T, s *provedRun) { s.opts.Nonce = runNonce }, assay.Pass, runNonce},
		{"another nonce", func(_ *testing.T, s *provedRun) { s.opts.Nonce = strings.Repeat("ab", 16) }, assay.Fail, "that was asked for"},
		{"an altered file", func(t *testing.T, s *provedRun) { s.put(t, journal.RequestsFile, []byte("{}\n")) }, assay.Fail, "requests.jsonl was altered after it was signed"},
		{"a missing file", func(t *testing.T, s *provedRun) { _ = os.Remove(filepath.Join(s.dir, journal.SummaryFile)) }, assay.Fail, "summary.json was signed and is missing"},
		{"a link in a file's place", func(t *testing.T, s *provedRun) {
			p := filepath.Join(s.dir, journal.EventsFile)
			if err := os.Rename(p, p+".away"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(journal.EventsFile+".away", p); err != nil {
				t.Fatal(err)
			}
		}, assay.Fail, "not a regular file"},
		{"a file that is no part of the run", func(t *testing.T, s *provedRun) { s.put(t, "report.html", nil) }, assay.Pass, `no part of the run and not signed: ["report.html"]`},
		{"one statement missing", func(t *testing.T, s *provedRun) { _ = os.Remove(filepath.Join(s.dir, BenchmarkFile)) }, assay.Unknown, "one of"},
		{"not signed", func(t *testing.T, s *provedRun) {
			for _, n := range proofFiles {
				_ = os.Remove(filepath.Join(s.dir, n))
			}
		}, assay.Unknown, "the run is not signed"},
		{"the statements swapped", func(t *testing.T, s *provedRun) { swap(t, s, TestResultFile, BenchmarkFile) }, assay.Fail, "was it swapped"},
		{"the receipts swapped", func(t *testing.T, s *provedRun) { swap(t, s, TestResultReceipt, BenchmarkReceiptFile) }, assay.Fail, ErrOtherReceipt.Error()},
		{"a statement of another run", func(t *testing.T, s *provedRun) {
			o := runDirectory(t, "01K74T0AB00000000000000001", "node-1", strings.Repeat("cd", 16))
			if _, err := SignRun(context.Background(), o, runSigner(1), s.key, SignOptions{Now: runNow}); err != nil {
				t.Fatal(err)
			}
			for _, n := range []string{TestResultFile, BenchmarkFile} {
				b, err := os.ReadFile(filepath.Join(o, n))
				if err != nil {
					t.Fatal(err)
				}
				s.put(t, n, b)
			}
		}, assay.Fail, `it was taken from another run`},
		{"one statement of another run", func(t *testing.T, s *provedRun) {
			o := runDirectory(t, "01K74T0AB00000000000000001", "node-1", strings.Repeat("cd", 16))
			if _, err := SignRun(context.Background(), o, runSigner(1), s.key, SignOptions{Now: runNow}); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(o, TestResultFile))
			if err != nil {
				t.Fatal(err)
			}
			s.put(t, TestResultFile, b)
		}, assay.Fail, "of different runs"},
		{"both statements of another run of the same nonce", func(t *testing.T, s *provedRun) {
			s.borrow(t, "01K74T0AB00000000000000001", "node-1", runNonce, TestResultFile, BenchmarkFile)
		}, assay.Fail, `it is about run "01K74T0AB00000000000000001"`},
		{"both statements of another nonce", func(t *testing.T, s *provedRun) {
			s.borrow(t, "01K74T0AB00000000000000000", "node-1", strings.Repeat("cd", 16), TestResultFile, BenchmarkFile)
		}, assay.Fail, `has the nonce "cdcd`},
		{"both statements of another node", func(t *testing.T, s *provedRun) {
			s.borrow(t, "01K74T0AB00000000000000000", "node-2", runNonce, TestResultFile, BenchmarkFile)
		}, assay.Fail, `is of node "node-2", and the run of node "node-1"`},
		{"one statement of another node", func(t *testing.T, s *provedRun) {
			s.borrow(t, "01K74T0AB00000000000000000", "node-2", runNonce, BenchmarkFile)
		}, assay.Fail, "of different nodes"},
		{"one statement about other files", func(t *testing.T, s *provedRun) {
			s.borrow(t, "01K74T0AB00000000000000001", "node-1", runNonce, BenchmarkFile)
		}, assay.Fail, "about different files"},
		{"another node's key", func(t *testing.T, s *provedRun) {
			resign(t, s, other, runKey(t, other, other, "node-1"))
			s.opts.Keys = NewKeyring(runKey(t, other, other, "node-2"))
		}, assay.Fail, ErrOtherNode.Error()},
		{"a stranger's key", func(t *testing.T, s *provedRun) { resign(t, s, other, runKey(t, other, other, "node-1")) }, assay.Unknown, "no trusted statement says whose key"},
		{"the key's statement is another's", func(t *testing.T, s *provedRun) { s.put(t, KeyFile, runKey(t, other, other, "node-1").Envelope) }, assay.Fail, "is about another key"},
		{"certified by an authority", func(t *testing.T, s *provedRun) {
			resign(t, s, other, runKey(t, other, authority, "node-1"))
			s.opts.Keys = NewKeyring(runKey(t, authority, authority, "office", RoleAuthority))
		}, assay.Pass, "authority: Ada Example"},
		{"certified by an authority that nobody trusts", func(t *testing.T, s *provedRun) {
			resign(t, s, other, runKey(t, other, authority, "node-1"))
		}, assay.Unknown, "nobody here vouches for the key"},
		{"an expired key", func(t *testing.T, s *provedRun) {
			k, err := StateKey(context.Background(), runSigner(1).Public(), runSigner(1), KeyOptions{Node: "node-1", Owner: "Ada", Now: runNow.AddDate(0, -2, 0), NotAfter: runNow.AddDate(0, 0, -1)})
			if err != nil {
				t.Fatal(err)
			}
			s.opts.Keys = NewKeyring(k)
		}, assay.Fail, ErrKeyExpired.Error()},
		{"a key that expired before the log had it", func(t *testing.T, s *provedRun) {
			k, err := StateKey(context.Background(), runSigner(1).Public(), runSigner(1), KeyOptions{Node: "node-1", Owner: "Ada", Now: runNow.AddDate(0, -2, 0), NotAfter: runNow})
			if err != nil {
				t.Fatal(err)
			}
			s.opts.Keys = NewKeyring(k)
		}, assay.Fail, "it came too late"},
		{"a revoked key", func(t *testing.T, s *provedRun) { revoke(t, s, runNow) }, assay.Fail, ErrKeyRevoked.Error()},
		{"revoked after it was logged", func(t *testing.T, s *provedRun) { revoke(t, s, runNow.Add(time.Minute)) }, assay.Pass, "1 revocations were given"},
		{"revoked later, and in no log", func(t *testing.T, s *provedRun) { unreceipted(t, s); revoke(t, s, runNow.Add(time.Minute)) }, assay.Fail, "without a receipt only the signer says"},
		{"a statement from the future", func(_ *testing.T, s *provedRun) { s.opts.Now = runNow.Add(-time.Hour) }, assay.Unknown, "one of the clocks is wrong"},
		{"a smaller log, which is as good", func(t *testing.T, s *provedRun) { s.receipts(t, 5, s.log.checkpoint(t, 5, 1, 2)) }, assay.Pass, "index 4 of 5"},
		{"a log that forked", func(t *testing.T, s *provedRun) {
			fork := &runLog{}
			for range 6 {
				fork.add([]byte("other"))
			}
			s.receipts(t, 6, fork.checkpoint(t, 6, 1, 2))
		}, assay.Fail, ErrNotInTheLog.Error()},
		{"a checkpoint of another log", func(t *testing.T, s *provedRun) {
			p, err := ParsePolicy([]byte("log " + NoteVerifierKey("other", runSigner(7).Public()) + "\nquorum none\n"))
			if err != nil {
				t.Fatal(err)
			}
			s.opts.Policy = &p
		}, assay.Unknown, ErrUnknownSigner.Error()},
		{"one witness too few", func(t *testing.T, s *provedRun) { s.receipts(t, 6, s.log.checkpoint(t, 6, 2)) }, assay.Fail, "1 of the 2 that are asked for"},
		{"figures that do not follow", func(_ *testing.T, s *provedRun) {
			s.opts.Recompute = func(dir string) (assay.Summary, assay.Health, error) {
				sum, h, err := runRecompute(dir)
				sum.Stages[0].TTFT.Percentiles[1].Value *= 1.00001
				return sum, h, err
			}
		}, assay.Fail, "1 stream ttft_ms p99 is signed as 12.5 of 2 and found as 12.500125"},
		{"figures by another version", func(_ *testing.T, s *provedRun) {
			s.opts.Version = "9.9"
			s.opts.Recompute = func(dir string) (assay.Summary, assay.Health, error) {
				sum, h, err := runRecompute(dir)
				sum.Client.Certificate = assay.Invalid
				return sum, h, err
			}
		}, assay.Unknown, "verify it with that one"},
		{"figures that nobody made again", func(_ *testing.T, s *provedRun) { s.opts.Recompute = nil }, assay.Pass, "nobody asked for it"},
		{"names that would steer a terminal", func(t *testing.T, s *provedRun) { s.put(t, "\x1b[2J\nverdict pass", nil) }, assay.Pass, `\x1b[2J\nverdict pass`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newProvedRun(t)
			c.do(t, &s)
			v := s.verify(t)
			text := verifyText(t, v)
			if v.Verdict != c.verdict || !strings.Contains(text, c.want) {
				t.Errorf("want %s with %q; got\n%s", c.verdict, c.want, text)
			}
			if (v.Err() == nil) != (c.verdict == assay.Pass) {
				t.Errorf("Err() = %v", v.Err())
			}
			verifySchema(t, v)
		})
	}
}

// receipts makes them anew for a checkpoint.
func (s provedRun) receipts(t testing.TB, size int, checkpoint []byte) {
	t.Helper()
	for i, name := range []string{TestResultReceipt, BenchmarkReceiptFile} {
		e := Entry{Position: Position{Topic, 0, int64(i)}, Time: runNow.Add(time.Second), ID: []ulid.ULID{runID(1), runID(2)}[i]}
		s.put(t, name, s.log.receipt(t, e, uint64(3+i), size, checkpoint).Encode())
	}
}

// borrow puts statements of another run, by the same key, beside this one.
func (s *provedRun) borrow(t *testing.T, id, node, nonce string, files ...string) {
	t.Helper()
	dir, signer := runDirectory(t, id, node, nonce), runSigner(1)
	key := runKey(t, signer, signer, node, RoleAuthority)
	if _, err := SignRun(context.Background(), dir, signer, key, SignOptions{Now: runNow, IDs: [2]ulid.ULID{runID(1), runID(2)}}); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		s.put(t, f, provedRun{dir: dir}.get(t, f))
	}
	s.opts.Keys = NewKeyring(key)
}

// A name in a subject is opened only if it is one of a run's.
func TestVerifyTakesNoOtherNames(t *testing.T) {
	for _, name := range []string{"../run.json", "/etc/passwd", "key.dsse.json", "a/../run.json", "run.json\x00"} {
		err := runLayout.check([]ResourceDescriptor{{Name: name, Digest: map[string]string{"sha256": strings.Repeat("0", 64)}}})
		if err == nil {
			t.Errorf("%q was taken", name)
		}
	}
}

func TestVerifyTakesOneDigest(t *testing.T) {
	sum := strings.Repeat("0", 64)
	good := []ResourceDescriptor{{Name: journal.RunFile, Digest: map[string]string{"sha256": sum}}, {Name: configSubject, Digest: map[string]string{"sha256": sum}}}
	if err := runLayout.check(good); err != nil {
		t.Error(err)
	}
	if runLayout.check(good[:1]) == nil || runLayout.check(append(good, good[0])) == nil {
		t.Error("one too few or one too many was taken")
	}
	good[0].Digest["md5"] = "0"
	if runLayout.check(good) == nil {
		t.Error("two digests were taken")
	}
}

func TestVerifyOfNothing(t *testing.T) {
	if _, err := VerifyRun(filepath.Join(t.TempDir(), "no"), VerifyOptions{}); err == nil {
		t.Error("no directory: no error")
	}
	if _, err := VerifyRun(t.TempDir(), VerifyOptions{}); err == nil || !strings.Contains(err.Error(), "not a run directory") {
		t.Errorf("empty directory: %v", err)
	}
}

// A complete run that nobody has signed is complete, and not partial for that.
func TestUnsignedRunKeepsItsStatus(t *testing.T) {
	dir := runDirectory(t, "01K74T0AB00000000000000000", "node-1", runNonce)
	v, err := VerifyRun(dir, VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if v.Verdict != assay.Unknown || v.Run == nil || v.Run.Status != assay.StatusComplete {
		t.Errorf("%s: %+v", v.Verdict, v.Run)
	}
}

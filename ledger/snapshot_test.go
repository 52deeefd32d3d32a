package ledger

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// keyLog is a log that holds a run's key statement and, later, the revocation of
// the authority that made it.
type keyLog struct {
	runLog
	authority       Signer
	authorityKey    Key
	node            Signer
	nodeKey         Key
	revocation      Revocation
	entries         []Entry
	revokedFrom     time.Time
	keyAt, revokeAt time.Time
}

func newKeyLog(t *testing.T) *keyLog {
	t.Helper()
	l := &keyLog{authority: runSigner(9), node: runSigner(1), revokedFrom: runNow.Add(-time.Hour), keyAt: runNow.Add(-48 * time.Hour), revokeAt: runNow}
	l.authorityKey = runKey(t, l.authority, l.authority, "office", RoleAuthority)
	l.nodeKey = runKey(t, l.node, l.authority, "node-1", RoleRun)
	var err error
	if l.revocation, err = StateRevocation(context.Background(), l.authorityKey, l.authority, l.revokedFrom, "stolen", RevocationOptions{Now: l.revokeAt}); err != nil {
		t.Fatal(err)
	}
	for i, e := range []Entry{
		{Time: l.keyAt.Add(-time.Minute), ID: runID(50), Envelope: []byte("a run's\n")},
		{Time: l.keyAt, ID: l.nodeKey.Stamp.ID, Envelope: l.nodeKey.Envelope},
		{Time: l.keyAt, ID: runID(51), Envelope: []byte("another run's\n")},
		{Time: l.revokeAt, ID: l.revocation.Stamp.ID, Envelope: l.revocation.Envelope},
	} {
		e.Position = Position{Topic: Topic, Offset: int64(i)}
		l.add(e.Encode())
		l.entries = append(l.entries, e)
	}
	return l
}

// snapshot is what the log says about keys; only names those entries that are in it.
func (l *keyLog) snapshot(t *testing.T, only ...int) *Snapshot {
	t.Helper()
	size := len(l.entries)
	cp := l.checkpoint(t, size, 1, 2)
	c, err := runPolicy(t).Open(cp)
	if err != nil {
		t.Fatal(err)
	}
	s := &Snapshot{Checkpoint: cp, Origin: c.Origin, Size: c.Size, Root: c.Root, Time: runNow.Add(time.Hour)}
	for _, i := range only {
		r := l.receipt(t, l.entries[i], uint64(i), size, nil)
		r.Envelope = l.entries[i].Envelope
		s.Statements = append(s.Statements, r)
	}
	return s
}

func TestSnapshot(t *testing.T) {
	l := newKeyLog(t)
	for _, signed := range []bool{false, true} {
		s := l.snapshot(t, 1, 3)
		if signed {
			if err := s.Sign(t.Context(), runSigner('L')); err != nil {
				t.Fatal(err)
			}
		}
		raw := s.Encode()
		if !IsSnapshot(raw) {
			t.Errorf("begins %.40q", raw)
		}
		back, err := ReadSnapshot(raw)
		if err != nil {
			t.Fatal(err)
		}
		v, err := runPolicy(t).VerifySnapshot(back)
		if err != nil {
			t.Fatal(err)
		}
		if v.Complete != signed || v.By != "witness" || !v.AsOf.Equal(runNow.Add(61*time.Minute)) || len(v.Statements) != 2 || !v.Statements[0].Time.Equal(l.keyAt) {
			t.Errorf("signed %v: %+v", signed, v)
		}
		// No byte can be changed.
		for i := 0; i < len(raw); i += 7 {
			raw[i] ^= 1
			if s, err := ReadSnapshot(raw); err == nil {
				if _, err := runPolicy(t).VerifySnapshot(s); err == nil {
					// The time of an unsigned one is the collector's own word.
					if signed || !strings.Contains(string(raw[max(0, i-20):min(len(raw), i+20)]), "2026-11") && s.Time.Equal(back.Time) {
						t.Errorf("signed %v: byte %d was changed unnoticed", signed, i)
					}
				}
			}
			raw[i] ^= 1
		}
	}
}

func TestSnapshotAttacks(t *testing.T) {
	l := newKeyLog(t)
	signed := func(s *Snapshot, by Signer) *Snapshot {
		if err := s.Sign(context.Background(), by); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, tt := range []struct {
		name string
		make func() *Snapshot
		want error
	}{
		{"a revocation left out of what the log signed", func() *Snapshot {
			s := signed(l.snapshot(t, 1, 3), runSigner('L'))
			s.Statements = s.Statements[:1]
			return s
		}, ErrCheckpointSignature},
		{"signed by a stranger", func() *Snapshot { return signed(l.snapshot(t, 1), runSigner('X')) }, ErrSnapshot},
		{"signed by a witness", func() *Snapshot { return signed(l.snapshot(t, 1), runSigner('W'+1)) }, ErrSnapshot},
		{"an earlier time in the log", func() *Snapshot {
			s := l.snapshot(t, 1, 3)
			s.Statements[0].Time = s.Statements[0].Time.Add(-time.Hour)
			return s
		}, ErrNotInTheLog},
		{"a statement that is not in the log", func() *Snapshot {
			s := l.snapshot(t, 1)
			s.Statements[0].Envelope = l.revocation.Envelope
			return s
		}, ErrNotInTheLog},
		{"one of them twice", func() *Snapshot { return l.snapshot(t, 1, 1) }, ErrSnapshot},
		{"another size", func() *Snapshot { s := l.snapshot(t, 1); s.Size--; return s }, ErrSnapshot},
		{"too few witnesses", func() *Snapshot { s := l.snapshot(t, 1); s.Checkpoint = l.checkpoint(t, 4, 1); return s }, ErrQuorum},
		{"nothing wrong", func() *Snapshot { return signed(l.snapshot(t, 1, 3), runSigner('L')) }, nil},
	} {
		s, err := ReadSnapshot(tt.make().Encode())
		if err == nil {
			_, err = runPolicy(t).VerifySnapshot(s)
		}
		if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// TestRevokedAuthorityOfARun: what was certified before the authority was revoked
// stays good, where the log's time of the key's statement is known.
func TestRevokedAuthorityOfARun(t *testing.T) {
	l := newKeyLog(t)
	for _, tt := range []struct {
		name              string
		snapshot, receipt bool
		want              assay.Verdict
	}{
		{"nothing shows when", false, false, assay.Fail},
		{"by a snapshot", true, false, assay.Pass},
		{"by the key's receipt", false, true, assay.Pass},
		{"by both", true, true, assay.Pass},
	} {
		dir := runDirectory(t, "a", "node-1", runNonce)
		if _, err := SignRun(t.Context(), dir, l.node, l.nodeKey, SignOptions{Now: runNow}); err != nil {
			t.Fatal(err)
		}
		o := VerifyOptions{Keys: NewKeyring(l.authorityKey), Policy: runPolicy(t), Recompute: runRecompute, Now: runNow.Add(2 * time.Hour)}
		if tt.snapshot {
			v, err := runPolicy(t).VerifySnapshot(l.snapshot(t, 1, 3))
			if err != nil {
				t.Fatal(err)
			}
			o.Snapshots = append(o.Snapshots, v)
			if err := o.Keys.AddAll(v.Statements...); err != nil {
				t.Fatal(err)
			}
		} else if err := o.Keys.Add(l.revocation.Envelope, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if tt.receipt {
			r := l.receipt(t, l.entries[1], 1, 4, l.checkpoint(t, 4, 1, 2))
			if err := os.WriteFile(filepath.Join(dir, KeyReceipt), r.Encode(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		v, err := VerifyRun(dir, o)
		if err != nil || v.Verdict != tt.want {
			t.Errorf("%s: %v, %v, %v", tt.name, v.Verdict, v.Problems, err)
		}
		if text := verifyText(t, v); tt.snapshot && (!strings.Contains(text, "59m0s old") || !strings.Contains(text, "only who collected them knows")) {
			t.Errorf("%s: the age is not told:\n%s", tt.name, text)
		}
	}
}

func TestKeysAge(t *testing.T) {
	l := newKeyLog(t)
	known, err := runPolicy(t).VerifySnapshot(l.snapshot(t, 1, 3))
	if err != nil {
		t.Fatal(err)
	}
	collector := known
	collector.By = "collector"
	s := newProvedRun(t)
	for _, tt := range []struct {
		name  string
		given []VerifiedKeys
		now   time.Time
		most  time.Duration
		want  assay.Verdict
	}{
		{"any age", []VerifiedKeys{known}, runNow.AddDate(0, 0, 20), 0, assay.Pass},
		{"young enough", []VerifiedKeys{known}, runNow.Add(3 * time.Hour), 2 * time.Hour, assay.Pass},
		{"too old", []VerifiedKeys{known}, runNow.Add(4 * time.Hour), 2 * time.Hour, assay.Unknown},
		{"none was given", nil, runNow, time.Hour, assay.Unknown},
		{"the collector's own word", []VerifiedKeys{collector}, runNow.Add(2 * time.Hour), 2 * time.Hour, assay.Unknown},
		{"from the future", []VerifiedKeys{known}, runNow, 0, assay.Unknown},
	} {
		o := s.opts
		o.Snapshots, o.MaxKeysAge, o.Now = tt.given, tt.most, tt.now
		if v, err := VerifyRun(s.dir, o); err != nil || v.Verdict != tt.want {
			t.Errorf("%s: %v, %v, %v", tt.name, v.Verdict, v.Problems, err)
		}
	}
}

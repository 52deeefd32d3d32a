package witness

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/assay-bench/assay/internal/disk"
)

// maxEvidence bounds the files of one kind for one log. Forks have places of
// their own: anybody can send a good checkpoint with a bad proof, and must not
// be able to crowd out what convicts.
const maxEvidence = 64

// evidence is a file about two checkpoints of one log that do not fit together.
type evidence struct {
	Found    finding   `json:"found"`
	Time     time.Time `json:"time"`
	Origin   string    `json:"origin"`
	Cosigned string    `json:"cosigned"` // the note that this witness signed last
	Offered  string    `json:"offered"`  // the note that came, with the log's signature
	Old      uint64    `json:"old"`
	Proof    []string  `json:"proof"`
}

// found says what does not fit, and keeps both checkpoints. The same checkpoint
// is kept once.
func (w *Witness) found(l *log, f finding, r request, offered []byte) {
	w.mu.Lock()
	w.m.found[l.origin][f]++
	w.mu.Unlock()
	if f == shrunk {
		w.tell(l, string(f), slog.LevelWarn, "not signed: the log was rolled back, or somebody sends an old checkpoint again", "size", r.size, "cosigned", l.last.size)
		return
	}
	path, err := w.keep(l, f, r, offered)
	where := path
	if err != nil {
		where = "nowhere: " + err.Error()
	}
	switch f {
	case fork:
		w.tell(l, string(f), slog.LevelError, "not signed: FORK, the log's key signed two trees of one size", "size", r.size, "kept", where)
	case mismatch:
		w.tell(l, string(f), slog.LevelError, "not signed: the proof does not fit, the log has forked or the proof was bad", "old", r.old, "size", r.size, "kept", where)
	}
}

func (w *Witness) keep(l *log, f finding, r request, offered []byte) (string, error) {
	id := sha256.Sum256([]byte(r.note.Text))
	path := filepath.Join(l.dir, fmt.Sprintf("%s-%d-%x.json", f, r.size, id[:8]))
	if _, err := os.Lstat(path); err == nil {
		return path, nil
	}
	names, err := filepath.Glob(filepath.Join(l.dir, string(f)+"-*.json"))
	if err != nil {
		return "", err
	}
	if len(names) >= maxEvidence {
		return "", fmt.Errorf("%d such files are there already; take them away and read them", len(names))
	}
	e := evidence{f, w.o.Now().UTC(), l.origin, string(l.last.raw), string(offered), r.old, []string{}}
	for _, h := range r.proof {
		e.Proof = append(e.Proof, base64.StdEncoding.EncodeToString(h))
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return "", err
	}
	err = disk.Replace(path, 0o600, disk.Bytes(b.Bytes()))
	return path, err
}

// speech holds back what was just said: requests come from anybody, and the same
// old checkpoint sent a thousand times must not fill a journal.
type speech struct {
	next   time.Time
	missed int
}

const silence = time.Minute

// tell logs, for each kind of news about a log at most once a minute.
func (w *Witness) tell(l *log, kind string, level slog.Level, words string, args ...any) {
	s := l.said[kind]
	if s == nil {
		s = &speech{}
		l.said[kind] = s
	}
	now := time.Now()
	if now.Before(s.next) {
		s.missed++
		return
	}
	args = append([]any{"log", l.origin}, args...)
	if s.missed > 0 {
		args = append(args, "missed", s.missed) // times that it was not logged since
	}
	*s = speech{next: now.Add(silence)}
	w.o.Log.Log(context.Background(), level, words, args...)
}

package witness

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	if f == shrunk {
		w.say(l, string(f), "log %s: a signed checkpoint of size %d was offered, and size %d is cosigned: the log was rolled back, or somebody sends an old checkpoint again. Not signed", l.origin, r.size, l.last.size)
		return
	}
	path, err := w.keep(l, f, r, offered)
	where := path
	if err != nil {
		where = "nowhere: " + err.Error()
	}
	switch f {
	case fork:
		w.say(l, string(f), "FORK of log %s: its key signed two trees of size %d. Not signed. Both checkpoints are kept in %s", l.origin, r.size, where)
	case mismatch:
		w.say(l, string(f), "log %s: the proof from size %d to %d does not fit: the log has forked, or the proof was bad. Not signed. Both checkpoints are kept in %s", l.origin, r.old, r.size, where)
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

// say tells a person, for each kind of news about a log at most once a minute.
func (w *Witness) say(l *log, kind, format string, args ...any) {
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
	words := strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, fmt.Sprintf(format, args...))
	if s.missed > 0 {
		words += fmt.Sprintf(" (and %d times more since it was last said)", s.missed)
	}
	*s = speech{next: now.Add(silence)}
	w.o.Say(words)
}

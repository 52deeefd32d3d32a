package notary

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/transparency-dev/tessera/api/layout"

	"github.com/assay-bench/assay/internal/promtext"
	"github.com/assay-bench/assay/ledger/tlog"
)

// Handler serves the log and how the notary is. It serves what the published
// checkpoint covers and nothing else: what a crash left on the disk beyond it
// may be written over, and must not stay in anybody's cache.
func (n *Notary) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /checkpoint", n.serveCheckpoint)
	mux.HandleFunc("GET /tile/{level}/{index...}", n.serveTile)
	mux.HandleFunc("GET /lookup/{id}", n.serveLookup)
	mux.HandleFunc("GET /healthz", n.serveHealth)
	mux.HandleFunc("GET /metrics", n.serveMetrics)
	return mux
}

const (
	forever = "public, max-age=31536000, immutable"
	never   = "no-cache"
)

func answer(w http.ResponseWriter, code int, cache, kind string, body []byte) {
	h := w.Header()
	h.Set("Cache-Control", cache)
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	w.Write(body) //nolint:errcheck // the client is gone; there is nobody to tell
}

const text = "text/plain; charset=utf-8"

func words(w http.ResponseWriter, code int, format string, args ...any) {
	answer(w, code, "no-store", text, fmt.Appendf(nil, format+"\n", args...))
}

func (n *Notary) serveCheckpoint(w http.ResponseWriter, _ *http.Request) {
	switch raw, _, err := published(n.checkpointPath()); {
	case err != nil:
		words(w, http.StatusInternalServerError, "the checkpoint cannot be read")
	case raw == nil:
		words(w, http.StatusNotFound, "there is no checkpoint yet")
	default:
		answer(w, http.StatusOK, never, text, raw)
	}
}

func (n *Notary) serveTile(w http.ResponseWriter, r *http.Request) {
	_, size, err := published(n.checkpointPath())
	if err != nil {
		words(w, http.StatusInternalServerError, "the checkpoint cannot be read")
		return
	}
	path, ok := tilePath(r.PathValue("level"), r.PathValue("index"), size)
	if !ok {
		words(w, http.StatusNotFound, "no such tile under the checkpoint of size %d", size)
		return
	}
	body, err := readIn(n.logDir(), path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		words(w, http.StatusNotFound, "no such tile; a partial one is gone when the full one is there")
	case err != nil:
		words(w, http.StatusInternalServerError, "the tile cannot be read")
	default:
		answer(w, http.StatusOK, forever, "application/octet-stream", body)
	}
}

// tilePath makes the path anew from its numbers, and takes it only when it is
// the one that was asked for and a log of this size has the tile.
func tilePath(level, index string, size uint64) (string, bool) {
	at, partial, err := layout.ParseTileIndexPartial(index)
	if err != nil {
		return "", false
	}
	var path string
	var l uint64
	if level == "entries" {
		path = layout.EntriesPath(at, partial)
	} else {
		if l, err = layout.ParseTileLevel(level); err != nil || l > 7 {
			return "", false
		}
		path = layout.TilePath(l, at, partial)
	}
	if path != "tile/"+level+"/"+index {
		return "", false
	}
	nodes := size >> (layout.TileHeight * l)
	width := uint64(partial)
	if partial == 0 {
		width = layout.TileWidth
	}
	return path, at <= nodes/layout.TileWidth && at*layout.TileWidth+width <= nodes
}

func readIn(dir, path string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

func (n *Notary) serveLookup(w http.ResponseWriter, r *http.Request) {
	id, err := ulid.ParseStrict(r.PathValue("id"))
	if err != nil || id.String() != r.PathValue("id") {
		words(w, http.StatusBadRequest, "not a ULID")
		return
	}
	var key *[8]byte // nil: whoever signed it
	if k := r.URL.Query().Get("key"); k != "" {
		mark := tlog.KeyMark(k)
		if key = &mark; mark == [8]byte{} {
			words(w, http.StatusBadRequest, "not a key's id")
			return
		}
	}
	_, size, err := published(n.checkpointPath())
	if err != nil {
		words(w, http.StatusInternalServerError, "the checkpoint cannot be read")
		return
	}
	switch index, ok, err := n.ids.find(id, key); {
	case err != nil:
		words(w, http.StatusInternalServerError, "ids cannot be read")
	case !ok:
		words(w, http.StatusNotFound, "not in the log")
	case index >= size:
		words(w, http.StatusNotFound, "not under a checkpoint yet")
	default:
		answer(w, http.StatusOK, "no-store", "application/json", fmt.Appendf(nil, "{\"index\": %d}\n", index))
	}
}

// Trouble says why the notary does not keep up, nil when it does.
func (n *Notary) Trouble() error {
	now := n.o.Now()
	if err := n.m.trouble(now); err != nil {
		return err
	}
	_, size, err := published(n.checkpointPath())
	if err != nil {
		return fmt.Errorf("the checkpoint cannot be read: %w", err)
	}
	have, since := n.m.grew()
	if late := now.Sub(since); size < have && late > patience+n.o.CheckpointInterval {
		return fmt.Errorf("the checkpoint has %d entries, the log %d since %s: do the witnesses answer, and do they accept it?", size, have, since.UTC().Format(time.RFC3339))
	}
	return nil
}

func (n *Notary) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if err := n.Trouble(); err != nil {
		words(w, http.StatusServiceUnavailable, "%s", strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	words(w, http.StatusOK, "ok")
}

func (n *Notary) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	var p promtext.Page
	n.m.page(&p)
	// A checkpoint that is not there has no size and no age: the lines are left out.
	if raw, size, err := published(n.checkpointPath()); err == nil && raw != nil {
		gauge(&p, "assay_notary_checkpoint_entries", float64(size))
		if st, err := os.Stat(n.checkpointPath()); err == nil {
			gauge(&p, "assay_notary_checkpoint_age_seconds", n.o.Now().Sub(st.ModTime()).Seconds())
		}
	}
	answer(w, http.StatusOK, "no-store", promtext.ContentType, p.Bytes())
}

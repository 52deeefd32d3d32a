package evidence

import (
	"context"
	"crypto/hmac"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/assay-bench/assay/internal/disk"
)

// refusal is why a PUT stores nothing.
type refusal struct {
	status int
	why    string
}

// ServeHTTP takes the PUT of a link that Presign gave. It answers 200 when the
// object is stored, also when it was before; 400 for bytes that are not those of
// the hash, too few or without checksum; 403 for a link that is forged, expired
// or of another object; 409 when something that is no file has the object's place;
// 411 without a length; 413 for more bytes than the link is for; 507 when the disk
// is full. Nothing is visible under the hash before all of it was compared.
func (d *Directory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		w.Header().Set("Allow", http.MethodPut)
		http.Error(w, "objects are stored here by PUT, and not read", http.StatusMethodNotAllowed)
		return
	}
	o, expires, refused := d.allowed(r)
	if refused == nil {
		// Who is slow has as long as the link lasts, whatever the server's own
		// limits are. Not every writer has deadlines.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(expires.Sub(d.o.Now())))
		refused = d.store(r.Context(), o, r.Body)
	}
	if refused != nil {
		http.Error(w, refused.why, refused.status)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// allowed reads what a request is for and compares it with what its link was
// signed for, before a byte of the body is read.
func (d *Directory) allowed(r *http.Request) (Object, time.Time, *refusal) {
	name, below := strings.CutPrefix(r.URL.Path, d.o.Path)
	query := r.URL.Query()
	size, errSize := strconv.ParseInt(query.Get("size"), 10, 64)
	expires, errExpires := strconv.ParseInt(query.Get("expires"), 10, 64)
	signature, errSignature := hex.DecodeString(query.Get("signature"))
	o := Object{SHA256: name, Size: size}
	sum, errObject := o.sum()
	if !below || errors.Join(errSize, errExpires, errSignature, errObject) != nil {
		return o, time.Time{}, &refusal{http.StatusBadRequest, "no link of this server: ask for one"}
	}
	until := time.Unix(expires, 0)
	given := r.Header.Values(checksumHeader)
	switch {
	case !hmac.Equal(signature, d.signature(name, size, expires)):
		return o, until, &refusal{http.StatusForbidden, "the link is not for this object, or of another start of the server: ask for a new one"}
	case !d.o.Now().Before(until):
		return o, until, &refusal{http.StatusForbidden, "the link has expired: ask for a new one"}
	case r.ContentLength < 0:
		return o, until, &refusal{http.StatusLengthRequired, "send Content-Length, as the link says"}
	case r.ContentLength > size:
		return o, until, &refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("the link is for %d bytes", size)}
	case r.ContentLength < size:
		return o, until, &refusal{http.StatusBadRequest, fmt.Sprintf("the link is for %d bytes", size)}
	case len(given) != 1:
		return o, until, &refusal{http.StatusBadRequest, "send " + checksumHeader + ", as the link says"}
	case given[0] != bound(sum, size).Get(checksumHeader):
		return o, until, &refusal{http.StatusForbidden, "the link is for another checksum"}
	}
	return o, until, nil
}

// store puts the bytes in their place if they are those of the object.
func (d *Directory) store(ctx context.Context, o Object, body io.ReadCloser) *refusal {
	if d.Confirm(ctx, o) == nil && disk.SyncDirIn(d.root, ".") == nil {
		return nil // as S3 does: the same again is no error
	}
	from := verify(body, o)
	var came error
	err := disk.Put(d.root, o.SHA256, 0o600, disk.PowerCut, func(w io.Writer) error {
		_, err := io.Copy(w, readErrors{from, &came})
		return err
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(came, ErrDamaged):
		return &refusal{http.StatusBadRequest, "these are not the bytes of the hash"}
	case came != nil:
		return &refusal{http.StatusBadRequest, "the upload ended early"}
	case errors.Is(err, disk.ErrNotRegular):
		return &refusal{http.StatusConflict, "something that is no file has the object's place"}
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return &refusal{http.StatusInsufficientStorage, "the server's disk is full"}
	}
	return &refusal{http.StatusInternalServerError, "the object could not be written"}
}

// readErrors keeps the reader's error apart from the writer's: one is the node's
// fault, the other ours.
type readErrors struct {
	from io.Reader
	err  *error
}

func (r readErrors) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		*r.err = err
	}
	return n, err
}

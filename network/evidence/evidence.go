// Package evidence keeps the raw files of runs: in object storage, or in a
// directory where one person has no such thing. Both have the same four methods
// and give the same kind of link, so that a node does not know which it is.
//
// What it promises: an object is stored under the sha256 that the node signed, or
// not at all. A link to upload by binds the object's name, its length and its
// checksum, so that who has one can store exactly the bytes that were announced.
// What is read is compared with its hash again.
//
// What it refuses: to say whose an object is, and who may have a link. That is the
// server's, which knows who asks.
package evidence

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Errors of an object.
var (
	// ErrAbsent: it is not stored. Ask for a link and upload it.
	ErrAbsent = errors.New("not stored")
	// ErrDamaged: what is stored under the name has another length or hash. It
	// proves nothing; an upload by a new link puts the right bytes in its place.
	ErrDamaged = errors.New("stored, but not with the bytes of its hash")
	// ErrObject: there can be no such object. What asks for it is wrong.
	ErrObject = errors.New("no object")
)

// MaxSize is the largest object: what S3 takes in one PUT.
const MaxSize = 5 << 30

// DefaultLifetime is how long a link lasts: long enough for a large file on a thin
// line, and too short to be worth keeping.
const DefaultLifetime = time.Hour

// Object is what a statement says of a file.
type Object struct {
	SHA256 string // 64 hexadecimal digits, lower case
	Size   int64
}

func (o Object) sum() ([]byte, error) {
	sum, err := hex.DecodeString(o.SHA256)
	if err != nil || len(sum) != sha256.Size || hex.EncodeToString(sum) != o.SHA256 {
		return nil, fmt.Errorf("%w: its name must be a sha256 of 64 lower-case hexadecimal digits", ErrObject)
	}
	if o.Size < 0 || o.Size > MaxSize {
		return nil, fmt.Errorf("%w: it would have %d bytes, and may have %d", ErrObject, o.Size, int64(MaxSize))
	}
	return sum, nil
}

// Link is a request that stores one object, and no other: the method and the
// headers must be sent as they are.
type Link struct {
	Method  string
	URL     string // of a directory: a reference, to be resolved against the server's own URL
	Headers map[string]string
	Expires time.Time
}

const checksumHeader = "X-Amz-Checksum-Sha256"

// bound are the headers that a link binds beside its URL.
func bound(sum []byte, size int64) http.Header {
	return http.Header{
		"Content-Length": {strconv.FormatInt(size, 10)},
		checksumHeader:   {base64.StdEncoding.EncodeToString(sum)},
	}
}

func newLink(url string, headers http.Header, expires time.Time) Link {
	l := Link{Method: http.MethodPut, URL: url, Headers: map[string]string{}, Expires: expires.UTC()}
	for name := range headers {
		l.Headers[name] = headers.Get(name)
	}
	return l
}

// verified reads an object and ends with io.EOF only if it was whole and has its
// hash. What was read before the end is not known to be true.
type verified struct {
	from io.ReadCloser
	want Object
	sum  hash.Hash
	n    int64
}

func verify(from io.ReadCloser, want Object) *verified {
	return &verified{from: from, want: want, sum: sha256.New()}
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.from.Read(p)
	v.sum.Write(p[:n])
	v.n += int64(n)
	switch {
	case v.n > v.want.Size:
		return n, fmt.Errorf("%s: %w: more than %d bytes", v.want.SHA256, ErrDamaged, v.want.Size)
	case !errors.Is(err, io.EOF):
		return n, err
	case v.n < v.want.Size:
		return n, fmt.Errorf("%s: %w: %d of %d bytes", v.want.SHA256, ErrDamaged, v.n, v.want.Size)
	case hex.EncodeToString(v.sum.Sum(nil)) != v.want.SHA256:
		return n, fmt.Errorf("%s: %w: it has the hash %x", v.want.SHA256, ErrDamaged, v.sum.Sum(nil))
	}
	return n, io.EOF
}

func (v *verified) Close() error { return v.from.Close() }

// check reads an object to its end.
func check(r io.ReadCloser) error {
	_, err := io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}

package evidence_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/evidence"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("EVIDENCE_CHILD"); dir != "" {
		child(dir)
		return
	}
	os.Exit(m.Run())
}

// store is what the server uses of this package.
type store interface {
	Presign(context.Context, evidence.Object) (evidence.Link, error)
	Confirm(context.Context, evidence.Object) error
	Open(context.Context, evidence.Object) (io.ReadCloser, error)
	Delete(context.Context, evidence.Object) error
}

// suite is what each kind of storage brings for the tests that all of them pass.
type suite struct {
	store   store
	base    *url.URL                                            // links are resolved against it
	tamper  func(t *testing.T, name, with string)               // puts other bytes under a name
	expired func(t *testing.T, o evidence.Object) evidence.Link // gives a link that has expired
	status  map[string]int                                      // of the faults; none: any of 4xx
}

func object(content string) evidence.Object {
	sum := sha256.Sum256([]byte(content))
	return evidence.Object{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(content))}
}

// upload is a request by a link, to be spoilt.
type upload struct {
	method, url string
	headers     map[string]string
	body        string
	length      int64 // -1: in chunks
}

func (s suite) link(t *testing.T, content string) upload {
	t.Helper()
	l, err := s.store.Presign(t.Context(), object(content))
	if err != nil {
		t.Fatal(err)
	}
	return s.follow(t, l, content)
}

func (s suite) follow(t *testing.T, l evidence.Link, content string) upload {
	t.Helper()
	u, err := s.base.Parse(l.URL)
	if err != nil {
		t.Fatal(err)
	}
	return upload{l.Method, u.String(), maps.Clone(l.Headers), content, int64(len(content))}
}

func (u upload) send(t *testing.T) (status int, answer string) {
	t.Helper()
	var body io.Reader = strings.NewReader(u.body)
	if u.length == 0 {
		body = http.NoBody
	}
	req, err := http.NewRequestWithContext(t.Context(), u.method, u.url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = u.length
	for k, v := range u.headers {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 2000))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func (u upload) stored(t *testing.T) {
	t.Helper()
	if status, answer := u.send(t); status != http.StatusOK {
		t.Fatalf("PUT: %d %s", status, answer)
	}
}

func (s suite) read(t *testing.T, o evidence.Object) (string, error) {
	t.Helper()
	r, err := s.store.Open(t.Context(), o)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(r)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	return string(b), err
}

// absent fails unless nothing is stored under the content's hash.
func (s suite) absent(t *testing.T, o evidence.Object) {
	t.Helper()
	if err := s.store.Confirm(t.Context(), o); !errors.Is(err, evidence.ErrAbsent) {
		t.Errorf("Confirm: %v, not that it is absent", err)
	}
	if _, err := s.read(t, o); !errors.Is(err, evidence.ErrAbsent) {
		t.Errorf("Open: %v, not that it is absent", err)
	}
}

// content gives each test an object of its own.
func content(t *testing.T) string { return t.Name() + strings.Repeat(" and its run", 1000) }

// conform is what a storage must do, whatever it is.
func conform(t *testing.T, s suite) {
	t.Run("stored", s.isStored)
	t.Run("empty", s.emptyIsStored)
	t.Run("faults", s.faultsStoreNothing)
	t.Run("cut", s.cutStoresNothing)
	t.Run("expired", s.expiredStoresNothing)
	t.Run("tampered", s.tamperedIsSeen)
	t.Run("together", s.togetherIsOnce)
	t.Run("names", s.namesAreHashes)
}

func (s suite) isStored(t *testing.T) {
	text := content(t)
	o := object(text)
	s.absent(t, o)
	if err := s.store.Delete(t.Context(), o); err != nil {
		t.Errorf("Delete of what is not there: %v", err)
	}
	before := time.Now()
	l, err := s.store.Presign(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(text))
	if l.Method != http.MethodPut || l.Headers["Content-Length"] != fmt.Sprint(len(text)) || len(l.Headers) != 2 ||
		l.Headers["X-Amz-Checksum-Sha256"] != base64.StdEncoding.EncodeToString(sum[:]) || !l.Expires.After(before) {
		t.Errorf("the link is %+v", l)
	}
	s.absent(t, o) // a link stores nothing
	put := s.follow(t, l, text)
	put.stored(t)
	put.stored(t) // the reply was lost
	if err := s.store.Confirm(t.Context(), o); err != nil {
		t.Errorf("Confirm: %v", err)
	}
	if got, err := s.read(t, o); err != nil || got != text {
		t.Errorf("Open gave %d bytes, %v", len(got), err)
	}
	if err := s.store.Confirm(t.Context(), evidence.Object{SHA256: o.SHA256, Size: o.Size + 1}); !errors.Is(err, evidence.ErrDamaged) {
		t.Errorf("Confirm with another size: %v", err)
	}
	if err := s.store.Delete(t.Context(), o); err != nil {
		t.Errorf("Delete: %v", err)
	}
	s.absent(t, o)
	// Put there by somebody else, an S3 storage may have no checksum of it.
	s.tamper(t, o.SHA256, text)
	if err := s.store.Confirm(t.Context(), o); err != nil {
		t.Errorf("Confirm of what came by another way: %v", err)
	}
}

func (s suite) emptyIsStored(t *testing.T) {
	o := object("")
	s.absent(t, o)
	s.link(t, "").stored(t)
	if err := s.store.Confirm(t.Context(), o); err != nil {
		t.Errorf("Confirm: %v", err)
	}
	if got, err := s.read(t, o); err != nil || got != "" {
		t.Errorf("Open gave %q, %v", got, err)
	}
}

// checksum is the header of another content.
func checksum(content string) string {
	sum := sha256.Sum256([]byte(content))
	return base64.StdEncoding.EncodeToString(sum[:])
}

const checksumHeader = "X-Amz-Checksum-Sha256"

// Who has a link and does not keep to it stores nothing, neither under the
// object's hash nor under that of what he sends.
func (s suite) faultsStoreNothing(t *testing.T) {
	for name, spoil := range map[string]func(u *upload, other string){
		"wrong bytes":          func(u *upload, other string) { u.body = other },
		"wrong bytes, its sum": func(u *upload, other string) { u.body, u.headers[checksumHeader] = other, checksum(other) },
		"shorter":              func(u *upload, _ string) { u.body, u.length = u.body[1:], u.length-1 },
		"longer":               func(u *upload, _ string) { u.body, u.length = u.body+"x", u.length+1 },
		"no length":            func(u *upload, _ string) { u.length = -1 },
		"no checksum":          func(u *upload, _ string) { delete(u.headers, checksumHeader) },
		"another object's name": func(u *upload, other string) {
			u.url = strings.Replace(u.url, object(u.body).SHA256, object(other).SHA256, 1)
		},
		"another object": func(u *upload, other string) {
			u.url = strings.Replace(u.url, object(u.body).SHA256, object(other).SHA256, 1)
			u.body, u.headers[checksumHeader] = other, checksum(other)
		},
		"no signature":     func(u *upload, _ string) { u.url, _, _ = strings.Cut(u.url, "?") },
		"forged":           func(u *upload, _ string) { u.url = flip(u.url) },
		"a later expiry":   func(u *upload, _ string) { u.url = later(u.url) },
		"read by the link": func(u *upload, _ string) { u.method, u.body, u.length = http.MethodGet, "", 0 },
	} {
		t.Run(name, func(t *testing.T) {
			text := content(t)
			other := strings.ToUpper(text)
			u := s.link(t, text)
			spoil(&u, other)
			status, answer := u.send(t)
			if want, ok := s.status[name]; status < 400 || status > 499 || ok && status != want {
				t.Errorf("%d, not %d: %s", status, want, answer)
			}
			s.absent(t, object(text))
			s.absent(t, object(other))
			s.link(t, text).stored(t) // nothing was left in the way
		})
	}
}

// flip changes the last digit of the signature, wherever it is in the query.
func flip(link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	q := u.Query()
	for name := range q {
		if value := q.Get(name); strings.Contains(strings.ToLower(name), "signature") {
			last := "0"
			if strings.HasSuffix(value, last) {
				last = "1"
			}
			q.Set(name, value[:len(value)-1]+last)
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

func later(link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	q := u.Query()
	for name := range q {
		if strings.Contains(strings.ToLower(name), "expires") {
			q.Set(name, "9"+q.Get(name))
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// half opens a connection and sends the head and half of the body.
func (u upload) half(t *testing.T) *net.TCPConn {
	t.Helper()
	to, err := url.Parse(u.url)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", to.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", u.method, to.RequestURI(), to.Host)
	for k, v := range u.headers {
		fmt.Fprintf(&b, "%s: %s\r\n", k, v)
	}
	fmt.Fprintf(&b, "\r\n%s", u.body[:len(u.body)/2])
	if _, err := c.Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// An upload that ends in its middle stores nothing.
func (s suite) cutStoresNothing(t *testing.T) {
	text := content(t)
	c := s.link(t, text).half(t)
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil { // or it just closes
		resp.Body.Close()
		if resp.StatusCode < 400 {
			t.Errorf("half of it was taken: %s", resp.Status)
		}
	}
	s.absent(t, object(text))
	s.link(t, text).stored(t)
}

func (s suite) expiredStoresNothing(t *testing.T) {
	text := content(t)
	l := s.expired(t, object(text))
	if status, answer := s.follow(t, l, text).send(t); status != http.StatusForbidden {
		t.Errorf("%d: %s", status, answer)
	}
	s.absent(t, object(text))
}

// What is not the bytes of its hash is neither confirmed nor read to its end, and
// an upload mends it.
func (s suite) tamperedIsSeen(t *testing.T) {
	for name, change := range map[string]func(string) string{
		"same length": strings.ToUpper,
		"shorter":     func(s string) string { return s[:len(s)/2] },
		"longer":      func(s string) string { return s + "x" },
		"empty":       func(string) string { return "" },
		"much longer": func(s string) string { return strings.Repeat(s, 50) },
	} {
		t.Run(name, func(t *testing.T) {
			text := content(t)
			o := object(text)
			s.link(t, text).stored(t)
			s.tamper(t, o.SHA256, change(text))
			if err := s.store.Confirm(t.Context(), o); !errors.Is(err, evidence.ErrDamaged) {
				t.Errorf("Confirm: %v", err)
			}
			got, err := s.read(t, o)
			if !errors.Is(err, evidence.ErrDamaged) {
				t.Errorf("Open: %v", err)
			}
			if len(got) > 4*len(text) {
				t.Errorf("%d bytes were read of an object of %d", len(got), len(text))
			}
			s.link(t, text).stored(t)
			if err := s.store.Confirm(t.Context(), o); err != nil {
				t.Errorf("Confirm after the right bytes came: %v", err)
			}
		})
	}
}

func (s suite) togetherIsOnce(t *testing.T) {
	text := content(t)
	u := s.link(t, text)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if status, answer := u.send(t); status != http.StatusOK {
				t.Errorf("PUT: %d %s", status, answer)
			}
		})
	}
	all.Wait()
	if got, err := s.read(t, object(text)); err != nil || got != text {
		t.Errorf("Open gave %d bytes, %v", len(got), err)
	}
}

func (s suite) namesAreHashes(t *testing.T) {
	good := object("x").SHA256
	for _, o := range []evidence.Object{
		{}, {SHA256: "lock"}, {SHA256: "../" + good}, {SHA256: good + "/.."}, {SHA256: good[:63]}, {SHA256: good + "00"},
		{SHA256: strings.ToUpper(good)}, {SHA256: good[:63] + "g"}, {SHA256: good[:62] + "%2"}, {SHA256: good, Size: -1}, {SHA256: good, Size: evidence.MaxSize + 1},
	} {
		_, errPresign := s.store.Presign(t.Context(), o)
		_, errOpen := s.store.Open(t.Context(), o)
		for doing, err := range map[string]error{
			"Presign": errPresign, "Open": errOpen, "Confirm": s.store.Confirm(t.Context(), o), "Delete": s.store.Delete(t.Context(), o),
		} {
			if !errors.Is(err, evidence.ErrObject) {
				t.Errorf("%s of %+v: %v", doing, o, err)
			}
		}
	}
}

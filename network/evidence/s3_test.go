package evidence_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/network/evidence"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

func options(b parttest.Bucket) evidence.S3Options {
	return evidence.S3Options{Endpoint: b.Endpoint, AccessKey: b.AccessKey, SecretKey: b.SecretKey, Bucket: b.Name, Prefix: "runs/"}
}

func s3Suite(t *testing.T, o evidence.S3Options) suite {
	t.Helper()
	s, err := evidence.NewS3(o)
	if err != nil {
		t.Fatal(err)
	}
	base, err := url.Parse(o.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	other, err := minio.New(base.Host, &minio.Options{Creds: credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	return suite{
		store: s,
		base:  base,
		tamper: func(t *testing.T, name, with string) {
			t.Helper()
			_, err := other.PutObject(t.Context(), o.Bucket, o.Prefix+name, strings.NewReader(with), int64(len(with)), minio.PutObjectOptions{})
			if err != nil {
				t.Fatal(err)
			}
		},
		// 403 where the signature binds it, 400 where the checksum finds it out.
		status: map[string]int{
			"wrong bytes": http.StatusBadRequest, "wrong bytes, its sum": http.StatusForbidden, "no checksum": http.StatusForbidden,
			"shorter": http.StatusForbidden, "longer": http.StatusForbidden, "another object": http.StatusForbidden, "forged": http.StatusForbidden,
		},
		expired: func(t *testing.T, object evidence.Object) evidence.Link {
			t.Helper()
			brief := o
			brief.Lifetime = time.Second
			s, err := evidence.NewS3(brief)
			if err != nil {
				t.Fatal(err)
			}
			l, err := s.Presign(t.Context(), object)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Until(l.Expires) + 2*time.Second) // S3 counts whole seconds
			return l
		},
	}
}

func TestRealNetworkS3Conforms(t *testing.T) {
	conform(t, s3Suite(t, options(parttest.S3(t))))
}

// A server that is killed while it receives has nothing of it afterwards, and what
// it had confirmed.
func TestRealNetworkS3KilledWhileUploading(t *testing.T) {
	server, b := parttest.OwnS3(t)
	s := s3Suite(t, options(b))
	before, text := "before "+content(t), content(t)
	s.link(t, before).stored(t)
	s.link(t, text).half(t)
	server.Kill()
	if err := s.store.Confirm(t.Context(), object(before)); err == nil || errors.Is(err, evidence.ErrAbsent) {
		t.Errorf("Confirm without a server: %v; unknown is not absent", err)
	}
	server.Restart()
	s.absent(t, object(text))
	if err := s.store.Confirm(t.Context(), object(before)); err != nil {
		t.Errorf("what was stored before the kill: %v", err)
	}
	s.link(t, text).stored(t)
}

func TestRealNetworkS3SaysWhatIsWrong(t *testing.T) {
	b := parttest.S3(t)
	o := options(b)
	o.Bucket = "assay-is-not-there"
	s := s3Suite(t, o)
	if err := s.store.Confirm(t.Context(), object("x")); err == nil || errors.Is(err, evidence.ErrAbsent) {
		t.Errorf("Confirm without a bucket: %v; a node would upload for ever", err)
	}
	o = options(b)
	o.SecretKey = strings.Repeat("0", len(o.SecretKey))
	s = s3Suite(t, o)
	if err := s.store.Confirm(t.Context(), object("x")); err == nil || errors.Is(err, evidence.ErrAbsent) {
		t.Errorf("Confirm with a wrong key: %v", err)
	}
	if status, _ := s.link(t, "x").send(t); status != http.StatusForbidden {
		t.Errorf("a link that is signed with a wrong key: %d", status)
	}
}

func TestS3OptionsAreChecked(t *testing.T) {
	good := evidence.S3Options{Endpoint: "https://s3.example.org", AccessKey: "a", SecretKey: "s", Bucket: "b"}
	if _, err := evidence.NewS3(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*evidence.S3Options){
		"no endpoint":    func(o *evidence.S3Options) { o.Endpoint = "" },
		"no scheme":      func(o *evidence.S3Options) { o.Endpoint = "s3.example.org" },
		"another scheme": func(o *evidence.S3Options) { o.Endpoint = "ftp://s3.example.org" },
		"a path":         func(o *evidence.S3Options) { o.Endpoint += "/bucket" },
		"a user":         func(o *evidence.S3Options) { o.Endpoint = "https://a:s@s3.example.org" },
		"no bucket":      func(o *evidence.S3Options) { o.Bucket = "" },
		"no access key":  func(o *evidence.S3Options) { o.AccessKey = "" },
		"no secret key":  func(o *evidence.S3Options) { o.SecretKey = "" },
	} {
		o := good
		spoil(&o)
		if _, err := evidence.NewS3(o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

package evidence

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3Options says where objects are.
type S3Options struct {
	Endpoint             string // https://HOST[:PORT]; links have this host, so nodes must reach it
	AccessKey, SecretKey string
	Region               string // "": us-east-1, which most servers that are not Amazon's take
	Bucket               string // must be there
	Prefix               string // before each object's name, for instance runs/
	Lifetime             time.Duration
}

// S3 keeps objects in a bucket, of any maker's.
type S3 struct {
	o      S3Options
	client *minio.Core
}

// NewS3 connects to nothing yet: an endpoint that does not answer says so at the
// first use.
func NewS3(o S3Options) (*S3, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.Path != "" && u.Path != "/" || u.User != nil {
		return nil, errors.New("object storage: the endpoint must be http://HOST:PORT or https://HOST, and nothing else")
	}
	switch {
	case o.Bucket == "":
		return nil, errors.New("object storage: name the bucket")
	case o.AccessKey == "" || o.SecretKey == "":
		// Without keys links would be unsigned, and bind nothing.
		return nil, errors.New("object storage: needs an access key and a secret key")
	}
	if o.Region == "" {
		o.Region = "us-east-1"
	}
	if o.Lifetime == 0 {
		o.Lifetime = DefaultLifetime
	}
	client, err := minio.NewCore(u.Host, &minio.Options{
		Creds:      credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""),
		Secure:     u.Scheme == "https",
		Region:     o.Region, // known, so that no request asks for it
		MaxRetries: 3,
	})
	if err != nil {
		return nil, fmt.Errorf("object storage at %s: %w", o.Endpoint, err)
	}
	return &S3{o: o, client: client}, nil
}

func (s *S3) name(o Object) string { return s.o.Prefix + o.SHA256 }

func (s *S3) failed(doing string, o Object, err error) error {
	if r := minio.ToErrorResponse(err); r.Code == minio.NoSuchKey || r.StatusCode == http.StatusNotFound && r.Code != minio.NoSuchBucket {
		err = ErrAbsent
	}
	return fmt.Errorf("%s %s in the bucket %s: %w", doing, o.SHA256, s.o.Bucket, err)
}

// Presign gives a link to upload the object by. It asks the storage nothing.
func (s *S3) Presign(ctx context.Context, o Object) (Link, error) {
	sum, err := o.sum()
	if err != nil {
		return Link{}, err
	}
	headers := bound(sum, o.Size)
	expires := time.Now().Add(s.o.Lifetime).Truncate(time.Second)
	u, err := s.client.PresignHeader(ctx, http.MethodPut, s.o.Bucket, s.name(o), s.o.Lifetime, nil, headers)
	if err != nil {
		return Link{}, s.failed("link to", o, err)
	}
	return newLink(u.String(), headers, expires), nil
}

// Confirm is nil when the object is stored with its length and its hash, by what
// the storage has computed itself; a storage that keeps no checksum is read.
func (s *S3) Confirm(ctx context.Context, o Object) error {
	sum, err := o.sum()
	if err != nil {
		return err
	}
	info, err := s.client.StatObject(ctx, s.o.Bucket, s.name(o), minio.StatObjectOptions{Checksum: true})
	switch {
	case err != nil:
		return s.absent(ctx, s.failed("look at", o, err))
	case info.Size != o.Size:
		return s.failed("look at", o, fmt.Errorf("%w: %d bytes, not %d", ErrDamaged, info.Size, o.Size))
	case info.ChecksumSHA256 == "":
		r, err := s.Open(ctx, o)
		if err != nil {
			return err
		}
		return check(r)
	case info.ChecksumSHA256 != base64.StdEncoding.EncodeToString(sum):
		return s.failed("look at", o, fmt.Errorf("%w: by the storage's own checksum", ErrDamaged))
	}
	return nil
}

// absent tells an object that is not there from a bucket that is not: a HEAD has no
// room for the difference, and nodes would upload for ever.
func (s *S3) absent(ctx context.Context, err error) error {
	if !errors.Is(err, ErrAbsent) {
		return err
	}
	if there, failed := s.client.BucketExists(ctx, s.o.Bucket); failed == nil && !there {
		return fmt.Errorf("object storage at %s has no bucket %s: make it, or name another", s.o.Endpoint, s.o.Bucket)
	}
	return err
}

// Open reads an object. Reading ends with io.EOF only if all of it was there and
// has its hash, else with ErrDamaged.
func (s *S3) Open(ctx context.Context, o Object) (io.ReadCloser, error) {
	if _, err := o.sum(); err != nil {
		return nil, err
	}
	r, _, _, err := s.client.GetObject(ctx, s.o.Bucket, s.name(o), minio.GetObjectOptions{})
	if err != nil {
		return nil, s.failed("read", o, err)
	}
	return verify(r, o), nil
}

// Delete removes an object; one that is not there is no error.
func (s *S3) Delete(ctx context.Context, o Object) error {
	if _, err := o.sum(); err != nil {
		return err
	}
	if err := s.client.RemoveObject(ctx, s.o.Bucket, s.name(o), minio.RemoveObjectOptions{}); err != nil {
		if err = s.failed("remove", o, err); !errors.Is(err, ErrAbsent) {
			return err
		}
	}
	return nil
}

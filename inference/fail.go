package inference

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// maxDetail bounds what of an engine's own words is kept.
const maxDetail = 300

// streamError is a stream that is not what was agreed, with the engine's bytes.
type streamError struct {
	what string
	body []byte
}

func (e *streamError) Error() string {
	if len(e.body) == 0 {
		return e.what
	}
	return e.what + ": " + foreign.Line(e.body, maxDetail)
}

// Limits counts how often a request could not go out for want of something on
// our side. Those requests are never_sent: they say nothing of the engine.
type Limits struct {
	FileDescriptors int64
	Ports           int64
	Memory          int64
}

// ownLimit names the limit of ours that an error of dialling is about.
func ownLimit(err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return ""
	}
	switch errno {
	case syscall.EMFILE, syscall.ENFILE:
		return "file descriptors"
	case syscall.EADDRNOTAVAIL:
		return "ports"
	case syscall.ENOBUFS, syscall.ENOMEM:
		return "memory"
	}
	return ""
}

// dialFailure classifies an error of making a connection.
func (c *Client) dialFailure(ctx context.Context, err error) (assay.Failure, string) {
	switch ownLimit(err) {
	case "file descriptors":
		c.limits.fds.Add(1)
		return assay.FailNeverSent, "file descriptors: " + err.Error()
	case "ports":
		c.limits.ports.Add(1)
		return assay.FailNeverSent, "ports: " + err.Error()
	case "memory":
		c.limits.memory.Add(1)
		return assay.FailNeverSent, "memory: " + err.Error()
	}
	// The dialer sees a deadline a moment before the context says so.
	if due, ok := ctx.Deadline(); ctx.Err() != nil || ok && !time.Now().Before(due) {
		return assay.FailCancelled, "while connecting"
	}
	if isTimeout(err) {
		return assay.FailTimeout, fmt.Sprintf("connect: no connection within %v", c.timeouts.Connect)
	}
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		return assay.FailRefused, "TLS: " + foreign.Line(cert.Error(), maxDetail)
	}
	return assay.FailRefused, foreign.Line(err.Error(), maxDetail)
}

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// isReset reports whether an error of reading or writing is the connection's end.
func isReset(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNABORTED) ||
		errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// byStatus classifies a reply that is no success.
func byStatus(status int) assay.Failure {
	switch {
	case status == 429:
		return assay.FailHTTP429
	case status >= 500:
		return assay.FailHTTP5xx
	case status >= 400:
		return assay.FailHTTP4xx
	}
	return assay.FailStreamError
}

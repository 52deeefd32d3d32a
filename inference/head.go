package inference

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// takeHead collects the reply's head. When it is whole, ok is true and rest is
// what follows it.
func (s *stream) takeHead(p []byte) (rest []byte, ok bool, err error) {
	had := len(s.head)
	s.head = append(s.head, first(p, maxHead-had)...)
	end := headEnd(s.head, max(0, had-3))
	if end < 0 {
		if len(s.head) >= maxHead {
			return nil, false, fmt.Errorf("a head longer than %d KiB", maxHead>>10)
		}
		return nil, false, nil
	}
	s.head = s.head[:end]
	rest = p[end-had:]
	interim, err := s.parseHead()
	if err != nil {
		return nil, false, err
	}
	if interim {
		if s.interim++; s.interim > maxInterim {
			return nil, false, fmt.Errorf("more than %d interim replies", maxInterim)
		}
		s.head = s.head[:0]
		return s.takeHead(rest)
	}
	return rest, true, nil
}

// headEnd is where the head that begins b ends, behind its blank line; -1 if
// that has not come. It looks for line feeds from the given place on.
func headEnd(b []byte, from int) int {
	for i := from; ; {
		n := bytes.IndexByte(b[i:], '\n')
		if n < 0 {
			return -1
		}
		i += n + 1
		switch {
		case i < len(b) && b[i] == '\n':
			return i + 1
		case i+1 < len(b) && b[i] == '\r' && b[i+1] == '\n':
			return i + 2
		}
	}
}

// headReader is what the standard library needs to read a head. The response
// keeps hold of it as its body, which is never read.
type headReader struct {
	bytes    bytes.Reader
	buffered *bufio.Reader
}

var heads = sync.Pool{New: func() any { return &headReader{buffered: bufio.NewReaderSize(nil, 4096)} }}

var postRequest = &http.Request{Method: http.MethodPost}

// parseHead reads the collected head with the standard library, once a request,
// and decides how the body is framed and what it is.
func (s *stream) parseHead() (interim bool, err error) {
	h := heads.Get().(*headReader)
	h.bytes.Reset(s.head)
	h.buffered.Reset(&h.bytes)
	resp, err := http.ReadResponse(h.buffered, postRequest) //nolint:bodyclose // of the body there is nothing here
	heads.Put(h)
	if err != nil {
		return false, &streamError{what: "not an HTTP reply", body: []byte(err.Error())}
	}
	if resp.StatusCode < 200 {
		if resp.StatusCode == http.StatusSwitchingProtocols {
			return false, fmt.Errorf("the engine switched protocols unasked")
		}
		return true, nil
	}
	s.status = resp.StatusCode
	s.keep = !resp.Close
	s.idle(resp.Header.Get("Keep-Alive"))
	switch {
	case len(resp.TransferEncoding) > 0:
		s.frame = frameChunked
	case resp.ContentLength >= 0:
		s.frame, s.left = frameLength, resp.ContentLength
	default:
		s.frame, s.keep = frameClose, false
	}
	s.part = partBody
	kind := resp.Header.Get("Content-Type")
	switch {
	case s.status >= 300 && s.status < 400:
		s.part = partRefusal
		s.note = "redirect to " + strconv.Quote(foreign.Line(resp.Header.Get("Location"), 100)) + " not followed"
	case s.status >= 300:
		s.part = partRefusal
		if after := resp.Header.Get("Retry-After"); after != "" {
			s.note = "Retry-After " + strconv.Quote(foreign.Line(after, 40))
		}
	case encoded(resp.Header.Get("Content-Encoding")):
		return false, &streamError{what: "a content encoding that was not asked for", body: []byte(resp.Header.Get("Content-Encoding"))}
	case s.c.backend.sse() && strings.HasPrefix(kind, "application/json"):
		s.part = partRefusal
		s.note = "not a stream, though one was asked for"
	}
	if s.frame == frameLength && s.left == 0 {
		s.part = partEnd
	}
	return false, nil
}

func encoded(enc string) bool { return enc != "" && !strings.EqualFold(enc, "identity") }

// defaultIdle is how long a connection may lie idle and still be used: servers
// that do not say when they close it often do so after five seconds, and a
// request sent into the closing would count as the engine's failure.
const defaultIdle = 4 * time.Second

// idle takes what the server says of it: Keep-Alive: timeout=5.
func (s *stream) idle(keepAlive string) {
	for part := range strings.SplitSeq(keepAlive, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if !strings.EqualFold(name, "timeout") {
			continue
		}
		if n, err := strconv.ParseUint(value, 10, 31); err == nil {
			s.maxIdle = int64(time.Duration(n) * time.Second * 4 / 5)
		}
	}
}

package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
)

const (
	uploadRounds  = 3                // announcements of what is still missing, in one look
	uploadTimeout = 10 * time.Minute // of one file; a run has some megabytes
)

// upload brings a run's files to where the server wants them, and removes the run
// when the server has confirmed the hash of each.
func (r *reports) upload(ctx context.Context, name, dir string, x report) (waits bool, err error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, r.remove(name) // all was confirmed, and we died before this line
	}
	if err != nil {
		return true, err
	}
	defer root.Close()
	files, err := runFiles(root)
	if err != nil {
		return true, err
	}
	a := api.Announcement{Statement: x.Statement, Files: files}
	if x.Command != "" {
		a.Command = &x.Command
	}
	up, err := as[api.Uploads](ctx, r.session, "announce a run", callTimeout, func(ctx context.Context, node string, auth api.RequestEditorFn) (*http.Response, error) {
		return r.session.link.client.CreateReport(ctx, node, a, auth)
	})
	var se *ServerError
	if errors.As(err, &se) && se.final() {
		return false, r.refuse(name, x, err)
	}
	if status(err) == http.StatusNotFound {
		// It had the statement, and was restored from a backup that does not: the run's
		// directory has it still.
		_, moved := r.move(name, stageTaken, stageSigned)
		return true, errors.Join(err, moved)
	}
	if err != nil {
		return true, err
	}
	for range uploadRounds {
		if err := r.put(ctx, root, files, up); err != nil {
			return true, err
		}
		up, err = as[api.Uploads](ctx, r.session, "confirm a run", uploadTimeout, func(ctx context.Context, node string, auth api.RequestEditorFn) (*http.Response, error) {
			return r.session.link.client.ConfirmReport(ctx, node, up.Report, auth)
		})
		if err != nil {
			return true, err
		}
		if up.Uploads == nil {
			return true, errors.New("confirm a run: the server's answer does not say what is missing")
		}
		if len(up.Uploads) == 0 {
			r.log.Info("a run is delivered", "run", x.Run)
			return false, errors.Join(removeRun(dir), r.remove(name))
		}
	}
	return true, fmt.Errorf("%d files are still missing at the server", len(up.Uploads))
}

// put uploads what the server asks for.
func (r *reports) put(ctx context.Context, root *os.Root, files []api.File, up api.Uploads) error {
	for i := range up.Uploads {
		u := &up.Uploads[i]
		at := slices.IndexFunc(files, func(f api.File) bool { return f.Name == u.Name && f.Sha256 == u.Sha256 })
		if at < 0 {
			return fmt.Errorf("the server asks for a file that was not announced: %s", foreign.Line(u.Name, 100))
		}
		if err := r.session.link.put(ctx, root, files[at], u.Method, u.Url, u.Headers); err != nil {
			return err
		}
	}
	return nil
}

// runFiles are the files that the run's statement covers, with the hashes that it
// has: what is in the directory and was not signed stays there.
func runFiles(root *os.Root) ([]api.File, error) {
	b, err := root.ReadFile(ledger.BenchmarkFile)
	if err != nil {
		return nil, err
	}
	e, err := ledger.ReadEnvelope(b)
	if err != nil {
		return nil, err
	}
	st, _, err := ledger.ParseStatement(e.Payload)
	if err != nil {
		return nil, err
	}
	var files []api.File
	for _, s := range st.Subject {
		size, sum, err := hashed(root, s.Name)
		if errors.Is(err, os.ErrNotExist) {
			continue // a part of run.json, or of the program
		}
		if err != nil {
			return nil, err
		}
		if sum != s.Digest["sha256"] {
			return nil, fmt.Errorf("%s is not what was signed: it has the hash %s, and the statement has %s", s.Name, sum, s.Digest["sha256"])
		}
		files = append(files, api.File{Name: s.Name, Sha256: sum, Size: size})
	}
	if len(files) == 0 {
		return nil, errors.New("the run has no file that was signed")
	}
	return files, nil
}

func hashed(root *os.Root, name string) (int64, string, error) {
	f, err := disk.Open(root, name, os.O_RDONLY, 0)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return n, hex.EncodeToString(h.Sum(nil)), err
}

// put sends one file by a link. The link is a URL of the server's choosing, as
// storage is another machine; it gets the evidence that the server may have, by
// PUT, over TLS if the server itself has it, and neither our token nor a redirect.
func (l *link) put(ctx context.Context, root *os.Root, file api.File, method, address string, headers map[string]string) error {
	doing := "upload " + file.Name
	u, err := l.base.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%s: the server gave no proper link", doing)
	case u.Scheme == "http" && l.base.Scheme == "https" && !loopback(u.Hostname()):
		return fmt.Errorf("%s: the server gave a link without TLS", doing)
	case method != http.MethodPut:
		return fmt.Errorf("%s: the server asks for %s; only PUT is known", doing, foreign.Line(method, 20))
	}
	f, err := disk.Open(root, file.Name, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer f.Close()
	_, err = transfer(ctx, doing, uploadTimeout, func(ctx context.Context) (*http.Response, error) {
		req, err := uploadRequest(ctx, u, f, file.Size, headers)
		if err != nil {
			return nil, err
		}
		return l.http.Do(req)
	})
	switch status(err) {
	case http.StatusPreconditionFailed, http.StatusConflict:
		return nil // it is there; whether it is the right one says the confirmation
	}
	return err
}

// uploadRequest is the PUT with the headers that the link binds.
func uploadRequest(ctx context.Context, u *url.URL, body io.Reader, size int64, headers map[string]string) (*http.Request, error) {
	if size == 0 {
		body = http.NoBody
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, u.String(), body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = size
	for k, v := range headers {
		switch k = textproto.CanonicalMIMEHeaderKey(k); k {
		case "Host":
			if v != u.Host {
				return nil, errors.New("the link binds another host than its own")
			}
		case "Content-Length":
			if v != strconv.FormatInt(size, 10) {
				return nil, fmt.Errorf("the link is for %s bytes, and the file has %d", foreign.Line(v, 20), size)
			}
		case "Authorization", "Cookie", "Proxy-Authorization", "Connection", "Transfer-Encoding", "Upgrade", "Te", "Trailer":
			return nil, fmt.Errorf("the link has the header %s, which no link needs", k)
		default:
			req.Header.Set(k, v)
		}
	}
	return req, nil
}

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/brokers"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka"
	"github.com/assay-bench/assay/network/evidence"
	"github.com/assay-bench/assay/network/server"
	"github.com/assay-bench/assay/network/server/decide"
	"github.com/assay-bench/assay/network/server/egress"
	"github.com/assay-bench/assay/network/server/webhook"
	"github.com/assay-bench/assay/network/store"
)

// Variables with the credentials of an object storage, as other programs have them.
const (
	s3AccessKey = "AWS_ACCESS_KEY_ID"
	s3SecretKey = "AWS_SECRET_ACCESS_KEY"
	s3Region    = "AWS_REGION"
)

const objectsPath = "/objects/"

// workFlags say where evidence is kept, and whom the server tells what.
type workFlags struct {
	evidence      string
	kafka         brokers.Flags
	webhooks      []string
	webhookSecret string
	allow         []string
	references    []string
	compareEvery  time.Duration
}

func (f *workFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.evidence, "evidence", "", "where raw runs are kept: a `directory`, for one process, or an object storage, s3+https://HOST/BUCKET/PREFIX, with $"+s3AccessKey+" and $"+s3SecretKey+"; by default evidence in the state directory")
	f.kafka.Register(fs)
	fs.StringArrayVar(&f.webhooks, "webhook", nil, "`KIND=URL`: where messages go; kinds are "+strings.Join(webhook.Kinds, ", ")+". May be given several times")
	fs.StringVar(&f.webhookSecret, "webhook-secret-file", "", "`file` with the secret that webhooks are signed with")
	fs.StringArrayVar(&f.references, "reference", nil, "`file` of \"assay server reference make\": replicas of its model are compared with it now and then. May be given several times")
	fs.DurationVar(&f.compareEvery, "reference-every", 6*time.Hour, "between two such comparisons of a replica")
	fs.StringSliceVar(&f.allow, "allow-network", nil, "`networks` (CIDR) that the server may connect to beside public ones")
}

// work is what a server does besides answering.
type work struct {
	decider  *decide.Decider
	evidence server.Evidence
	mounts   map[string]http.Handler
	publish  bool
	closers  []func() error
}

func (w *work) Close() error {
	var errs []error
	for _, c := range w.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// storage is what both kinds of object storage are.
type storage interface {
	server.Evidence
	decide.Evidence
	Delete(context.Context, evidence.Object) error
}

// open makes everything that the flags ask for.
func (f *workFlags) open(ctx context.Context, st *store.Store, id server.Identity, state string) (w *work, err error) {
	w = &work{mounts: map[string]http.Handler{}, publish: f.kafka.Given()}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	objects, err := f.storage(w, state)
	if err != nil {
		return w, err
	}
	w.evidence = objects
	o := decide.Options{Store: st, Signer: id.Own, Origin: id.Origin, Evidence: objects, Discard: objects.Delete, Webhooks: webhook.Targets{}, Log: cli.Log(ctx)}
	if err := f.hooks(&o); err != nil {
		return w, err
	}
	if err := f.models(&o); err != nil {
		return w, err
	}
	if w.publish {
		c, err := f.kafka.Config()
		if err != nil {
			return w, err
		}
		sink, err := kafka.NewSink(c)
		if err != nil {
			return w, err
		}
		w.closers = append(w.closers, sink.Close)
		o.Sink = sink
	}
	w.decider, err = decide.New(o)
	return w, err
}

// storage opens the object storage.
func (f *workFlags) storage(w *work, state string) (storage, error) {
	scheme, rest, isURL := strings.Cut(f.evidence, "://")
	if !isURL {
		dir := f.evidence
		if dir == "" {
			dir = filepath.Join(state, "evidence")
		}
		d, err := evidence.NewDirectory(evidence.DirectoryOptions{Dir: dir, Path: objectsPath})
		if err != nil {
			return nil, fmt.Errorf("--evidence: %w", err)
		}
		w.closers = append(w.closers, d.Close)
		w.mounts[objectsPath] = d
		return d, nil
	}
	transport, ok := strings.CutPrefix(scheme, "s3+")
	u, err := url.Parse(transport + "://" + rest)
	if !ok || err != nil || u.User != nil {
		return nil, fmt.Errorf("--evidence: give a directory, or s3+https://HOST/BUCKET/PREFIX with the keys in $%s and $%s", s3AccessKey, s3SecretKey)
	}
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	s, err := evidence.NewS3(evidence.S3Options{
		Endpoint: u.Scheme + "://" + u.Host, Bucket: bucket, Prefix: prefix, Region: os.Getenv(s3Region),
		AccessKey: os.Getenv(s3AccessKey), SecretKey: os.Getenv(s3SecretKey),
	})
	if err != nil {
		return nil, fmt.Errorf("--evidence: %w", err)
	}
	return s, nil
}

// hooks are the webhooks.
func (f *workFlags) hooks(o *decide.Options) error {
	if len(f.webhooks) == 0 {
		return nil
	}
	if f.webhookSecret == "" {
		return errors.New("--webhook needs --webhook-secret-file: who gets a message must be able to tell that it is ours")
	}
	text, err := ledger.ReadSecretFile(f.webhookSecret, maxSecrets)
	if err == nil {
		o.Secret, err = webhook.ParseSecret(text)
	}
	if err != nil {
		return fmt.Errorf("--webhook-secret-file: %w", err)
	}
	for _, text := range f.webhooks {
		if err := o.Webhooks.ParseTarget(text); err != nil {
			return fmt.Errorf("--webhook: %w", err)
		}
	}
	var d egress.Dialer
	if d.Allow, err = networks("--allow-network", f.allow); err != nil {
		return err
	}
	o.Client = egress.Client(&d, 30*time.Second)
	return reachable(o.Webhooks, &d)
}

// models are the references that replicas are compared with.
func (f *workFlags) models(o *decide.Options) error {
	if len(f.references) == 0 {
		return nil
	}
	if f.compareEvery < time.Second {
		return fmt.Errorf("--reference-every %s: at least a second", f.compareEvery)
	}
	known := map[string]string{}
	for _, path := range f.references {
		r, err := readReference(path)
		if err != nil {
			return fmt.Errorf("--reference: %w", err)
		}
		if other := known[r.Model]; other != "" {
			return fmt.Errorf("--reference: %s and %s are both of the model %s: put their deployments into one with \"assay server reference make --add\"", other, path, r.Model)
		}
		known[r.Model] = path
		o.Models.References = append(o.Models.References, r)
	}
	allow, err := networks("--allow-network", f.allow)
	if err != nil {
		return err
	}
	o.Models.Every, o.Models.Client = f.compareEvery, egress.Client(&egress.Dialer{Allow: allow}, askTimeout)
	return nil
}

// reachable refuses a webhook whose address no message could ever reach. What a
// name leads to is only known when it is sent.
func reachable(to webhook.Targets, d *egress.Dialer) error {
	for kind, address := range to {
		u, err := url.Parse(address)
		if err != nil {
			return fmt.Errorf("--webhook %s: its URL is none", kind)
		}
		host := u.Hostname()
		if host == "localhost" {
			host = "127.0.0.1"
		}
		if a, err := netip.ParseAddr(host); err == nil && !d.Allowed(a) {
			return fmt.Errorf("--webhook %s: %s is in no network that the server may connect to: allow it with --allow-network %s if it is meant", kind, u.Hostname(), netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return nil
}

// networks reads a flag's list of networks.
func networks(flag string, texts []string) (out []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s %s: it is no network, as 10.0.0.0/8", flag, text)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// Package trace tells a collector by OTLP over HTTP what each request to the
// server took: one span a request, in batches, beside the requests.
//
// What it promises: a collector that is slow, away or wrong costs no request
// anything; spans that it does not take are dropped and counted. A span has the
// method, the route's pattern and the status: no path, no query, no header, no
// address and no id of a person or a node, since traces are kept by others.
//
// What it refuses: to go on with a caller's trace. Everybody can send a
// traceparent, and would choose what is recorded and beside what it is shown.
package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otel "go.opentelemetry.io/otel/trace"
)

// tryTimeout bounds one batch, tries again included, so that the queue moves.
const tryTimeout = 10 * time.Second

// Options says where spans go.
type Options struct {
	Endpoint string // http(s)://HOST:PORT of a collector; without a path, /v1/traces is added
	Version  string // of this program
	Log      *slog.Logger
}

// Tracer sends spans until it is closed.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   otel.Tracer
	sent     *counted
}

// New connects to nothing yet. Close sends what is left.
func New(ctx context.Context, o Options) (*Tracer, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("traces: the endpoint must be http://HOST:PORT or https://HOST:PORT, of a collector that speaks OTLP over HTTP")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()), otlptracehttp.WithTimeout(tryTimeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: tryTimeout}))
	if err != nil {
		return nil, fmt.Errorf("traces to %s: %w", o.Endpoint, err)
	}
	sent := &counted{to: exporter, log: o.Log}
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(sent),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "assay-server"), attribute.String("service.version", o.Version))),
		sdk.WithSampler(sdk.AlwaysSample()),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer("assay/network/server"), sent: sent}, nil
}

// Close sends what is left, within the context's time.
func (t *Tracer) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// Failed is the number of spans that the collector did not take, for a counter.
func (t *Tracer) Failed() int64 { return t.sent.failed.Load() }

// Wrap records a span for each request that the handler serves. It is the
// outermost of the handlers; route gives the pattern of what will answer, as a mux
// does, and is empty where nothing will: the path is the caller's.
func (t *Tracer) Wrap(h http.Handler, route func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, attributes := describe(r.Method, route(r))
		ctx, span := t.tracer.Start(r.Context(), name, otel.WithNewRoot(), otel.WithSpanKind(otel.SpanKindServer), otel.WithAttributes(attributes...))
		seen, returned := &status{ResponseWriter: w}, false
		defer func() { finish(span, seen.code, returned) }()
		h.ServeHTTP(seen, r.WithContext(ctx))
		returned = true
	})
}

// finish says how it ended. A handler that did not return has panicked, and the
// connection ends without an answer or in the middle of one.
func finish(span otel.Span, code int, returned bool) {
	if code == 0 && returned {
		code = http.StatusOK // net/http answers that for a handler that wrote nothing
	}
	if code != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", code))
	}
	switch {
	case !returned:
		span.SetStatus(codes.Error, "the handler did not return")
	case code >= 500:
		span.SetStatus(codes.Error, http.StatusText(code))
	}
	span.End()
}

// counted keeps count of what was not taken, and says it once for each time that
// the collector goes away. The library's own way is a handler of the whole process.
type counted struct {
	to     sdk.SpanExporter
	log    *slog.Logger
	failed atomic.Int64
	away   bool // only the batcher's goroutine looks at it
}

func (c *counted) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := c.to.ExportSpans(ctx, spans)
	if err != nil {
		c.failed.Add(int64(len(spans)))
	}
	if c.log != nil && (err != nil) != c.away {
		if err != nil {
			c.log.Warn("the collector takes no traces; they are dropped until it does", "error", err)
		} else {
			c.log.Info("the collector takes traces again", "dropped", c.failed.Load())
		}
	}
	c.away = err != nil
	return nil
}

func (c *counted) Shutdown(ctx context.Context) error { return c.to.Shutdown(ctx) }

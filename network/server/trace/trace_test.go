package trace_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/network/server/trace"
)

// receiver takes spans as a collector does.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	spans   []*otlp.Span
	service map[string]string
	raw     []byte
	refuse  bool
}

func collect(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{service: map[string]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		body, err := io.ReadAll(req.Body)
		var sent collector.ExportTraceServiceRequest
		switch {
		case r.refuse:
			w.WriteHeader(http.StatusForbidden)
			return
		case err != nil || req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(body, &sent) != nil:
			t.Errorf("no traces: %s %s %v", req.Method, req.URL, err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.raw = append(r.raw, body...)
		for _, of := range sent.ResourceSpans {
			for _, a := range of.Resource.Attributes {
				r.service[a.Key] = a.Value.GetStringValue()
			}
			for _, scope := range of.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Close)
	return r
}

// span gives the one of a name, with its attributes as text.
func (r *receiver) span(t *testing.T, name string) (*otlp.Span, map[string]string) {
	t.Helper()
	for _, s := range r.spans {
		if s.Name == name {
			attributes := map[string]string{}
			for _, a := range s.Attributes {
				attributes[a.Key] = strings.Trim(a.Value.String(), `"`)
			}
			return s, attributes
		}
	}
	t.Fatalf("no span %q", name)
	return nil, nil
}

func start(t *testing.T, endpoint string, log *slog.Logger) *trace.Tracer {
	t.Helper()
	tracer, err := trace.New(t.Context(), trace.Options{Endpoint: endpoint, Version: "v0.0.1", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

func stop(t *testing.T, tracer *trace.Tracer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := tracer.Close(ctx); err != nil {
		t.Error(err)
	}
}

// wrapped is a mux behind a handler that copies the request, as middleware does.
func wrapped(tracer *trace.Tracer) http.Handler {
	mux := routes()
	return tracer.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(r.Context()))
	}), func(r *http.Request) string {
		_, pattern := mux.Handler(r)
		return pattern
	})
}

func routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes/{node}", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "a node") })
	mux.HandleFunc("POST /refused", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) })
	mux.HandleFunc("POST /broken", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	mux.HandleFunc("GET /silent", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("GET /early", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusAccepted)
		_ = http.NewResponseController(w).Flush()
	})
	return mux
}

func ask(t *testing.T, handler http.Handler, method, target string, headers ...string) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	defer func() { _ = recover() }()
	handler.ServeHTTP(httptest.NewRecorder(), req)
}

func TestSpansOfRequests(t *testing.T) {
	to := collect(t)
	tracer := start(t, to.URL, nil)
	h := wrapped(tracer)
	const parent = "4bf92f3577b34da6a3ce929d0e0e4736"
	ask(t, h, "GET", "/api/v1/nodes/01JSECRETNODE?token=topsecret", "Authorization", "Bearer topsecret", "Traceparent", "00-"+parent+"-00f067aa0ba902b7-00")
	ask(t, h, "POST", "/refused")
	ask(t, h, "POST", "/broken")
	ask(t, h, "GET", "/silent")
	ask(t, h, "GET", "/abort")
	ask(t, h, "GET", "/early")
	ask(t, h, "GET", "/topsecret-no-route")
	ask(t, h, "TOPSECRET", "/refused")
	stop(t, tracer)

	if to.service["service.name"] != "assay-server" || to.service["service.version"] != "v0.0.1" {
		t.Errorf("the service is %v", to.service)
	}
	if len(to.spans) != 8 {
		t.Errorf("%d spans of 8 requests", len(to.spans))
	}
	for name, want := range map[string]struct {
		code  string
		error bool
	}{
		"GET /api/v1/nodes/{node}": {`int_value:200`, false},
		"POST /refused":            {`int_value:403`, false},
		"POST /broken":             {`int_value:502`, true},
		"GET /silent":              {`int_value:200`, false},
		"GET /abort":               {"", true},
		"GET /early":               {`int_value:202`, false},
		"GET":                      {`int_value:404`, false},
		"_OTHER":                   {`int_value:405`, false},
	} {
		s, attributes := to.span(t, name)
		failed := s.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR
		if got := attributes["http.response.status_code"]; got != want.code || failed != want.error {
			t.Errorf("%s: status %q, failed %v", name, got, failed)
		}
		if s.Kind != otlp.Span_SPAN_KIND_SERVER || s.EndTimeUnixNano < s.StartTimeUnixNano || len(s.ParentSpanId) != 0 {
			t.Errorf("%s: %v", name, s)
		}
		if hex.EncodeToString(s.TraceId) == parent {
			t.Errorf("%s goes on with a trace of the caller's", name)
		}
	}
	for _, secret := range []string{"topsecret", "TOPSECRET", "01JSECRETNODE"} {
		if bytes.Contains(to.raw, []byte(secret)) {
			t.Errorf("the collector was told %q", secret)
		}
	}
}

// Without a collector, or with one that never answers, requests go on, and what
// is lost is counted.
func TestACollectorThatIsAway(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, endpoint := range map[string]string{"silent": "http://" + silent.Addr().String(), "gone": gone.URL} {
		t.Run(name, func(t *testing.T) {
			tracer := start(t, endpoint, nil)
			h := wrapped(tracer)
			for range 5000 { // more than the queue holds
				ask(t, h, "GET", "/silent")
			}
			if name == "gone" {
				stop(t, tracer)
				if tracer.Failed() == 0 {
					t.Error("nothing was lost")
				}
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_ = tracer.Close(ctx) // returns, with what the library says of the time
		})
	}
}

func TestACollectorThatRefusesIsToldOnce(t *testing.T) {
	to := collect(t)
	to.refuse = true
	var said parttest.Buffer
	tracer := start(t, to.URL, slog.New(slog.NewTextHandler(&said, nil)))
	h := wrapped(tracer)
	for range 2000 { // several batches
		ask(t, h, "GET", "/silent")
	}
	stop(t, tracer)
	if n := strings.Count(said.String(), "takes no traces"); n != 1 {
		t.Errorf("said %d times:\n%s", n, said.String())
	}
	if tracer.Failed() == 0 {
		t.Error("nothing was counted")
	}
}

func TestEndpointsAreChecked(t *testing.T) {
	for _, endpoint := range []string{"", "collector:4318", "grpc://collector:4317", "http://user:secret@collector:4318", "http://"} {
		if _, err := trace.New(t.Context(), trace.Options{Endpoint: endpoint}); err == nil {
			t.Errorf("%q is taken", endpoint)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error has the password: %v", err)
		}
	}
}

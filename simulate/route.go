package simulate

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// plain is an answer that needs no pacing.
type plain struct {
	status      int
	contentType string
	header      string // further lines, each ended by CRLF
	body        []byte
}

func object(v any) plain {
	b, err := json.Marshal(v)
	if err != nil {
		return plain{http.StatusInternalServerError, "text/plain", "", []byte(err.Error())}
	}
	return plain{http.StatusOK, "application/json", "", b}
}

// failure is an error answer in the manner of the path's API.
func failure(path string, status int, format string, args ...any) plain {
	p := plain{status: status, contentType: "application/json"}
	p.body = errorBody(strings.HasPrefix(path, "/api/"), status, fmt.Sprintf(format, args...))
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		p.header = "Retry-After: 1\r\n"
	}
	return p
}

func errorBody(ollama bool, status int, message string) []byte {
	if ollama {
		b, _ := json.Marshal(map[string]string{"error": message}) // strings always marshal
		return b
	}
	return openAIError(status, message)
}

func openAIError(status int, message string) []byte {
	kind := "BadRequestError"
	switch {
	case status == http.StatusNotFound:
		kind = "NotFoundError"
	case status == http.StatusUnauthorized:
		kind = "AuthenticationError"
	case status == http.StatusTooManyRequests:
		kind = "RateLimitError"
	case status >= 500:
		kind = "InternalServerError"
	}
	type fault struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    int     `json:"code"`
	}
	b, _ := json.Marshal(map[string]fault{"error": {Message: message, Type: kind, Code: status}}) // strings always marshal
	return b
}

// route answers a request at once, or makes the reply that the pacer shall
// give. The stamp of the request is taken here, when its body has been read.
func (e *Engine) route(req *http.Request, body []byte) (*reply, plain) {
	at := time.Now()
	path := req.URL.Path
	method := http.MethodGet
	if e.cfg.Habits.OpenAIOnly && strings.HasPrefix(path, "/api/") {
		return nil, failure("", http.StatusNotFound, "no such path: %s", path)
	}
	switch path {
	case "/v1/chat/completions", "/v1/completions", "/api/generate", "/api/chat", "/api/show", "/control/stall", "/control/slow":
		method = http.MethodPost
	case "/v1/models", "/api/tags", "/api/ps", "/api/version", "/health", "/metrics", "/version", "/truth", "/":
	default:
		return nil, failure(path, http.StatusNotFound, "no such path: %s", path)
	}
	if req.Method != method && !(method == http.MethodGet && req.Method == http.MethodHead) {
		p := failure(path, http.StatusMethodNotAllowed, "%s needs %s", path, method)
		p.header = "Allow: " + method + "\r\n"
		return nil, p
	}
	if e.cfg.Habits.StrictHost && !localHost(req.Host) {
		return nil, plain{status: http.StatusForbidden, contentType: "text/plain"}
	}
	switch path {
	case "/truth":
		if e.truth == nil {
			return nil, failure(path, http.StatusNotFound, "no truth is kept: start the simulator with --truth")
		}
		return nil, plain{http.StatusOK, "application/x-ndjson", "", e.truth.lines(req.URL.Query().Get("id"))}
	case "/":
		return nil, plain{http.StatusOK, "text/plain; charset=utf-8", "", []byte("assay simulate is running\n")}
	case "/metrics":
		return nil, plain{http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", "", e.metrics()}
	case "/control/stall":
		return nil, e.control(req)
	case "/control/slow":
		return nil, e.slow(req)
	case "/version", "/api/version":
		return nil, object(map[string]string{"version": "0.0.0-simulated"})
	}
	if wait := e.cfg.Faults.SlowStart - at.Sub(e.created); wait > 0 {
		return nil, failure(path, http.StatusServiceUnavailable, "the engine is still loading")
	}
	if key := e.cfg.APIKey; key != "" && strings.HasPrefix(path, "/v1/") && req.Header.Get("Authorization") != "Bearer "+key {
		return nil, failure(path, http.StatusUnauthorized, "wrong or missing API key")
	}
	switch path {
	case "/health":
		return nil, plain{http.StatusOK, "text/plain", "", nil}
	case "/v1/models":
		return nil, e.models()
	case "/api/tags", "/api/ps":
		return nil, e.tags(path == "/api/ps")
	case "/api/show":
		return nil, e.show(body)
	}
	return e.generation(req, body, at)
}

func (e *Engine) models() plain {
	return object(map[string]any{
		"object": "list",
		"data": []any{map[string]any{
			"id": e.cfg.Model, "object": "model", "created": e.created.Unix(),
			"owned_by": "assay", "root": e.cfg.Model, "parent": nil, "max_model_len": e.cfg.MaxModelLen,
		}},
	})
}

func (e *Engine) tags(loaded bool) plain {
	m := map[string]any{
		"name": e.tag(), "model": e.tag(), "size": 1 << 30, "digest": strings.Repeat("0", 64),
		"details": map[string]any{
			"format": "gguf", "family": "simulated", "families": []string{"simulated"},
			"parameter_size": "1B", "quantization_level": "none",
		},
	}
	if loaded {
		m["expires_at"] = e.created.Add(24 * time.Hour).UTC().Format(time.RFC3339Nano)
		m["size_vram"] = 1 << 30
		m["context_length"] = e.cfg.MaxModelLen
	} else {
		m["modified_at"] = e.created.UTC().Format(time.RFC3339Nano)
	}
	return object(map[string]any{"models": []any{m}})
}

// tag is the model's name as Ollama lists it.
func (e *Engine) tag() string {
	if strings.Contains(e.cfg.Model, ":") {
		return e.cfg.Model
	}
	return e.cfg.Model + ":latest"
}

func (e *Engine) show(body []byte) plain {
	var ask struct{ Model, Name string }
	if err := json.Unmarshal(body, &ask); err != nil {
		return failure("/api/show", http.StatusBadRequest, "not JSON: %v", err)
	}
	if ask.Model == "" {
		ask.Model = ask.Name
	}
	if ask.Model != e.cfg.Model && ask.Model != e.tag() {
		return failure("/api/show", http.StatusNotFound, "model '%s' not found", ask.Model)
	}
	return object(map[string]any{
		"details":      map[string]any{"format": "gguf", "family": "simulated", "parameter_size": "1B", "quantization_level": "none"},
		"model_info":   map[string]any{"simulated.context_length": e.cfg.MaxModelLen},
		"capabilities": []string{"completion"},
	})
}

// slow makes all gaps from now on longer, or what they were.
func (e *Engine) slow(req *http.Request) plain {
	by, err := strconv.ParseFloat(req.URL.Query().Get("by"), 64)
	if err != nil || !(by >= 1 && by <= maxSlow) {
		return failure(req.URL.Path, http.StatusBadRequest, "by: want 1 to %d", maxSlow)
	}
	e.gauges.slow.Store(math.Float64bits(by))
	return object(map[string]float64{"slower_by": by})
}

// maxSlow bounds how much slower an engine gets on demand.
const maxSlow = 1000

func (e *Engine) control(req *http.Request) plain {
	ms, err := strconv.ParseInt(req.URL.Query().Get("ms"), 10, 64)
	if err != nil || ms <= 0 || ms > maxStall.Milliseconds() {
		return failure(req.URL.Path, http.StatusBadRequest, "ms: want 1 to %d", maxStall.Milliseconds())
	}
	e.pacer.stall(time.Duration(ms) * time.Millisecond)
	return object(map[string]int64{"stalled_ms": ms})
}

package inference

import "fmt"

// Backend is the dialect that an engine speaks. The names are vLLM's where it
// has one.
type Backend string

// The backends.
const (
	OpenAIChat Backend = "openai-chat" // POST /v1/chat/completions
	OpenAI     Backend = "openai"      // POST /v1/completions
	Ollama     Backend = "ollama"      // POST /api/generate
	OllamaChat Backend = "ollama-chat" // POST /api/chat
)

// Backends lists them all.
func Backends() []Backend { return []Backend{OpenAIChat, OpenAI, Ollama, OllamaChat} }

// ParseBackend reads a backend's name. "vllm" is how vLLM calls its own
// completions.
func ParseBackend(name string) (Backend, error) {
	switch name {
	case "vllm":
		return OpenAI, nil
	case "vllm-chat":
		return OpenAIChat, nil
	}
	for _, b := range Backends() {
		if name == string(b) {
			return b, nil
		}
	}
	return "", fmt.Errorf("unknown backend %q; there are %v", name, Backends())
}

// Endpoint is the path that the backend posts to.
func (b Backend) Endpoint() string {
	switch b {
	case OpenAIChat:
		return "/v1/chat/completions"
	case OpenAI:
		return "/v1/completions"
	case Ollama:
		return "/api/generate"
	case OllamaChat:
		return "/api/chat"
	}
	return ""
}

// Chat reports whether the backend takes messages rather than a prompt.
func (b Backend) Chat() bool { return b == OpenAIChat || b == OllamaChat }

// sse reports whether the stream is server-sent events rather than lines.
func (b Backend) sse() bool { return b == OpenAIChat || b == OpenAI }

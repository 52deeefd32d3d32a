package simulate

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
)

// known are the request members that no habit refuses as new.
var known = []string{
	"model", "messages", "prompt", "system", "stream", "stream_options", "max_tokens", "max_completion_tokens",
	"n", "temperature", "top_p", "seed", "stop", "options", "keep_alive", "raw", "think", "tools", "tool_choice",
	"frequency_penalty", "presence_penalty", "logprobs", "top_logprobs", "logit_bias", "user", "echo", "best_of",
	"response_format", "suffix", "template", "context", "images", "format",
}

// refuse answers a request that has a member which the engine does not take.
func (h *Habits) refuse(path string, body []byte) (plain, bool) {
	if len(h.Refuse) == 0 && !h.RefuseNew {
		return plain{}, false
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return plain{}, false // another answer says so
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if slices.Contains(h.Refuse, name) || (h.RefuseNew && !slices.Contains(known, name)) {
			return h.refusal(path, name, members[name]), true
		}
		var inside map[string]json.RawMessage
		if json.Unmarshal(members[name], &inside) != nil {
			continue
		}
		for _, full := range h.Refuse {
			if part, ok := strings.CutPrefix(full, name+"."); ok && inside[part] != nil {
				return h.refusal(path, full, inside[part]), true
			}
		}
	}
	return plain{}, false
}

// refusal is a 400 in the words of the dialect: vLLM's come from its validator,
// others speak as OpenAI does.
func (h *Habits) refusal(path, name string, value json.RawMessage) plain {
	if strings.HasPrefix(path, "/api/") {
		return failure(path, http.StatusBadRequest, "unknown field %q", name)
	}
	type fault struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Param   string `json:"param"`
		Code    any    `json:"code"`
	}
	f := fault{"Unrecognized request argument supplied: " + name, "invalid_request_error", name, nil}
	if h.Dialect == VLLM || h.Dialect == SGLang {
		f = fault{
			fmt.Sprintf("1 validation error:\n  {'type': 'extra_forbidden', 'loc': 'body.%s', 'msg': 'Extra inputs are not permitted', 'input': %s}", name, value),
			"Bad Request", "body." + name, http.StatusBadRequest,
		}
	}
	b, _ := json.Marshal(map[string]fault{"error": f}) // strings always marshal
	return plain{http.StatusBadRequest, "application/json", "", b}
}

// localHost reports whether a Host header names this machine.
func localHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		strings.HasSuffix(host, ".local") || (ip != nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsUnspecified()))
}

// length is how long an answer of at most n tokens is when the model ends by
// itself before that.
func (h *Habits) length(n int, ignoreEOS bool, r *reply) int {
	if h.EOSAfter == 0 || ignoreEOS || n <= h.EOSAfter {
		return n
	}
	r.finish = "stop"
	return h.EOSAfter + 1
}

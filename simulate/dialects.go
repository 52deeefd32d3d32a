package simulate

// text is the source of a shape. The texts of vllm, llama.cpp and ollama are
// what those engines were seen to send (testdata/wire holds the bytes, and a
// test compares); those of sglang and tgi were read in their sources.
type text struct {
	role, token, last, finish, usage, each, total string
	content, reasoning, tools                     wrap
	nameAlone                                     bool
}

// texts are the dialects: chat, and completions.
func texts() map[Dialect][2]text {
	return map[Dialect][2]text{
		Plain:    plainTexts(),
		VLLM:     vllmTexts(),
		SGLang:   sglangTexts(),
		LlamaCpp: llamaTexts(),
		OllamaV1: ollamaTexts(),
		TGI:      tgiTexts(),
	}
}

func plainTexts() [2]text {
	const (
		head   = `{"id":"chatcmpl-$id","object":"chat.completion.chunk","created":$created,"model":"$model","choices":[`
		choice = head + `{"index":$index,"delta":`
		open   = `,"logprobs":null,"finish_reason":null}]$usage}`
		ends   = `,"logprobs":null,"finish_reason":"$finish","stop_reason":null}]$usage$timings}`
		counts = `{"prompt_tokens":$in,"total_tokens":$all,"completion_tokens":$out,"prompt_tokens_details":$details}`

		plain     = `{"id":"cmpl-$id","object":"text_completion","created":$created,"model":"$model","choices":[`
		plainOpen = `,"logprobs":null,"finish_reason":null,"stop_reason":null}]$usage$timings}`
	)
	return [2]text{{
		role:   choice + `{"role":"assistant","content":$empty}` + open,
		token:  choice + `{$delta},"logprobs":null,"finish_reason":null}]$usage$timings}`,
		last:   choice + `{$delta}` + ends,
		finish: choice + `{}` + ends,
		usage:  head + `]$usage$timings$metrics}`,
		each:   counts,
	}, {
		token:  plain + `{"index":$index,"text":"$delta"` + plainOpen,
		last:   plain + `{"index":$index,"text":"$delta"` + ends,
		finish: plain + `{"index":$index,"text":""` + ends,
		usage:  plain + `]$usage$timings$metrics}`,
		each:   counts,
	}}
}

func vllmTexts() [2]text {
	const (
		mark   = `,"system_fingerprint":"vllm-0.32.0-simulate"`
		head   = `{"id":"chatcmpl-$id","object":"chat.completion.chunk","created":$created,"model":"$model","choices":[`
		choice = head + `{"index":$index,"delta":`
		ends   = `,"logprobs":null,"finish_reason":"$finish","stop_reason":null,"token_ids":null}]$usage$end(` + mark + `)}`

		plain     = `{"id":"cmpl-$id","object":"text_completion","created":$created,"model":"$model","choices":[`
		plainEnds = `,"logprobs":null,"finish_reason":"$finish","stop_reason":null,"prompt_token_ids":null,"token_ids":null}]$usage$end(` + mark + `)}`
	)
	return [2]text{{
		role:   choice + `{"role":"assistant","content":$empty},"logprobs":null,"finish_reason":null}]$usage,"prompt_token_ids":null,"prompt_text":null}`,
		token:  choice + `{$delta},"logprobs":null,"finish_reason":null,"token_ids":null}]$usage}`,
		last:   choice + `{$delta}` + ends,
		finish: choice + `{}` + ends,
		usage:  head + `]$usage` + mark + `$metrics}`,
		each:   `{"prompt_tokens":$in,"total_tokens":$all,"completion_tokens":$out,"completion_tokens_details":null}`,
		total:  `{"prompt_tokens":$in,"total_tokens":$all,"completion_tokens":$out}`,

		tools:     wrap{before: `"content":null,`},
		nameAlone: true,
	}, {
		token:  plain + `{"index":$index,"text":"$delta","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]$usage}`,
		last:   plain + `{"index":$index,"text":"$delta"` + plainEnds,
		finish: plain + `{"index":$index,"text":""` + plainEnds,
		usage:  plain + `]$usage` + mark + `$metrics}`,
		each:   `{"prompt_tokens":$in,"total_tokens":$all,"completion_tokens":$out}`,
	}}
}

func llamaTexts() [2]text {
	const (
		tail   = `],"created":$created,"id":"chatcmpl-$id","model":"$model","system_fingerprint":"b0-unknown","object":"chat.completion.chunk"`
		counts = `{"completion_tokens":$out,"prompt_tokens":$in,"total_tokens":$all,"prompt_tokens_details":{"cached_tokens":$cached}}`

		plain     = `{"choices":[{"text":"$delta","index":$index,"logprobs":null,"finish_reason":`
		plainTail = `}],"created":$created,"model":"$model","system_fingerprint":"b0-unknown","object":"text_completion"$usage,"id":"chatcmpl-$id"$timings}`
	)
	return [2]text{{
		role:   `{"choices":[{"finish_reason":null,"index":$index,"delta":{"role":"assistant","content":$empty}}` + tail + `$usage$timings}`,
		token:  `{"choices":[{"finish_reason":null,"index":$index,"delta":{$delta}}` + tail + `$usage$timings}`,
		last:   `{"choices":[{"finish_reason":"$finish","index":$index,"delta":{$delta}}` + tail + `$usage$timings}`,
		finish: `{"choices":[{"finish_reason":"$finish","index":$index,"delta":{}}` + tail + `$usage$timings}`,
		usage:  `{"choices":[` + tail + `$usage$timings}`,
		each:   counts,
	}, {
		token:  plain + `null` + plainTail,
		last:   plain + `"$finish"` + plainTail,
		finish: `{"choices":[{"text":"","index":$index,"logprobs":null,"finish_reason":"$finish"` + plainTail,
		usage:  `{"choices":[],"created":$created,"model":"$model","system_fingerprint":"b0-unknown","object":"text_completion"$usage,"id":"chatcmpl-$id"$timings}`,
		each:   counts,
	}}
}

func ollamaTexts() [2]text {
	const (
		head   = `{"id":"chatcmpl-$id","object":"chat.completion.chunk","created":$created,"model":"$model","system_fingerprint":"fp_ollama","choices":[`
		choice = head + `{"index":$index,"delta":`
		counts = `{"prompt_tokens":$in,"completion_tokens":$out,"total_tokens":$all}`

		plain     = `{"id":"cmpl-$id","object":"text_completion","created":$created,"choices":[`
		plainTail = `],"model":"$model","system_fingerprint":"fp_ollama"$usage}`
	)
	return [2]text{{
		role:   choice + `{"role":"assistant","content":$empty},"finish_reason":null}]$usage}`,
		token:  choice + `{$delta},"finish_reason":null}]$usage}`,
		last:   choice + `{$delta},"finish_reason":"$finish"}]$usage}`,
		finish: choice + `{"role":"assistant","content":""},"finish_reason":"$finish"}]$usage}`,
		usage:  head + `]$usage}`,
		each:   counts,

		reasoning: wrap{before: `"content":"",`},
		tools:     wrap{before: `"content":"",`},
	}, {
		token:  plain + `{"text":"$delta","index":$index,"finish_reason":null}` + plainTail,
		last:   plain + `{"text":"$delta","index":$index,"finish_reason":"$finish"}` + plainTail,
		finish: plain + `{"text":"","index":$index,"finish_reason":"$finish"}` + plainTail,
		usage:  plain + plainTail,
		each:   counts,
	}}
}

func sglangTexts() [2]text {
	const (
		head   = `{"id":"$id","object":"chat.completion.chunk","created":$created,"model":"$model","choices":[`
		choice = head + `{"index":$index,"delta":`
		counts = `{"prompt_tokens":$in,"total_tokens":$all,"completion_tokens":$out,"prompt_tokens_details":$details,"reasoning_tokens":0}`
		nobody = `{"role":null,"content":null,"reasoning_content":null,"tool_calls":null}`

		plain = `{"id":"$id","object":"text_completion","created":$created,"model":"$model","choices":[`
	)
	return [2]text{{
		role:   choice + `{"role":"assistant","content":$empty,"reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":null,"matched_stop":null}]$usage}`,
		token:  choice + `{$delta},"logprobs":null,"finish_reason":null,"matched_stop":null}]$usage}`,
		last:   choice + `{$delta},"logprobs":null,"finish_reason":"$finish","matched_stop":null}]$usage}`,
		finish: choice + nobody + `,"logprobs":null,"finish_reason":"$finish","matched_stop":null}]$usage}`,
		usage:  head + `]$usage}`,
		each:   counts,

		content:   wrap{`"role":null,`, `,"reasoning_content":null,"tool_calls":null`},
		reasoning: wrap{`"role":null,"content":null,`, `,"tool_calls":null`},
		tools:     wrap{`"role":null,"content":null,"reasoning_content":null,`, ``},
	}, {
		token:  plain + `{"index":$index,"text":"$delta","logprobs":null,"finish_reason":null,"matched_stop":null}]$usage}`,
		last:   plain + `{"index":$index,"text":"$delta","logprobs":null,"finish_reason":"$finish","matched_stop":null}]$usage}`,
		finish: plain + `{"index":$index,"text":"","logprobs":null,"finish_reason":"$finish","matched_stop":null}]$usage}`,
		usage:  plain + `]$usage}`,
		each:   counts,
	}}
}

func tgiTexts() [2]text {
	const (
		head   = `{"object":"chat.completion.chunk","id":"","created":$created,"model":"$model","system_fingerprint":"3.0.0-simulate","choices":[`
		choice = head + `{"index":$index,"delta":`
		counts = `{"prompt_tokens":$in,"completion_tokens":$out,"total_tokens":$all}`

		plain = `{"object":"text_completion","id":"","created":$created,"model":"$model","system_fingerprint":"3.0.0-simulate","choices":[`
	)
	return [2]text{{
		role:   choice + `{"role":"assistant","content":$empty},"logprobs":null,"finish_reason":null}]$usage}`,
		token:  choice + `{$delta},"logprobs":null,"finish_reason":null}]$usage}`,
		last:   choice + `{$delta},"logprobs":null,"finish_reason":"$finish"}]$usage}`,
		finish: choice + `{"role":"assistant","content":""},"logprobs":null,"finish_reason":"$finish"}]$usage}`,
		usage:  head + `]$usage}`,
		each:   counts,
	}, {
		token:  plain + `{"index":$index,"text":"$delta","logprobs":null,"finish_reason":""}]$usage}`,
		last:   plain + `{"index":$index,"text":"$delta","logprobs":null,"finish_reason":"$finish"}]$usage}`,
		finish: plain + `{"index":$index,"text":"","logprobs":null,"finish_reason":"$finish"}]$usage}`,
		usage:  plain + `]$usage}`,
		each:   counts,
	}}
}

package inference

import (
	"strconv"
	"strings"
)

// secrets are what the client sends and nobody may read again: an engine that
// echoes them in a refusal must not bring them into a record or a terminal.
type secrets []string

// minSecret is the shortest value that counts as one; shorter ones are in too
// many words.
const minSecret = 4

func newSecrets(cfg Config) (s secrets) {
	add := func(v string) {
		if len(v) < minSecret {
			return
		}
		s = append(s, v)
		if q := strconv.QuoteToASCII(v); q[1:len(q)-1] != v {
			s = append(s, q[1:len(q)-1]) // as it stands in a detail
		}
	}
	add(cfg.APIKey)
	for _, v := range cfg.Headers {
		add(v)
		if _, token, ok := strings.Cut(v, " "); ok {
			add(token) // Bearer, Basic
		}
	}
	return s
}

// mask takes the secrets out of a text, and the beginning of one at its cut end.
func (s secrets) mask(text string) string {
	const masked = "[secret]"
	for _, v := range s {
		text = strings.ReplaceAll(text, v, masked)
		end := strings.TrimSuffix(text, "…")
		for n := min(len(v)-1, len(end)); n >= minSecret; n-- {
			if strings.HasSuffix(end, v[:n]) {
				text = end[:len(end)-n] + masked
				break
			}
		}
	}
	return text
}

package inference

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// ErrSecretURL is an engine's address with a user or a password in it, which would
// stand in records and on terminals. Give an API key or a header instead.
var ErrSecretURL = errors.New("the engine's address holds a user or a password, which would be recorded; leave it out, and give an API key or a header")

// CheckURL refuses what is not an engine's address, without repeating a password
// that is in it.
func CheckURL(address string) error {
	_, err := parseURL(address)
	return err
}

func parseURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err == nil && u.User != nil, err != nil && strings.Contains(address, "@"):
		return nil, ErrSecretURL
	case err != nil:
		return nil, fmt.Errorf("engine's address: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("engine's address %q: write http://HOST:PORT or https://HOST", address)
	}
	return u, nil
}

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
		if shown := foreign.Line(v, 3*len(v)); shown != v {
			s = append(s, shown) // as it stands in a detail
		}
		if q, err := json.Marshal(v); err == nil && string(q[1:len(q)-1]) != v {
			s = append(s, string(q[1:len(q)-1])) // as an engine echoes it in JSON
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
	for _, v := range s {
		text = strings.ReplaceAll(text, v, assay.Secret)
		end := strings.TrimSuffix(text, "…")
		for n := min(len(v)-1, len(end)); n >= minSecret; n-- {
			if strings.HasSuffix(end, v[:n]) {
				text = end[:len(end)-n] + assay.Secret
				break
			}
		}
	}
	return text
}

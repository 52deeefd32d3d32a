package hammer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/journal"
)

// config resolves the flags into what runs and what is done with it. The notes
// are for the person who typed: flags without effect, what was left aside. All
// that is wrong is told at once.
func (f *hammerFlags) config(fs *pflag.FlagSet, env func(string) string, readFile func(string) ([]byte, error)) (hammer.Config, hammerOutputs, []string, error) {
	r := resolver{hammerFlags: f, fs: fs, notes: slices.Clone(f.notes)}
	for _, why := range f.refusals {
		r.bad("%s", why)
	}
	out, err := f.outputs()
	r.check(err)
	if f.resume != "" {
		r.check(checkRepeated(fs, "resume"))
		r.secrets(env)
		return r.c, out, r.notes, errors.Join(r.errs...)
	}
	if f.again != "" {
		r.again(env)
		return r.c, out, r.notes, errors.Join(r.errs...)
	}
	if f.file != "" {
		b, err := readFile(f.file)
		if err != nil {
			r.bad("read --config: %w", err)
		} else if r.file, err = parseHammerFile(f.file, b); err != nil {
			r.check(err)
		}
		if len(r.errs) > 0 { // what it names is not known: that would be told again, in other words
			return hammer.Config{}, out, r.notes, errors.Join(r.errs...)
		}
	}
	r.c = hammer.DefaultConfig()
	r.secrets(env)
	r.target()
	r.timeouts()
	r.load()
	r.data()
	r.sampling()
	r.rest(out)
	r.health(readFile)
	if len(r.errs) == 0 { // what Validate would say of a half-resolved Config misleads
		r.check(r.c.Validate())
	}
	if len(r.errs) > 0 {
		return hammer.Config{}, out, r.notes, errors.Join(r.errs...)
	}
	return r.c, out, r.notes, nil
}

// again takes the configuration of a run that was made before. Whoever made it wrote
// where its engine is: a key goes there only if the address is typed, too.
func (r *resolver) again(env func(string) string) {
	r.check(checkRepeated(r.fs, "again"))
	r.secrets(env)
	run, err := journal.Open(r.hammerFlags.again)
	if err != nil {
		r.bad("--again: %w", err)
		return
	}
	key, headers := r.c.APIKey, r.c.HeaderNames
	if r.c, err = hammer.ConfigOf(run.Manifest(), hammer.Secrets{Headers: r.c.Headers}); err != nil {
		r.bad("--again: %w", err)
		return
	}
	r.c.HeaderNames = headers
	switch {
	case r.given("base-url"):
		r.c.APIKey, r.c.Found = key, false
		r.address(r.baseURL)
	case key != "":
		r.note("OPENAI_API_KEY is not sent to an address that only a run's directory names; give it with --base-url %s to have it sent", assay.MaskURLs(r.c.URL))
	}
	if r.label != "" {
		r.c.Label = r.label
	}
	r.check(r.c.Validate())
}

// resolver is the state of one call of config.
type resolver struct {
	*hammerFlags
	fs    *pflag.FlagSet
	file  hammerFile
	c     hammer.Config
	notes []string
	errs  []error
}

func (r *resolver) bad(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}
func (r *resolver) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}
func (r *resolver) check(err error) {
	if err != nil {
		r.errs = append(r.errs, err)
	}
}

// given reports whether the flag is on the command line.
func (r *resolver) given(name string) bool { return r.fs.Changed(name) }

// givenOf lists those of the flags that are on the command line.
func (r *resolver) givenOf(names ...string) (out []string) {
	for _, n := range names {
		if r.given(n) {
			out = append(out, "--"+n)
		}
	}
	return out
}

// secrets are what neither run.json nor --dry-run shows.
func (r *resolver) secrets(env func(string) string) {
	r.c.APIKey = env("OPENAI_API_KEY")
	for _, pair := range r.headers {
		key, value, ok := strings.Cut(pair, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || !headerName(key) {
			// The value may be a secret: it is not repeated.
			r.bad("--header: write KEY=VALUE with a header's name as KEY, for example X-Tenant=a")
			continue
		}
		if strings.ContainsAny(value, "\r\n\x00") {
			r.bad("--header %s: the value holds a line break or a zero byte", key)
			continue
		}
		if r.c.Headers == nil {
			r.c.Headers = map[string]string{}
		}
		r.c.Headers[key] = value
		if strings.EqualFold(key, "Authorization") {
			r.c.APIKey = "" // one of them is sent, and this one was typed
		}
	}
	r.c.HeaderNames = slices.Sorted(maps.Keys(r.c.Headers))
}

// headerName reports whether s is a token of RFC 9110.
func headerName(s string) bool {
	for _, c := range s {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.ContainsRune("!#$%&'*+-.^_`|~", c):
		default:
			return false
		}
	}
	return s != ""
}

func (r *resolver) target() {
	base := r.baseURL
	if !r.given("base-url") && !r.given("host") && !r.given("port") {
		base = r.file.BaseURL
	}
	switch {
	case base != "":
		if hp := r.givenOf("host", "port"); len(hp) > 0 {
			r.bad("--base-url has host and port already; leave out %s", strings.Join(hp, " "))
		}
		r.address(base)
	case r.given("host") || r.given("port"):
		if r.port < 1 || r.port > 65535 {
			r.bad("--port is between 1 and 65535, not %d", r.port)
		}
		r.c.URL = "http://" + net.JoinHostPort(strings.Trim(r.host, "[]"), strconv.Itoa(r.port))
	}

	r.c.Insecure, r.c.CACert, r.c.Cert, r.c.Key = r.insecure, r.caCert, r.cert, r.key
	r.c.Backend = r.backendName()
	if r.endpoint != "" && !strings.HasPrefix(r.endpoint, "/") {
		r.bad("--endpoint is a path that begins with /, not %q", r.endpoint)
	}
	r.c.Endpoint = r.endpoint

	r.c.Model = r.model
	if r.c.Model == "" {
		r.c.Model = r.file.Model
	}
	if r.servedModel != "" {
		r.c.Model = r.servedModel
	}
	switch len(r.loraModules) {
	case 0:
	case 1:
		r.c.Model = r.loraModules[0]
	default:
		r.bad("--lora-modules: one run measures one model; run once for each of %s", strings.Join(r.loraModules, " "))
	}
}

// address takes the engine's URL as it was typed.
func (r *resolver) address(base string) {
	base = cli.WithScheme(base)
	u, err := url.Parse(base)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		r.bad("--base-url: write http://HOST:PORT or https://HOST")
	case u.User != nil:
		r.bad("--base-url holds a password, which would be recorded; use --header \"Authorization=Basic …\"")
	case u.RawQuery != "" || u.Fragment != "":
		r.bad("--base-url %s: leave out what follows the path", base)
	default:
		r.c.URL = strings.TrimRight(base, "/")
		if short, ok := strings.CutSuffix(r.c.URL, "/v1"); ok && r.endpoint == "" {
			r.c.URL = short
			r.note("--base-url: took %s, as the endpoint's path begins with /v1 itself", short)
		}
	}
}

// backendName resolves --backend, and checks it against --endpoint. Empty means
// that the engine that is found decides.
func (r *resolver) backendName() string {
	name := r.backend
	if name == "" {
		name = r.file.Backend
	}
	completions := strings.HasSuffix(r.endpoint, "completions")
	chat := strings.HasSuffix(r.endpoint, "chat/completions")
	switch name {
	case "":
		switch {
		case chat:
			return "openai-chat"
		case completions || r.vllmLoad():
			return "openai" // vLLM's default
		}
		return ""
	case "vllm", "openai":
		if r.endpoint != "" && (chat || !completions) {
			r.bad("--endpoint %s is not one of completions, which --backend %s speaks; leave out --endpoint, or use --backend openai-chat", r.endpoint, name)
		}
		return "openai"
	case "openai-chat":
		if r.endpoint != "" && !chat {
			r.bad("--endpoint %s is not one of chat completions, which --backend openai-chat speaks; leave out --endpoint", r.endpoint)
		}
		return name
	case "ollama", "ollama-chat":
		return name
	}
	if why, ok := backendRefusals[name]; ok {
		r.bad("--backend %s is not supported: %s; use openai, openai-chat, ollama or ollama-chat", name, why)
	} else {
		r.bad("unknown backend %q; known are openai (or vllm), openai-chat, ollama, ollama-chat", name)
	}
	return name
}

func (r *resolver) rest(out hammerOutputs) {
	c := &r.c
	c.Connection = hammer.Connection(r.connection)
	c.NumRuns, c.KeepText, c.UserClock = r.numRuns, r.keepText, r.userClock
	c.Label, c.RequestIDs, c.Priority = r.label, r.requestIDs, hammer.Priority(r.priority)
	if r.seed < 0 {
		r.bad("--seed must not be negative: %d", r.seed)
	}
	c.Seed = uint64(max(0, r.seed))
	if r.readyCheckSec < 0 {
		r.bad("--ready-check-timeout-sec must not be negative: %d", r.readyCheckSec)
	}
	c.ReadyCheck = assay.Duration(time.Duration(r.readyCheckSec) * time.Second)
	if !headerText(r.requestIDs) {
		r.bad("--request-id-prefix must be printable ASCII: it is sent in a header")
	}
	if out.SaveDetailed && (out.SaveResult || out.AppendResult || len(out.Exports) > 0) {
		c.KeepText = true // the detailed file holds the answers
	} else if out.SaveDetailed {
		r.note("--save-detailed writes nothing by itself; add --save-result or --append-result")
	}
	for _, pair := range r.metadata {
		key, value, ok := strings.Cut(pair, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			r.bad("--metadata %s: write KEY=VALUE", pair)
			continue
		}
		c.Metadata = append(c.Metadata, hammer.KeyValue{Key: key, Value: strings.TrimSpace(value)})
	}
	if r.given("metric-percentiles") {
		for _, p := range out.MetricPercentiles {
			if p != 50 && p != 90 && p != 95 && p != 99 { // those are always there
				c.Judge.Percentiles = append(c.Judge.Percentiles, p)
			}
		}
	}
	r.judge()
}

func headerText(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < 0x20 || c > 0x7e })
}

func (r *resolver) judge() {
	goodput, slo := r.goodput, r.slo
	if !r.given("goodput") {
		goodput = r.file.Goodput
	}
	if !r.given("slo") {
		slo = r.file.SLO
	}
	j := &r.c.Judge
	for _, word := range goodput {
		l, err := assay.ParseLimit(word)
		if err != nil {
			r.bad("--goodput: %w", err)
			continue
		}
		// The last of a name wins, as there.
		j.Goodput = slices.DeleteFunc(j.Goodput, func(o assay.Limit) bool { return o.Metric == l.Metric })
		j.Goodput = append(j.Goodput, l)
	}
	for _, words := range slo {
		for word := range strings.SplitSeq(words, ",") {
			o, err := assay.ParseObjective(word)
			if err != nil {
				r.bad("--slo: %w", err)
				continue
			}
			j.Objectives = append(j.Objectives, o)
		}
	}
	switch l := r.c.Load; {
	case l.Mode == hammer.ModeSaturate:
		j.Search = assay.SearchSaturate
	case l.Mode == hammer.ModeSustain:
		j.Search = assay.SearchSustain
	case l.Mode == hammer.ModeFindMax && l.FindMax == "rate":
		j.Search = assay.SearchMaxRate
	case l.Mode == hammer.ModeFindMax:
		j.Search = assay.SearchMaxConcurrency
	}
}

// mergeExtra makes one object of all --extra-body: each is a JSON object, or
// PATH=VALUE as Dotted writes it.
func mergeExtra(words []string) (json.RawMessage, error) {
	if len(words) == 0 {
		return nil, nil
	}
	merged := map[string]any{}
	for _, word := range words {
		if strings.HasPrefix(strings.TrimSpace(word), "{") {
			object, err := decodeJSON(word)
			if err != nil {
				return nil, fmt.Errorf("--extra-body is not JSON: %w", err)
			}
			maps.Copy(merged, object.(map[string]any))
			continue
		}
		path, text, ok := strings.Cut(word, "=")
		if !ok {
			return nil, fmt.Errorf(`--extra-body %s: write a JSON object, for example '{"min_tokens": 8}', or --extra-body.min_tokens 8`, word)
		}
		value, err := decodeJSON(text)
		if err != nil {
			value = text // a bare word is a string, as there
		}
		at, keys := merged, strings.Split(path, ".")
		for i, key := range keys {
			if key == "" || strings.HasSuffix(key, "+") {
				return nil, fmt.Errorf("--extra-body.%s: lists and empty names cannot be written with dots; write JSON", path)
			}
			if i == len(keys)-1 {
				at[key] = value
				break
			}
			next, ok := at[key].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[key] = next
			}
			at = next
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(merged); err != nil {
		return nil, fmt.Errorf("encode --extra-body: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// decodeJSON keeps numbers as they were written.
func decodeJSON(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the value")
	}
	return v, nil
}

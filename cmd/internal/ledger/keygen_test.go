package ledger

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/telemetry"
)

// secretsOf are an environment, and what a person answers, one word a question.
func secretsOf(env map[string]string, answers ...string) keys.Secrets {
	return keys.Secrets{
		Getenv: func(k string) string { return env[k] },
		Ask: func(context.Context, string) ([]byte, error) {
			if len(answers) == 0 {
				return nil, errors.New("there is no terminal")
			}
			a := answers[0]
			answers = answers[1:]
			return []byte(a), nil
		},
		Now: time.Now,
	}
}

var inEnvironment = map[string]string{keys.PassphraseVariable: "p"}

func statementFlags() keygenFlags {
	return keygenFlags{KeyTerms: KeyTerms{Owner: "Example GmbH", Days: 365, Roles: []string{"run"}}, kind: kindStatement, format: "text"}
}

func TestKeygenStatement(t *testing.T) {
	home := t.TempDir()
	var out bytes.Buffer
	f := statementFlags()
	if err := f.run(t.Context(), nil, secretsOf(map[string]string{"HOME": home}, "typed", "typed"), &out); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(home, ".config", "assay", "node")
	for path, mode := range map[string]fs.FileMode{name + ".key": 0o600, name + ".pub": 0o644, filepath.Dir(name): fs.ModeDir | 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	s, k, err := keys.SignerFlags{}.Open(t.Context(), secretsOf(map[string]string{"HOME": home}, "typed"))
	if err != nil {
		t.Fatal(err)
	}
	if k.Owner != "Example GmbH" || k.Node != telemetry.DescribeNode().ID || !k.Has(ledger.RoleRun) || !k.SelfSigned() || !s.Public().Equal(k.Public) {
		t.Errorf("key %+v", k)
	}
	if d := time.Until(k.NotAfter).Hours() / 24; !(d >= 364.9 && d <= 365.1) {
		t.Errorf("valid for %v days", d)
	}
	for _, want := range []string{k.ID, "Example GmbH", "may sign   run", "signed by  itself", name + ".key", "--trust node.pub"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	// Nothing is overwritten, and nobody asked for a passphrase in vain.
	if err := f.run(t.Context(), nil, secretsOf(map[string]string{"HOME": home}), io.Discard); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
	os.Remove(name + ".key")
	if err := f.run(t.Context(), nil, secretsOf(map[string]string{"HOME": home}), io.Discard); !errors.Is(err, fs.ErrExist) {
		t.Errorf("with a statement left: %v", err)
	}
	if _, err := os.Stat(name + ".key"); err == nil {
		t.Error("half of a key was made")
	}
}

func TestKeygenForLogAndWitness(t *testing.T) {
	for _, kind := range []string{kindLog, kindWitness} {
		name := filepath.Join(t.TempDir(), "k")
		var out bytes.Buffer
		f := keygenFlags{kind: kind, name: kind + ".example.org/gpu", format: "json"}
		if err := f.run(t.Context(), []string{name}, secretsOf(inEnvironment), &out); err != nil {
			t.Fatal(err)
		}
		var m madeKey
		if err := json.Unmarshal(out.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		// With a command the public half comes from NAME.vkey.
		s, err := keys.SignerFlags{Key: name + ".key", Signer: "/bin/false"}.OpenNote(t.Context(), secretsOf(nil))
		if err != nil {
			t.Fatal(err)
		}
		want := "log " + ledger.NoteVerifierKey(f.name, s.Public())
		if kind == kindWitness {
			want = "witness " + f.name + " " + ledger.CosignatureVerifierKey(f.name, s.Public())
		} else if _, err := note.NewVerifier(m.VKey); err != nil {
			t.Error(err)
		}
		if m.Policy != want {
			t.Errorf("policy line %q, want %q", m.Policy, want)
		}
		if b, err := os.ReadFile(name + ".vkey"); err != nil || string(b) != m.VKey+"\n" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		if kind == kindLog { // once is enough: to decrypt takes long, on purpose
			held, err := keys.SignerFlags{Key: name + ".key"}.OpenNote(t.Context(), secretsOf(inEnvironment))
			if err != nil || !held.Public().Equal(s.Public()) {
				t.Errorf("from its file: %v", err)
			}
		}
		b, _ := os.ReadFile(name + ".vkey")
		os.WriteFile(name+".vkey", bytes.Replace(b, []byte("example"), []byte("elsewhere"), 1), 0o644)
		if _, err := (keys.SignerFlags{Key: name + ".key", Signer: "/bin/false"}).OpenNote(t.Context(), secretsOf(nil)); err == nil {
			t.Error("an altered verifier key was taken")
		}
	}
}

func TestKeygenRefuses(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "k")
	open := filepath.Join(dir, "open")
	os.WriteFile(open, []byte("p\n"), 0o644)
	empty := filepath.Join(dir, "empty")
	os.WriteFile(empty, []byte("\n"), 0o600)
	for _, tt := range []struct {
		what    string
		change  func(*keygenFlags)
		args    []string
		secrets keys.Secrets
		says    string
	}{
		{"no owner", func(f *keygenFlags) { f.Owner = "" }, []string{name}, secretsOf(inEnvironment), "--owner"},
		{"owner not printable", func(f *keygenFlags) { f.Owner = "a\x1b" }, []string{name}, secretsOf(inEnvironment), "printed"},
		{"days", func(f *keygenFlags) { f.Days = 0 }, []string{name}, secretsOf(inEnvironment), "--days 0"},
		{"role", func(f *keygenFlags) { f.Roles = []string{"root"} }, []string{name}, secretsOf(inEnvironment), `unknown role "root"`},
		{"kind", func(f *keygenFlags) { f.kind = "x" }, []string{name}, secretsOf(inEnvironment), "known are"},
		{"format", func(f *keygenFlags) { f.format = "x" }, []string{name}, secretsOf(inEnvironment), "known are"},
		{"name of a statement's key", func(f *keygenFlags) { f.name = "x" }, []string{name}, secretsOf(inEnvironment), "--name"},
		{"log without a name", func(f *keygenFlags) { f.kind = kindLog }, []string{name}, secretsOf(inEnvironment), "--name"},
		{"log with a bad name", func(f *keygenFlags) { f.kind, f.name = kindLog, "a b" }, []string{name}, secretsOf(inEnvironment), "without spaces"},
		{"log without files", func(f *keygenFlags) { f.kind, f.name = kindLog, "a" }, nil, secretsOf(inEnvironment), "give a NAME"},
		{"no home", func(*keygenFlags) {}, nil, secretsOf(inEnvironment), "HOME"},
		{"a directory", func(*keygenFlags) {}, []string{dir + "/"}, secretsOf(inEnvironment), "no name"},
		{"no such directory", func(*keygenFlags) {}, []string{filepath.Join(dir, "no", "k")}, secretsOf(inEnvironment), "no such file"},
		{"no terminal", func(*keygenFlags) {}, []string{name}, secretsOf(nil), "terminal"},
		{"empty passphrase", func(*keygenFlags) {}, []string{name}, secretsOf(nil, ""), "protects nothing"},
		{"two passphrases", func(*keygenFlags) {}, []string{name}, secretsOf(nil, "a", "b"), "not the same"},
		{"passphrase for all to read", func(f *keygenFlags) { f.passphraseFile = open }, []string{name}, secretsOf(nil), "0644"},
		{"passphrase file empty", func(f *keygenFlags) { f.passphraseFile = empty }, []string{name}, secretsOf(nil), "protects nothing"},
		{"signer alone", func(f *keygenFlags) { f.signer = "x" }, []string{name}, secretsOf(nil), "go together"},
		{"public key", func(f *keygenFlags) { f.signer, f.publicKey = "x", "AAAA" }, []string{name}, secretsOf(nil), "32 bytes"},
		{"signer fails", func(f *keygenFlags) {
			f.signer, f.publicKey = "/bin/false", base64.StdEncoding.EncodeToString(make([]byte, 32))
		}, []string{name}, secretsOf(nil), "signer command failed"},
	} {
		f := statementFlags()
		tt.change(&f)
		if err := f.run(t.Context(), tt.args, tt.secrets, io.Discard); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", tt.what, err, tt.says)
		}
	}
	if left, _ := filepath.Glob(name + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	// The flags of a statement are not passed over in silence.
	cmd := newLedgerKeygen()
	cmd.SetArgs([]string{name, "--kind", "log", "--name", "l", "--owner", "o"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "--owner is for") {
		t.Errorf("owner of a log: %v", err)
	}
}

// A key outside signs its own statement, and then runs.
func TestKeyOutside(t *testing.T) {
	dir := t.TempDir()
	pub, priv, _ := ed25519.GenerateKey(nil)
	seed := filepath.Join(dir, "seed")
	os.WriteFile(seed, priv.Seed(), 0o600)
	t.Setenv("ASSAY_TEST_SIGN_WITH", seed)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := statementFlags()
	f.format, f.Roles, f.Node = "json", []string{"authority"}, "office"
	f.signer, f.publicKey = self+" -test.run=^TestSignForAnother$", base64.StdEncoding.EncodeToString(pub)
	env := map[string]string{"HOME": "/nowhere", "XDG_CONFIG_HOME": dir}
	var out bytes.Buffer
	if err := f.run(t.Context(), nil, secretsOf(env), &out); err != nil {
		t.Fatal(err)
	}
	var m madeKey
	if err := json.Unmarshal(out.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "assay", "node")
	if m.Kind != "statement" || m.KeyFile != "" || m.PublicFile != name+".pub" || m.Statement == nil || m.Statement.Node != "office" || m.Statement.Roles[0] != ledger.RoleAuthority {
		t.Errorf("%s", &out)
	}
	if _, err := os.Stat(name + ".key"); err == nil {
		t.Error("a key file was made for a key that is outside")
	}
	s, k, err := keys.SignerFlags{Signer: f.signer}.Open(t.Context(), secretsOf(env))
	if err != nil {
		t.Fatal(err)
	}
	if e, err := ledger.Sign(context.Background(), s, []byte("{}")); err != nil || e.Verify(k.Public) != nil {
		t.Errorf("sign: %v", err)
	}
}

// TestSignForAnother is the signer command of TestKeyOutside.
func TestSignForAnother(t *testing.T) {
	path := os.Getenv("ASSAY_TEST_SIGN_WITH")
	if path == "" {
		t.Skip("only as a child of TestKeyOutside")
	}
	seed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := io.ReadAll(os.Stdin)
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString(base64.StdEncoding.EncodeToString(ed25519.Sign(ed25519.NewKeyFromSeed(seed), m)) + "\n")
	os.Exit(0)
}

func TestParsePublicKey(t *testing.T) {
	want := ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey)
	// The line by hand: 11, "ssh-ed25519", 32, the key.
	raw := append([]byte("\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20"), want...)
	line := "ssh-ed25519 " + base64.StdEncoding.EncodeToString(raw) + " a comment"
	for _, s := range []string{base64.StdEncoding.EncodeToString(want), line} {
		if got, err := parsePublicKey(s); err != nil || !got.Equal(want) {
			t.Errorf("%s: %x, %v", s, got, err)
		}
	}
}

func TestSignerFlagsRefuse(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.key"), filepath.Join(dir, "b.pub")
	if err := statementFlags().run(t.Context(), []string{a}, secretsOf(inEnvironment), io.Discard); err != nil {
		t.Fatal(err)
	}
	other := ledger.HeldKey(ed25519.NewKeyFromSeed(make([]byte, 32)))
	k, err := ledger.StateKey(context.Background(), other.Public(), other, ledger.KeyOptions{Node: "n", Owner: "o"})
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(b, k.Envelope, 0o644)
	mixed := filepath.Join(dir, "mixed")
	for from, to := range map[string]string{a: mixed + ".key", b: mixed + ".pub"} {
		raw, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		os.WriteFile(to, raw, 0o600)
	}
	lonely := filepath.Join(dir, "lonely.key")
	raw, _ := os.ReadFile(a)
	os.WriteFile(lonely, raw, 0o600)
	later := func(d time.Duration) keys.Secrets {
		s := secretsOf(inEnvironment)
		s.Now = func() time.Time { return time.Now().Add(d) }
		return s
	}
	for _, tt := range []struct {
		what    string
		flags   keys.SignerFlags
		secrets keys.Secrets
		want    error
		says    string
	}{
		{"good, by its statement", keys.SignerFlags{Key: strings.TrimSuffix(a, ".key") + ".pub"}, later(0), nil, ""},
		{"expired", keys.SignerFlags{Key: a}, later(366 * 24 * time.Hour), ledger.ErrKeyExpired, "make a new key"},
		{"clock stepped back", keys.SignerFlags{Key: a}, later(-time.Hour), ledger.ErrKeyNotYetValid, "the clock says"},
		{"another's statement", keys.SignerFlags{Key: mixed + ".key"}, later(0), nil, "about another key"},
		{"no statement", keys.SignerFlags{Key: lonely}, later(0), fs.ErrNotExist, "keygen"},
		{"no ending", keys.SignerFlags{Key: "node"}, later(0), nil, "end in .key"},
		{"no passphrase", keys.SignerFlags{Key: a}, secretsOf(nil), nil, "there is no terminal"},
		{"signer of nothing", keys.SignerFlags{Key: a, Signer: "  "}, later(0), nil, "give a command"},
	} {
		_, _, err := tt.flags.Open(t.Context(), tt.secrets)
		if tt.want != nil && !errors.Is(err, tt.want) || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %v (%q)", tt.what, err, tt.want, tt.says)
		}
	}
}

// The file goes before the environment, and that before the terminal.
func TestPassphraseSources(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p")
	os.WriteFile(file, []byte(" in a file \r\n"), 0o600)
	for _, tt := range []struct{ file, env, typed, want string }{
		{file, "env", "typed", " in a file "},
		{"", "env", "typed", "env"},
		{"", "", "typed", "typed"},
	} {
		got, err := secretsOf(map[string]string{keys.PassphraseVariable: tt.env}, tt.typed).Passphrase(t.Context(), tt.file, "?", false)
		if err != nil || string(got) != tt.want {
			t.Errorf("%+v: %q, %v", tt, got, err)
		}
	}
}

package server

import (
	"bytes"
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/network/server/decide"
	"github.com/assay-bench/assay/network/server/webhook"
	"github.com/assay-bench/assay/network/store"
)

// run runs the command as the program does.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	root := cli.Root("assay", nil, New())
	root.SetOut(&out)
	root.SetErr(&errs)
	code = cli.Run(t.Context(), root, args)
	return code, out.String(), errs.String()
}

// The admin's token is in its file, which is its owner's only, and nowhere else.
func TestInit(t *testing.T) {
	dir := t.TempDir()
	db, token := "sqlite:"+filepath.Join(dir, "a.db"), filepath.Join(dir, "admin")
	code, stdout, stderr := run(t, "server", "init", "--database", db, "--admin-token-file", token, "--origin", "example.test")
	if code != 0 {
		t.Fatalf("%d %s", code, stderr)
	}
	b, err := os.ReadFile(token)
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSpace(string(b))
	if secret == "" || strings.Contains(stdout+stderr, secret) {
		t.Errorf("the token was printed: %s%s", stdout, stderr)
	}
	for _, name := range []string{token, filepath.Join(dir, "a.db.keys", "enrol.key"), filepath.Join(dir, "a.db.keys", "server.key"), filepath.Join(dir, "a.db.keys", "passphrase")} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	file, err := os.ReadFile(filepath.Join(dir, "a.db"))
	if err != nil || bytes.Contains(file, []byte(secret)) {
		t.Errorf("the database has the token: %v", err)
	}
	if code, _, stderr := run(t, "server", "init", "--database", db, "--admin-token-file", token); code != 1 || !strings.Contains(stderr, "is there already") {
		t.Errorf("over the old token: %d %s", code, stderr)
	}
	// Another admin's token in place of a lost one; the keys stay.
	before := tree(t, filepath.Join(dir, "a.db.keys"))
	if !strings.Contains(stdout, "it ends 20") || strings.Contains(stdout, "still good") {
		t.Errorf("when the token ends:\n%s", stdout)
	}
	if code, stdout, stderr := run(t, "server", "init", "--database", db, "--admin-token-file", token+"2"); code != 0 || !strings.Contains(stdout, "1 other admins' tokens are still good") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	if after := tree(t, filepath.Join(dir, "a.db.keys")); after != before {
		t.Error("the keys were replaced")
	}
	if code, _, stderr := run(t, "server", "init", "--database", db, "--admin-token-file", token+"3", "--origin", "other"); code != 1 || !strings.Contains(stderr, "example.test already") {
		t.Errorf("another origin: %d %s", code, stderr)
	}
}

// Nodes know their server by its name and its keys: whoever lost the directory, or
// forgot to name it, does not get another server in its place.
func TestInitMakesNoOtherServerOfOneWithNodes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.db")
	if code, _, stderr := run(t, "server", "init", "--database", "sqlite:"+file, "--admin-token-file", filepath.Join(dir, "admin")); code != 0 {
		t.Fatalf("%d %s", code, stderr)
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	for _, insert := range []string{
		"INSERT INTO owners (name, created_at) VALUES ('ours', 1)",
		`INSERT INTO nodes (id, owner, name, hostname, admission, intent, contact, version, policy_version, state, reasons, last_report, inventory, inventory_sha256, settings, settings_version, created_at, updated_at)
			VALUES ('01J00000000000000000000000', 'ours', '', 'h', 'pending', 'serve', 'seen', 1, 1, '{}', '[]', '', '{}', '', '{}', 0, 1, 1)`,
	} {
		if _, err := db.ExecContext(t.Context(), insert); err != nil {
			t.Fatal(err)
		}
	}
	db.Close()
	if err := os.Rename(file+".keys", file+".elsewhere"); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := run(t, "server", "init", "--database", "sqlite:"+file, "--admin-token-file", filepath.Join(dir, "second"))
	if code != 1 || !strings.Contains(stderr, "give --state") {
		t.Errorf("%d %s", code, stderr)
	}
	if _, err := os.Stat(file + ".keys"); err == nil {
		t.Error("other keys were made")
	}
	if code, _, stderr := run(t, "server", "init", "--database", "sqlite:"+file, "--state", file+".elsewhere", "--admin-token-file", filepath.Join(dir, "second")); code != 0 {
		t.Errorf("with its keys: %d %s", code, stderr)
	}
}

func tree(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all.WriteString(path)
		all.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_STATE_HOME", "")
	db := "sqlite:" + filepath.Join(dir, "b.db")
	for want, args := range map[string][]string{
		"--database URL is needed":    {"server"},
		"can be reached by others":    {"server", "--database", db, "--listen", "0.0.0.0:0"},
		"server init":                 {"server", "--database", db, "--listen", ":0"},
		"not a database URL":          {"server", "--database", "mysql://x"},
		"--admin-token-file FILE":     {"server", "init", "--database", db},
		"without tokens of their own": {"server", "--database", db, "--listen-token-file", "x"},
		"whole seconds":               {"server", "--database", db, "--heartbeat", "10ms"},
		"--owner NAME":                {"server", "token", "create"},
		"unknown command \"serve\"":   {"server", "serve"},
		"it needs a policy's file":    {"server", "policy", "apply"},
		"which server?":               {"server", "policy", "show"},
		"a minute to 30 days":         {"server", "token", "create", "--owner", "me", "--valid", "1s"},
		"1 to 200 letters":            {"server", "init", "--database", db, "--admin-token-file", filepath.Join(dir, "t"), "--origin", "two words"},
	} {
		if code, _, stderr := run(t, args...); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d %s, and not %q", args, code, stderr, want)
		}
	}
}

// tokensIn counts the enrolment tokens of a database.
func tokensIn(t *testing.T, url string) int {
	t.Helper()
	db, st, err := open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tokens, err := st.EnrolmentTokens(t.Context(), store.Scope{All: true}, store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	return len(tokens)
}

// The whole way: a server that was just made answers, makes a token and ends in
// order.
func TestServe(t *testing.T) {
	dir, ask := served(t)
	db := "sqlite:" + filepath.Join(dir, "a.db")
	code, token, stderr := ask("token", "create", "--owner", "me")
	if code != 0 || !strings.HasPrefix(token, "assay_enrol_") || strings.Count(token, "\n") != 1 {
		t.Errorf("%d %q %s", code, token, stderr)
	}
	out := filepath.Join(dir, "enrol")
	if code, printed, stderr := ask("token", "create", "--owner", "me", "--out", out); code != 0 || printed != "" {
		t.Errorf("%d %q %s", code, printed, stderr)
	}
	// The file is there: no token is made that would have nowhere to go. One that the
	// server refuses leaves no file.
	made := func() int {
		t.Helper()
		code, printed, stderr := ask("token", "create", "--owner", "me", "--out", out)
		if code != 1 || printed != "" || !strings.Contains(stderr, "is there already") {
			t.Errorf("%d %q %s", code, printed, stderr)
		}
		return tokensIn(t, db)
	}
	if n := made(); n != 2 {
		t.Errorf("%d tokens were made; one was printed and one is in the file", n)
	}
	none := filepath.Join(dir, "none")
	if code, _, stderr := ask("token", "create", "--owner", "Not A Name", "--out", none); code != 1 || stderr == "" {
		t.Errorf("%d %s", code, stderr)
	}
	if _, err := os.Lstat(none); !os.IsNotExist(err) {
		t.Errorf("a token that was refused left a file: %v", err)
	}
	if code, printed, stderr := ask("policy", "show"); code != 0 || !strings.Contains(printed, "assay/policy/v1") {
		t.Errorf("%d %q %s", code, printed, stderr)
	}
}

// A name that was mistyped makes no database.
func TestNoNewFileByMistake(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none.db")
	for _, args := range [][]string{{"server"}, {"server", "migrate"}, {"server", "restored"}} {
		code, _, stderr := run(t, append(args, "--database", "sqlite:"+file)...)
		if code != 1 || !strings.Contains(stderr, "there is no file") {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
	}
	if _, err := os.Lstat(file); err == nil {
		t.Error("it made one")
	}
}

// What no message can reach is known before one is sent.
func TestWebhooksThatNothingReaches(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("s", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		url   string
		allow []string
		fails bool
	}{
		{"http://127.0.0.1:1/in", nil, true},
		{"http://localhost:1/in", nil, true},
		{"https://[fe80::1]/in", nil, true},
		{"http://127.0.0.1:1/in", []string{"127.0.0.0/8"}, false},
		{"https://pager.example/in", nil, false},
	} {
		f := workFlags{webhooks: []string{"page=" + c.url}, webhookSecret: secret, allow: c.allow}
		err := f.hooks(&decide.Options{Webhooks: webhook.Targets{}})
		if (err != nil) != c.fails || c.fails && !strings.Contains(err.Error(), "--allow-network") {
			t.Errorf("%s %v: %v", c.url, c.allow, err)
		}
	}
}

// A look from outside needs what belongs together, and secrets that are some.
func TestOutsideFlags(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	pin, short := write("pin", strings.Repeat("0123456789abcdef", 4)+"\n"), write("short", "abc\n")
	for _, c := range []struct {
		f    outsideFlags
		says string
	}{
		{outsideFlags{router: "http://lb"}, "for --look-outside"},
		{outsideFlags{on: true, router: "http://lb"}, "belong together"},
		{outsideFlags{on: true, pinFile: pin}, "belong together"},
		{outsideFlags{on: true, router: "http://lb", pinFile: short}, "at least 16"},
		{outsideFlags{on: true, router: "lb:80", pinFile: pin}, "the router's address"},
		{outsideFlags{on: true, keyFile: filepath.Join(dir, "none")}, "--engine-key-file"},
	} {
		if _, err := c.f.open(t.Context(), new(store.Store), new(decide.Decider), nil); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.f, err)
		}
	}
	var none outsideFlags
	if p, err := none.open(t.Context(), new(store.Store), new(decide.Decider), nil); p != nil || err != nil {
		t.Errorf("without any flag: %v, %v", p, err)
	}
	good := outsideFlags{on: true, router: "http://lb", pinFile: pin, keyFile: short}
	if p, err := good.open(t.Context(), new(store.Store), new(decide.Decider), []string{"10.0.0.0/8"}); p == nil || err != nil {
		t.Errorf("%v, %v", p, err)
	}
}

//go:build unix

package ledger

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/assay-bench/assay/internal/parttest"
)

// phrase gives a passphrase anew each time, as it is overwritten by its user.
func phrase(s string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(s), nil }
}

func notAsked(t *testing.T) func() ([]byte, error) {
	return func() ([]byte, error) {
		t.Error("the passphrase of a file was asked that is refused anyway")
		return nil, errors.New("not to be asked")
	}
}

// errAsked stands for a file that is good enough to ask for its passphrase. To
// decrypt takes long, on purpose.
var errAsked = errors.New("asked")

func asked() ([]byte, error) { return nil, errAsked }

// secretFile writes a file as a private key is kept; what is in it matters only
// to whoever comes so far as to read it.
func secretFile(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.key")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// plainKeyFile is a file without a passphrase.
func plainKeyFile(t *testing.T, priv ed25519.PrivateKey) []byte {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(priv, "")
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

func TestKeyFile(t *testing.T) {
	old := syscall.Umask(0) // the mode must not depend on it
	defer syscall.Umask(old)
	_, priv, _ := ed25519.GenerateKey(nil)
	path := filepath.Join(t.TempDir(), "a.key")
	if err := WriteKeyFile(path, priv, []byte("correct horse"), "a comment"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	s, err := ReadKeyFile(path, phrase("correct horse"))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := s.Sign(t.Context(), []byte("m"))
	if err != nil || !ed25519.Verify(priv.Public().(ed25519.PublicKey), []byte("m"), sig) {
		t.Errorf("the key signs otherwise than before: %v", err)
	}
	b, _ := os.ReadFile(path)
	if bytes.Contains(b, priv.Seed()) {
		t.Error("the seed lies in the file")
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%x", "%d", "%s"} {
		if text := fmt.Sprintf(verb, s); strings.Contains(text, fmt.Sprintf("%x", priv.Seed()[:4])) || strings.Contains(text, strings.Trim(fmt.Sprintf("%v", priv.Seed()[:4]), "[]")) {
			t.Errorf("printing a signer with %s shows its key", verb)
		}
	}
	if _, err := ReadKeyFile(path, phrase("wrong horse")); !errors.Is(err, ErrPassphrase) {
		t.Errorf("wrong passphrase: %v", err)
	}
	if _, err := ReadKeyFile(path, phrase("")); !errors.Is(err, ErrPassphrase) {
		t.Errorf("no passphrase: %v", err)
	}
	lost := errors.New("terminal is gone")
	if _, err := ReadKeyFile(path, func() ([]byte, error) { return nil, lost }); !errors.Is(err, lost) {
		t.Errorf("asking failed: %v", err)
	}
	// The link is as good as what it leads to.
	link := filepath.Join(t.TempDir(), "link.key")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKeyFile(link, asked); !errors.Is(err, errAsked) {
		t.Errorf("a link to a good file: %v", err)
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKeyFile(path, asked); !errors.Is(err, errAsked) {
		t.Errorf("mode 0400: %v", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("ssh-keygen", func(t *testing.T) { keyFileAndSSHKeygen(t, path, "correct horse", priv) })
}

func TestKeyFileIsNeverOverwritten(t *testing.T) {
	path := secretFile(t, []byte("the old key"))
	before, _ := os.ReadFile(path)
	_, priv, _ := ed25519.GenerateKey(nil)
	err := WriteKeyFile(path, priv, []byte("p"), "")
	if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "choose another name") {
		t.Errorf("over another: %v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the old key was changed")
	}
	dangling := filepath.Join(t.TempDir(), "b.key")
	if err := os.Symlink(filepath.Join(t.TempDir(), "nothing"), dangling); err != nil {
		t.Fatal(err)
	}
	if err := WriteKeyFile(dangling, priv, []byte("p"), ""); !errors.Is(err, fs.ErrExist) {
		t.Errorf("through a link: %v", err)
	}
	for what, err := range map[string]error{
		"no passphrase": WriteKeyFile(filepath.Join(t.TempDir(), "c"), priv, nil, ""),
		"no key":        WriteKeyFile(filepath.Join(t.TempDir(), "c"), nil, []byte("p"), ""),
		"no directory":  WriteKeyFile(filepath.Join(t.TempDir(), "no", "c"), priv, []byte("p"), ""),
	} {
		if err == nil {
			t.Errorf("%s: written", what)
		}
	}
}

// Mode bits are judged, not whether we can read it: root always can.
func TestKeyFileOthersCanRead(t *testing.T) {
	path := secretFile(t, []byte("the old key"))
	link := filepath.Join(t.TempDir(), "link.key")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o602, 0o644, 0o610, 0o601, 0o666, 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{path, link} {
			_, err := ReadKeyFile(p, notAsked(t))
			if !errors.Is(err, ErrSecretMode) || !strings.Contains(err.Error(), fmt.Sprintf("%04o", mode)) || !strings.Contains(err.Error(), "chmod 600") {
				t.Errorf("mode %o: %v", mode, err)
			}
		}
	}
}

func TestKeyFileOfSomebodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		parttest.Need(t, "only root can give a file away")
	}
	path := secretFile(t, []byte("the old key"))
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKeyFile(path, notAsked(t)); !errors.Is(err, ErrSecretOwner) || !strings.Contains(err.Error(), "12345") {
		t.Errorf("another's file: %v", err)
	}
}

func TestKeyFileOfAnotherKind(t *testing.T) {
	dir := t.TempDir()
	write := func(b []byte) string {
		f, err := os.CreateTemp(dir, "*.key") // mode 0600
		if err != nil {
			t.Fatal(err)
		}
		f.Write(b)
		f.Close()
		return f.Name()
	}
	_, priv, _ := ed25519.GenerateKey(nil)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaPub, err := ssh.NewPublicKey(rsaKey.Public())
	if err != nil {
		t.Fatal(err)
	}
	encryptedRSA := pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY", Bytes: append([]byte("openssh-key-v1\x00"), ssh.Marshal(struct {
		Cipher, KDF, Options string
		Keys                 uint32
		Public, Private      []byte
	}{"aes256-ctr", "bcrypt", "salt", 1, rsaPub.Marshal(), []byte("whatever")})...)})
	pipe := filepath.Join(dir, "pipe.key")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "folder.key")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	good := plainKeyFile(t, priv)
	for _, tt := range []struct {
		name, path string
		want       error
		says       string
	}{
		{"not encrypted", write(good), ErrKeyPlain, "ssh-keygen -p -f"},
		{"rsa", write(encryptedRSA), ErrKeyKind, "keygen"},
		{"empty", write(nil), ErrKeyFile, "keygen"},
		{"noise", write([]byte("hello")), ErrKeyFile, "keygen"},
		{"half", write(good[:len(good)/2]), ErrKeyFile, ""},
		{"other PEM", write(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})), ErrKeyFile, ""},
		{"PEM of nothing", write(pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY", Bytes: []byte("openssh-key-v1\x00")})), ErrKeyFile, ""},
		{"too long", write(bytes.Repeat([]byte("x"), maxKeyFile+1)), ErrSecretFile, "more than"},
		{"pipe", pipe, ErrSecretFile, ""},
		{"folder", folder, ErrSecretFile, ""},
		{"nothing", filepath.Join(dir, "nothing.key"), fs.ErrNotExist, "nothing.key"},
	} {
		_, err := ReadKeyFile(tt.path, notAsked(t))
		if !errors.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.says) {
			t.Errorf("%s: %v, want %v (%q)", tt.name, err, tt.want, tt.says)
		}
	}
}

// keyFileAndSSHKeygen: OpenSSH reads our file, and we read its. Its own are made
// with one round, as here nobody is to be kept out.
func keyFileAndSSHKeygen(t *testing.T, path, passphrase string, priv ed25519.PrivateKey) {
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		parttest.Need(t, "no ssh-keygen")
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(keygen, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("ssh-keygen %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	pub, err := ssh.NewPublicKey(priv.Public())
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(pub)))
	if got := run("-y", "-P", passphrase, "-f", path); !strings.HasPrefix(got, want) {
		t.Errorf("ssh-keygen -y says %q, want %q", got, want)
	}
	run("-p", "-a", "1", "-P", passphrase, "-N", "second", "-f", path)
	if _, err := ReadKeyFile(path, phrase(passphrase)); !errors.Is(err, ErrPassphrase) {
		t.Errorf("the old passphrase: %v", err)
	}
	s, err := ReadKeyFile(path, phrase("second"))
	if err != nil || !s.Public().Equal(priv.Public()) {
		t.Errorf("the new passphrase: %v", err)
	}
	run("-p", "-P", "second", "-N", "", "-f", path)
	if _, err := ReadKeyFile(path, notAsked(t)); !errors.Is(err, ErrKeyPlain) {
		t.Errorf("after the passphrase was taken away: %v", err)
	}
	theirs := filepath.Join(t.TempDir(), "theirs.key")
	run("-q", "-a", "1", "-t", "ed25519", "-N", "third", "-f", theirs)
	if _, err := ReadKeyFile(theirs, phrase("third")); err != nil {
		t.Errorf("a key that ssh-keygen made: %v", err)
	}
	// A key whose public half is not its seed's: OpenSSH does not look.
	broken := bytes.Clone(priv)
	broken[40] ^= 1
	bad := secretFile(t, plainKeyFile(t, broken))
	run("-p", "-a", "1", "-P", "", "-N", "fourth", "-f", bad)
	if _, err := ReadKeyFile(bad, phrase("fourth")); !errors.Is(err, ErrKeyBroken) {
		t.Errorf("a broken key: %v", err)
	}
}

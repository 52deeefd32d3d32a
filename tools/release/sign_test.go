package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/ledger"
)

// writeKey makes a key of the ledger, and a file with its passphrase.
func writeKey(t *testing.T, key, phrase string) {
	t.Helper()
	_, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ledger.WriteKeyFile(key, priv, []byte("secret"), "release"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(phrase, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// OpenSSH verifies what a key of the ledger signed, and refuses anything else.
func TestOpenSSHVerifies(t *testing.T) {
	tool, err := exec.LookPath("ssh-keygen")
	if err != nil {
		parttest.Need(t, "no ssh-keygen")
	}
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	writeKey(t, path("release.key"), path("phrase"))
	text := []byte("0123  assay.tar.gz\n")
	if err := os.WriteFile(path(sumsFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := signSums(context.Background(), dir, path("release.key"), path("phrase")); err != nil {
		t.Fatal(err)
	}
	verify := func(text []byte, use, who string) error {
		cmd := exec.Command(tool, "-Y", "verify", "-f", path(signersFile), "-I", who, "-n", use, "-s", path(signatureFile))
		cmd.Stdin = bytes.NewReader(text)
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		return err
	}
	if err := verify(text, signatureUse, signer); err != nil {
		t.Error(err)
	}
	for why, err := range map[string]error{
		"another list":   verify(append(text, ' '), signatureUse, signer),
		"another use":    verify(text, "git", signer),
		"another person": verify(text, signatureUse, "somebody@else"),
	} {
		if err == nil {
			t.Errorf("%s is taken", why)
		}
	}
	if err := os.WriteFile(path("phrase"), []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	if signSums(context.Background(), dir, path("release.key"), path("phrase")) == nil {
		t.Error("a wrong passphrase signs")
	}
}

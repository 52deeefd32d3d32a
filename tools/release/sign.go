package main

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"github.com/assay-bench/assay/ledger"
)

// Keys of the ledger are ed25519 keys in OpenSSH's own file format. So a release is
// signed in OpenSSH's format too (PROTOCOL.sshsig): who gets it verifies it with
// ssh-keygen, which is on every machine, and needs nothing of ours for that.
const (
	signatureFile = sumsFile + ".sig"
	signersFile   = "allowed_signers"
	// signatureUse is the namespace: a signature for another use is none for this.
	signatureUse = "assay-release"
	signer       = "release@assay"
)

// signSums signs the list of checksums. The key's public half goes beside it for
// who wants to compare it with the one that was published elsewhere.
func signSums(ctx context.Context, dir, key, passphrase string) error {
	s, err := ledger.ReadKeyFile(key, func() ([]byte, error) {
		b, err := ledger.ReadSecretFile(passphrase, 4096)
		return bytes.TrimSpace(b), err
	})
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil {
		return err
	}
	public, err := ssh.NewPublicKey(s.Public())
	if err != nil {
		return err
	}
	armoured, err := sshSignature(ctx, s, public, text)
	if err != nil {
		return fmt.Errorf("sign %s: %w", sumsFile, err)
	}
	line := fmt.Sprintf("%s namespaces=%q %s", signer, signatureUse, ssh.MarshalAuthorizedKey(public))
	if err := os.WriteFile(filepath.Join(dir, signersFile), []byte(line), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, signatureFile), armoured, 0o644)
}

// sshMagic begins both what is signed and the signature.
var sshMagic = [6]byte{'S', 'S', 'H', 'S', 'I', 'G'}

func sshSignature(ctx context.Context, s ledger.Signer, public ssh.PublicKey, text []byte) ([]byte, error) {
	h := sha512.Sum512(text)
	signature, err := s.Sign(ctx, ssh.Marshal(struct {
		Magic                     [6]byte
		Namespace, Reserved, Hash string
		Sum                       []byte
	}{sshMagic, signatureUse, "", "sha512", h[:]}))
	if err != nil {
		return nil, err
	}
	blob := ssh.Marshal(struct {
		Magic                     [6]byte
		Version                   uint32
		Public                    []byte
		Namespace, Reserved, Hash string
		Signature                 []byte
	}{sshMagic, 1, public.Marshal(), signatureUse, "", "sha512", ssh.Marshal(ssh.Signature{Format: ssh.KeyAlgoED25519, Blob: signature})})
	return pem.EncodeToMemory(&pem.Block{Type: "SSH SIGNATURE", Bytes: blob}), nil
}

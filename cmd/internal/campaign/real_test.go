package campaign

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/ledger"
)

// commandVariable has the words of a command that another process runs.
const commandVariable = "ASSAY_TEST_CAMPAIGN"

// TestCommandProcess is that process.
func TestCommandProcess(t *testing.T) {
	words := os.Getenv(commandVariable)
	if words == "" {
		t.Skip("it is started by TestRealCampaignResume")
	}
	var args []string
	if err := json.Unmarshal([]byte(words), &args); err != nil {
		t.Fatal(err)
	}
	os.Exit(cli.Run(context.Background(), cli.Root("assay", nil, New()), args))
}

// owned is a machine of one's own with our simulator as its engine, and the file that
// names it and the key that it knows.
func owned(t *testing.T, model string) (credentials string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	line, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	m := parttest.SSHD(t, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(line))))
	if !m.Isolated {
		t.Skip("the engine's port is this machine's own: no namespaces are permitted here")
	}
	m.Program("nvidia-smi", "#!/bin/sh\ncase $1 in\n--query-gpu=*) echo 'NVIDIA GeForce RTX 4090, GPU-0f, 550.54.15, 24564, 24100' ;;\n*) echo 'CUDA Version   : 12.4' ;;\nesac\n")
	m.Program("ollama", `#!/bin/sh
case $1 in
serve) exec "$HOME/.assay/node" simulate --listen 127.0.0.1:11434 --model `+model+` --like ollama --ttft 20ms --itl 2ms ;;
list) echo "NAME ID"; echo "`+model+` 0f" ;;
esac
`)
	host, port, err := net.SplitHostPort(m.Address)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "box.key"), pem.EncodeToMemory(block))
	put(t, filepath.Join(dir, "own.yaml"), fmt.Appendf(nil,
		"static:\n  user: %s\n  claims: claims\n  key: box.key\n  machines:\n    - {name: box, host: %s, port: %s, gpu: RTX 4090, vram_gb: 24}\n", m.User, host, port))
	credentials = filepath.Join(dir, "keys.env")
	put(t, credentials, []byte("ASSAY_PROVIDERS="+filepath.Join(dir, "own.yaml")+"\n"))
	return credentials
}

func put(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// behindTLS is a server that speaks TLS in front of one that does not, and the file of
// its authority.
func behindTLS(t *testing.T, server string) (address, authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	authority = filepath.Join(t.TempDir(), "ca.pem")
	put(t, authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			from, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				to, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server)
				if err != nil {
					return
				}
				defer to.Close()
				go func() { _, _ = io.Copy(to, from); to.Close() }()
				_, _ = io.Copy(from, to)
			}()
		}
	}()
	return ln.Addr().String(), authority
}

// The whole program on a machine of one's own, with a Temporal of one's own behind TLS
// and in a namespace of its own: it is killed while it measures, and resume goes on
// with the same machine and the same measurement. What came home is signed.
func TestRealCampaignResume(t *testing.T) {
	const model = "qwen2:7b"
	temporal := parttest.Temporal(t)
	credentials := owned(t, model)
	binary, err := parttest.NodeBinary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "assay-node"), binary)
	matrix := filepath.Join(dir, "matrix.yaml")
	put(t, matrix, []byte("format: assay/matrix/v1\nname: own\nbudget: {campaign: 1}\nduration: 8s\ncells:\n  - {gpus: [RTX 4090], providers: [static], models: [\""+model+"\"]}\n"))
	address, authority := behindTLS(t, temporal.URL)
	program := parttest.Install(t, "temporal")
	parttest.Run(t, nil, program, "operator", "namespace", "create", "--address", temporal.URL, "--namespace", "gpus")
	database, state := "sqlite:"+filepath.Join(dir, "c.db"), filepath.Join(dir, "state")
	works := []string{
		"--credentials", credentials, "--database", database, "--state", state, "--node-binary", filepath.Join(dir, "assay-node"),
		"--temporal", address, "--temporal-namespace", "gpus", "--temporal-tls-ca", authority,
	}
	words, err := json.Marshal(append([]string{"campaign", "run", matrix, "--lease", "1m"}, works...))
	if err != nil {
		t.Fatal(err)
	}
	var log parttest.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCommandProcess$")
	cmd.Env = append(os.Environ(), commandVariable+"="+string(words))
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	status := func() (s sight) {
		code, stdout, _ := run(t, "campaign", "status", "--database", database, "--format", "json")
		if code == 0 {
			if err := json.Unmarshal([]byte(stdout), &s); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if s := status(); len(s.Cells) == 1 && s.Cells[0].Stage == "benchmark" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it does not measure: %+v\n%s", status(), &log)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	code, stdout, stderr := run(t, append([]string{"campaign", "resume"}, works...)...)
	if code != 0 || !strings.Contains(stdout, "1 success") {
		t.Fatalf("%d %s\n%s\n%s", code, stdout, stderr, &log)
	}
	db, s, err := (&databaseFlags{database}).open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	results, err := s.Benchmarks(t.Context(), "")
	if err != nil || len(results) != 1 {
		t.Fatalf("%+v %v", results, err)
	}
	intents, err := s.Intents(t.Context(), results[0].ID)
	if err != nil || len(intents) != 1 || intents[0].State != "ended" {
		t.Errorf("it took %d machines: %+v %v", len(intents), intents, err)
	}
	trusted, err := keys.ReadKeyStatement(filepath.Join(state, archiveStatement))
	if err != nil {
		t.Fatal(err)
	}
	v, err := ledger.VerifyRun(results[0].Directory, ledger.VerifyOptions{Keys: ledger.NewKeyring(trusted)})
	if err != nil || v.Signer == nil || v.Signer.KeyID != trusted.ID || !v.Signer.Trusted {
		t.Errorf("%+v %v", v, err)
	}
	code, stdout, stderr = run(t, "campaign", "report", "--database", database, "--state", state)
	if code != 0 || !strings.Contains(stdout, trusted.ID[:12]) {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	if claims, err := os.ReadDir(filepath.Join(filepath.Dir(credentials), "claims")); err != nil || len(claims) != 0 {
		t.Errorf("the machine was not given back: %v %v", claims, err)
	}
	// Without TLS the server is not understood, and the error says where it was.
	if code, _, stderr := run(t, "campaign", "resume", "--credentials", credentials, "--database", database, "--state", state, "--temporal", address); code != 1 || !strings.Contains(stderr, "connect to Temporal at "+address) {
		t.Errorf("%d %s", code, stderr)
	}
}

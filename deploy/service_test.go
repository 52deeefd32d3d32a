package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The agent's unit has its hardening, and systemd takes it.
func TestAgentUnit(t *testing.T) {
	b, err := os.ReadFile("assay-agent.service")
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(k, "#") {
			set[k] = v
		}
	}
	for k, want := range map[string]string{
		"Type": "notify", "User": "assay-agent", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "ProtectSystem": "strict",
		"ProtectHome": "yes", "PrivateTmp": "yes", "RestrictNamespaces": "yes", "RestrictSUIDSGID": "yes", "ProtectKernelTunables": "yes",
		"SystemCallFilter": "@system-service", "Delegate": "yes", "StateDirectoryMode": "0700", "Restart": "always", "LockPersonality": "yes",
	} {
		if got, ok := set[k]; !ok || got != want {
			t.Errorf("%s=%s, want %s", k, got, want)
		}
	}
	if set["WatchdogSec"] == "" || !strings.Contains(set["ExecStart"], "assay-node agent --config") {
		t.Error("no watchdog, or another program")
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze")
	}
	// The program need not be installed here: another stands in for it.
	unit := filepath.Join(t.TempDir(), "assay-agent.service")
	text := strings.Replace(string(b), "/usr/bin/assay-node", "/bin/true", 1)
	if err := os.WriteFile(unit, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "assay-agent.service") {
			t.Errorf("systemd-analyze verify (%v): %s", err, line)
		}
	}
}

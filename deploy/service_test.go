package deploy_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// hardening is what both services have.
var hardening = map[string]string{
	"NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "AmbientCapabilities": "", "ProtectSystem": "strict",
	"ProtectHome": "yes", "PrivateTmp": "yes", "RestrictNamespaces": "yes", "RestrictSUIDSGID": "yes", "ProtectKernelTunables": "yes",
	"SystemCallFilter": "@system-service", "StateDirectoryMode": "0700", "LockPersonality": "yes", "UMask": "0077",
}

// The units have their hardening and users of their own, and systemd takes them.
func TestUnits(t *testing.T) {
	for name, own := range map[string]map[string]string{
		"assay-agent.service": {"Type": "notify", "User": "assay-agent", "StateDirectory": "assay-agent", "Delegate": "yes", "Restart": "always", "WatchdogSec": "3min"},
		// A server has no use for a GPU's device files, nor for others' processes.
		"assay-server.service": {"Type": "exec", "User": "assay", "StateDirectory": "assay", "PrivateDevices": "yes", "ProtectProc": "invisible", "ProtectControlGroups": "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			set := map[string]string{}
			for line := range strings.Lines(string(b)) {
				if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(k, "#") {
					set[k] = v
				}
			}
			maps.Copy(own, hardening)
			for k, want := range own {
				if got, ok := set[k]; !ok || got != want {
					t.Errorf("%s=%s, want %s", k, got, want)
				}
			}
			if !strings.HasPrefix(set["ExecStart"], "/usr/bin/assay") {
				t.Errorf("it starts %s", set["ExecStart"])
			}
			systemdTakes(t, name, string(b))
		})
	}
}

// systemdTakes has systemd read a unit.
func systemdTakes(t *testing.T, name, text string) {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze")
	}
	// The programs need not be installed here: another stands in for them.
	text = strings.NewReplacer("/usr/bin/assay-node", "/bin/true", "/usr/bin/assay", "/bin/true").Replace(text)
	unit := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(unit, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, name) {
			t.Errorf("systemd-analyze verify (%v): %s", err, line)
		}
	}
}

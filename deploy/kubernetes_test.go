package deploy_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/assay-bench/assay/internal/parttest"
)

// manifests are what kustomize makes of a directory.
func manifests(t *testing.T, dir string) []byte {
	t.Helper()
	cmd := exec.Command(parttest.Install(t, "kustomize"), "build", dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kustomize build %s: %v\n%s", dir, err, stderr.Bytes())
	}
	return out
}

// validate compares manifests with the schemas of Kubernetes' own API; a member that
// it does not know is refused.
func validate(t *testing.T, text []byte) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(parttest.Install(t, "kubernetes-validate"), "--strict", file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

type securityContext struct {
	RunAsNonRoot             bool  `yaml:"runAsNonRoot"`
	RunAsUser                int   `yaml:"runAsUser"`
	Privileged               bool  `yaml:"privileged"`
	AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
	ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
	Capabilities             struct {
		Drop []string `yaml:"drop"`
		Add  []string `yaml:"add"`
	} `yaml:"capabilities"`
}

type container struct {
	Name            string          `yaml:"name"`
	Image           string          `yaml:"image"`
	Args            []string        `yaml:"args"`
	SecurityContext securityContext `yaml:"securityContext"`
	VolumeMounts    []struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type object struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name      string `yaml:"name"`
		Namespace string `yaml:"namespace"`
	} `yaml:"metadata"`
	Data map[string]string `yaml:"data"`
	Spec struct {
		Template struct {
			Spec struct {
				InitContainers   []container `yaml:"initContainers"`
				Containers       []container `yaml:"containers"`
				RuntimeClassName string      `yaml:"runtimeClassName"`
				Automount        *bool       `yaml:"automountServiceAccountToken"`
				Volumes          []struct {
					Name string `yaml:"name"`
				} `yaml:"volumes"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

func objects(t *testing.T, text []byte) map[string]object {
	t.Helper()
	out := map[string]object{}
	for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var o object
		if err := yaml.Unmarshal(doc, &o); err != nil {
			t.Fatal(err)
		}
		out[o.Kind] = o
	}
	return out
}

// Kubernetes takes the manifests, and refuses what is not its own.
func TestKubernetesSchema(t *testing.T) {
	for _, dir := range []string{"kubernetes/base", "kubernetes/overlays/example"} {
		text := manifests(t, dir)
		if err := validate(t, text); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		for _, spoil := range [][2]string{{"hostNetwork: true", "hostNetworks: true"}, {"path: /healthz", "path: 7"}, {"medium: Memory", "medium: [Memory]"}} {
			bad := bytes.Replace(text, []byte(spoil[0]), []byte(spoil[1]), 1)
			if bytes.Equal(bad, text) || validate(t, bad) == nil {
				t.Errorf("%s: %q passes", dir, spoil[1])
			}
		}
	}
}

// The agent has no privileges and is nobody's account; what must be root's has the
// few capabilities that it needs, and ends.
func TestKubernetesAgent(t *testing.T) {
	all := objects(t, manifests(t, "kubernetes/overlays/example"))
	pod := all["DaemonSet"].Spec.Template.Spec
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 2 {
		t.Fatalf("%d containers and %d before them", len(pod.Containers), len(pod.InitContainers))
	}
	if pod.Automount == nil || *pod.Automount {
		t.Error("the agent gets a token of Kubernetes")
	}
	if pod.RuntimeClassName != "nvidia" {
		t.Error("the component nvidia is not in it")
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		s := c.SecurityContext
		if s.Privileged || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || strings.Join(s.Capabilities.Drop, "") != "ALL" {
			t.Errorf("%s: %+v", c.Name, s)
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s mounts %s, which there is not", c.Name, m.Name)
			}
			if c.Name == "agent" && m.Name == "tokens" {
				t.Error("the agent sees the tokens of all nodes")
			}
		}
	}
	agent := pod.Containers[0]
	if s := agent.SecurityContext; !s.RunAsNonRoot || s.RunAsUser != 65532 || len(s.Capabilities.Add) > 0 {
		t.Errorf("the agent: %+v", s)
	}
	if agent.Image != "registry.example/assay-node:0.1.0" || !strings.Contains(strings.Join(agent.Args, " "), "--features-file /features.d/assay") {
		t.Errorf("the agent is %s %v", agent.Image, agent.Args)
	}
	if !strings.Contains(all["ConfigMap"].Data["agent.yaml"], "enrol_token_file: /run/assay/enrol-token") {
		t.Errorf("agent.yaml is not in it: %v", all["ConfigMap"].Data)
	}
}

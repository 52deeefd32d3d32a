// Package deploy_test holds compose.yaml and the Dockerfile to what they must
// keep, on a machine without Docker: the schema of the Compose Specification and
// rules of our own. That the program takes the command lines is tested in
// cmd/assay.
package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay/internal/parttest"
)

type service struct {
	Image       string            `yaml:"image"`
	Build       *build            `yaml:"build"`
	Command     []string          `yaml:"command"`
	ReadOnly    bool              `yaml:"read_only"`
	Restart     string            `yaml:"restart"`
	CapDrop     []string          `yaml:"cap_drop"`
	User        string            `yaml:"user"`
	Privileged  bool              `yaml:"privileged"`
	Environment map[string]string `yaml:"environment"`
	Ports       []string          `yaml:"ports"`
	Volumes     []string          `yaml:"volumes"`
	Secrets     []string          `yaml:"secrets"`
	Profiles    []string          `yaml:"profiles"`
	Configs     []struct {
		Source string `yaml:"source"`
	} `yaml:"configs"`
	DependsOn map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Tmpfs       []string `yaml:"tmpfs"`
	Healthcheck *struct {
		Test []string `yaml:"test"`
	} `yaml:"healthcheck"`
	Deploy struct {
		Resources struct {
			Reservations struct {
				Devices []struct {
					Driver       string   `yaml:"driver"`
					Capabilities []string `yaml:"capabilities"`
				} `yaml:"devices"`
			} `yaml:"reservations"`
		} `yaml:"resources"`
	} `yaml:"deploy"`
}

type build struct {
	Context    string `yaml:"context"`
	Dockerfile string `yaml:"dockerfile"`
	Target     string `yaml:"target"`
}

type file struct {
	File string `yaml:"file"`
}

type project struct {
	Services map[string]service `yaml:"services"`
	Volumes  map[string]any     `yaml:"volumes"`
	Secrets  map[string]file    `yaml:"secrets"`
	Configs  map[string]file    `yaml:"configs"`
}

func (s service) ours() bool { return s.Build != nil }

var variable = regexp.MustCompile(`\$\{([A-Z_]+):-([^}]*)\}`)

// read gives the file as Compose sees it where no variable is set.
func read(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b = variable.ReplaceAll(b, []byte("$2"))
	if bytes.Contains(b, []byte("${")) {
		t.Error("a variable has no default")
	}
	return b
}

func load(t *testing.T) project {
	t.Helper()
	var p project
	if err := yaml.Unmarshal(read(t), &p); err != nil {
		t.Fatal(err)
	}
	if len(p.Services) < 6 {
		t.Fatalf("%d services were read", len(p.Services))
	}
	return p
}

func TestSchema(t *testing.T) {
	out, err := exec.Command("../.ci/parts/compose-schema").Output()
	if err != nil {
		parttest.Need(t, fmt.Sprintf("the Compose Specification's schema is not available: %v", err))
	}
	f, err := os.Open(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	doc, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("compose-spec.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("compose-spec.json")
	if err != nil {
		t.Fatal(err)
	}
	validate := func(text []byte) error {
		var all any // with what anchors and merges stand for
		if err := yaml.Unmarshal(text, &all); err != nil {
			t.Fatal(err)
		}
		j, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(j))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	text := read(t)
	if err := validate(text); err != nil {
		t.Error(err)
	}
	// The schema is a check that can fail.
	for _, spoil := range [][2]string{{"read_only: true", "readonly: true"}, {"condition: service_healthy", "condition: healthy"}, {"count: all", "counts: all"}} {
		bad := bytes.Replace(text, []byte(spoil[0]), []byte(spoil[1]), 1)
		if bytes.Equal(bad, text) || validate(bad) == nil {
			t.Errorf("%q passes", spoil[1])
		}
	}
}

// oneShot are services that do something and end; all others run, and must say
// whether they are well.
var oneShot = []string{"hammer", "test", "topics", "verify", "witness-new"}

func TestServices(t *testing.T) {
	p := load(t)
	for name, s := range p.Services {
		if slices.Contains(oneShot, name) {
			if s.Restart != "no" || s.Healthcheck != nil {
				t.Errorf("%s runs once: no restart and no health check", name)
			}
		} else if s.Healthcheck == nil || s.Restart != "unless-stopped" {
			t.Errorf("%s runs on: it needs a health check and a restart", name)
		}
		if tag := s.Image[strings.LastIndex(s.Image, ":")+1:]; tag == s.Image || tag == "latest" {
			t.Errorf("%s: image %q has no tag of its own", name, s.Image)
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: port %s can be reached by others", name, port)
			}
		}
		if s.Privileged || s.User == "root" || s.User == "0" {
			t.Errorf("%s has more rights than it needs", name)
		}
		if s.ours() && (!s.ReadOnly || !slices.Contains(s.CapDrop, "ALL")) {
			t.Errorf("%s: its file system is to be read-only and its capabilities gone", name)
		}
		for key, value := range s.Environment {
			if strings.Contains(key, "PASS") || strings.Contains(key, "SECRET") || strings.Contains(value, "PRIVATE") {
				t.Errorf("%s: %s is a secret in the environment", name, key)
			}
		}
	}
	for _, name := range []string{"verify", "hammer", "test", "llm-service"} {
		d := p.Services[name].Deploy.Resources.Reservations.Devices
		if len(d) != 1 || d[0].Driver != "nvidia" || !slices.Contains(d[0].Capabilities, "gpu") {
			t.Errorf("%s reserves no GPU", name)
		}
	}
}

func TestNamesAreDeclared(t *testing.T) {
	p := load(t)
	used := map[string]bool{}
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if _, ok := p.Volumes[source]; !ok {
				t.Errorf("%s: volume %s is not declared", name, source)
			}
			used["volume "+source] = true
		}
		for _, x := range s.Secrets {
			if _, ok := p.Secrets[x]; !ok {
				t.Errorf("%s: secret %s is not declared", name, x)
			}
			used["secret "+x] = true
		}
		for _, x := range s.Configs {
			if _, ok := p.Configs[x.Source]; !ok {
				t.Errorf("%s: config %s is not declared", name, x.Source)
			}
			used["config "+x.Source] = true
		}
		for dep, d := range s.DependsOn {
			on, ok := p.Services[dep]
			if !ok {
				t.Errorf("%s depends on %s, which is not there", name, dep)
			}
			if once := slices.Contains(oneShot, dep); once != (d.Condition == "service_completed_successfully") || !once && on.Healthcheck == nil {
				t.Errorf("%s waits for %s to be %s", name, dep, d.Condition)
			}
		}
		// What a command reads must be mounted.
		for _, arg := range s.Command {
			_, path, _ := strings.Cut(arg, "=")
			if secret, ok := strings.CutPrefix(path, "/run/secrets/"); ok && !slices.Contains(s.Secrets, secret) {
				t.Errorf("%s reads the secret %s, which it does not have", name, secret)
			}
		}
	}
	for v := range p.Volumes {
		if !used["volume "+v] {
			t.Errorf("volume %s is not used", v)
		}
	}
	for x, f := range p.Secrets {
		if !used["secret "+x] || f.File != "./secrets/"+x {
			t.Errorf("secret %s: used %v, file %s", x, used["secret "+x], f.File)
		}
	}
	for x := range p.Configs {
		if !used["config "+x] {
			t.Errorf("config %s is not used", x)
		}
	}
}

// The image is built from files that are there, as a user who is not root, with
// images that have tags.
func TestDockerfile(t *testing.T) {
	b, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range load(t).Services {
		if !s.ours() {
			continue
		}
		if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	user, made, stages := "", map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(strings.ReplaceAll(string(b), "\\\n", " ")) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		switch f[0] {
		case "FROM":
			if len(f) == 4 {
				stages[f[3]] = true
			}
			if _, tag, ok := strings.Cut(f[1], ":"); !stages[f[1]] && (!ok || tag == "latest") {
				t.Errorf("%q has no tag of its own", f[1])
			}
		case "RUN":
			for i, w := range f {
				if w == "-o" {
					made[f[i+1]] = true
				}
				if w == "-p" {
					made[f[i+1]] = true
				}
				if strings.HasPrefix(w, "./") {
					if _, err := os.Stat(filepath.Join("..", w)); err != nil {
						t.Error(err)
					}
				}
			}
			if strings.Contains(line, "go build") && !strings.Contains(line, "CGO_ENABLED=0") {
				t.Error("the program is built with cgo")
			}
		case "COPY":
			args := slices.DeleteFunc(f[1:], func(s string) bool { return strings.HasPrefix(s, "--") })
			for _, source := range args[:len(args)-1] {
				if strings.Contains(line, "--from=") {
					if !made[source] {
						t.Errorf("COPY: no step makes %s", source)
					}
				} else if _, err := os.Stat(filepath.Join("..", source)); err != nil {
					t.Error(err)
				}
			}
		case "USER":
			user = f[1]
		}
	}
	if user == "" || user == "root" || strings.HasPrefix(user, "0") {
		t.Errorf("it runs as %q", user)
	}
	if !strings.Contains(string(b), `ENTRYPOINT ["/usr/local/bin/assay"]`) {
		t.Error("the program is not the entry point")
	}
	// No key may get into the image.
	ignore, err := os.ReadFile("Dockerfile.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"deploy/secrets", "**/*.key", "**/*.passphrase"} {
		if !slices.Contains(strings.Fields(string(ignore)), want) {
			t.Errorf("Dockerfile.dockerignore does not leave %s out", want)
		}
	}
}

// The commands of the GPU logger's page do here what they do there: up test runs
// the tests that need a GPU, with Kafka and a cache; up -d kafka the broker, whose
// records stay; up llm-service an engine with a model. None of them needs a key.
func TestServicesOfTheGPULogger(t *testing.T) {
	p := load(t)
	test, engine, kafka := p.Services["test"], p.Services["llm-service"], p.Services["kafka"]
	if test.Build == nil || test.Build.Target != "test" || test.DependsOn["topics"].Condition != "service_completed_successfully" ||
		test.Environment["ASSAY_KAFKA"] != "kafka:29092" || test.Environment["NVIDIA_DRIVER_CAPABILITIES"] == "" {
		t.Errorf("test: %+v", test)
	}
	if !slices.Contains(test.Volumes, "test-cache:/var/cache/assay") || !slices.Equal(test.Tmpfs, []string{"/tmp:exec"}) {
		t.Errorf("test: Go's cache is not kept, or what it builds cannot run: %q, %q", test.Volumes, test.Tmpfs)
	}
	dockerfile, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"FROM build AS test\n", "GOCACHE=/var/cache/assay/go", `ENTRYPOINT ["/src/.ci/run", "gpu"]`} {
		if !strings.Contains(string(dockerfile), want) {
			t.Errorf("Dockerfile has no %q", want)
		}
	}
	run, err := os.ReadFile("../.ci/run")
	if err != nil || !strings.Contains(string(run), "\ngpu) ") {
		t.Errorf("the test service runs a lane that is not there (%v)", err)
	}
	if engine.Environment["MODEL"] == "" || len(engine.Command) != 1 || !strings.Contains(engine.Command[0], `ollama pull "$$MODEL"`) ||
		!strings.Contains(strings.Join(engine.Healthcheck.Test, " "), "MODEL") {
		t.Errorf("llm-service has no model, or is healthy without it: %+v", engine)
	}
	if len(kafka.Profiles) > 0 || kafka.Healthcheck == nil || !slices.Contains(kafka.Volumes, "kafka-data:/var/lib/kafka/data") {
		t.Errorf("kafka: %+v", kafka)
	}
	// Brokers agree among themselves (KRaft): there is no ZooKeeper to wait for.
	if roles := kafka.Environment["KAFKA_PROCESS_ROLES"]; roles != "broker,controller" {
		t.Errorf("kafka has the roles %q", roles)
	}
	for name, s := range p.Services {
		if strings.Contains(strings.ToLower(name+s.Image), "zookeeper") || s.Environment["KAFKA_ZOOKEEPER_CONNECT"] != "" {
			t.Errorf("%s: docs/adr/024-kraft-in-place-of-zookeeper.md says that there is none", name)
		}
	}
	for name, s := range map[string]service{"test": test, "llm-service": engine, "kafka": kafka, "topics": p.Services["topics"]} {
		if len(s.Secrets)+len(s.Configs) > 0 {
			t.Errorf("%s needs files that only the README's keys make: %q %v", name, s.Secrets, s.Configs)
		}
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"docker compose up test", "docker compose up -d kafka", "docker compose up llm-service", "docker volume inspect assay_kafka-data"} {
		if !strings.Contains(string(readme), "\n"+command) {
			t.Errorf("README.md does not say %q", command)
		}
	}
}

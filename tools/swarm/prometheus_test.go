package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
)

// prometheusConfig has what docs/routing.md shows.
const prometheusConfig = `
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: engines
    http_sd_configs:
      - url: %s/sd
        refresh_interval: 1s
        authorization: {type: Bearer, credentials_file: %s}
    relabel_configs:
      - {source_labels: [__meta_assay_node], target_label: node}
      - {source_labels: [__meta_assay_model], target_label: model}
`

// prometheus has a real Prometheus read who is there and scrape them, until so many
// are up; it runs on until the test's end.
func (f *front) prometheus(want int) {
	f.t.Helper()
	program := parttest.Install(f.t, "prometheus")
	at := freeAddress(f.t)
	if err := os.WriteFile(f.path("prometheus.yml"), fmt.Appendf(nil, prometheusConfig, f.served.url, f.path("router")), 0o600); err != nil {
		f.t.Fatal(err)
	}
	log, err := os.Create(f.path("prometheus.log"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, "--config.file", f.path("prometheus.yml"), "--storage.tsdb.path", f.path("tsdb"), "--web.listen-address", at)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	f.scraped = func() int { return f.targets("http://" + at) }
	for end := time.Now().Add(time.Minute); f.scraped() != want; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			b, _ := os.ReadFile(f.path("prometheus.log"))
			f.t.Fatalf("Prometheus scrapes %d engines, and not %d:\n%s", f.scraped(), want, b)
		}
	}
}

// targets counts the targets that are up, with our labels.
func (f *front) targets(at string) (up int) {
	resp, err := http.Get(at + "/api/v1/targets?state=active")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	var got struct {
		Data struct {
			ActiveTargets []struct {
				Health string
				Labels map[string]string
			}
		}
	}
	if json.NewDecoder(resp.Body).Decode(&got) != nil {
		return 0
	}
	for _, t := range got.Data.ActiveTargets {
		if t.Health == "up" && len(t.Labels["node"]) == 26 && strings.TrimSpace(t.Labels["model"]) != "" {
			up++
		}
	}
	return up
}

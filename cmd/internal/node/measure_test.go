package node

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/api"
)

// measuring answers as a server does that measures: each look at a measurement goes
// on by one.
type measuring struct {
	asked []api.NewMeasurement
	steps []api.Measurement
	looks int
}

func (m *measuring) start(t *testing.T, f *fake) {
	f.start()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/measurements", func(w http.ResponseWriter, r *http.Request) {
		var body api.NewMeasurement
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		m.asked = append(m.asked, body)
		write(w, http.StatusCreated, m.steps[0])
	})
	mux.HandleFunc("GET /api/v1/measurements/{id}", func(w http.ResponseWriter, _ *http.Request) {
		if m.looks++; m.looks == 1 {
			problem(w, http.StatusServiceUnavailable, "on its way back")
			return
		}
		write(w, http.StatusOK, m.steps[min(m.looks-1, len(m.steps)-1)])
	})
	mux.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, r *http.Request) {
		all := []api.Node{}
		for _, d := range f.nodes {
			if r.URL.Query().Get("model") == "m" {
				all = append(all, d.Node)
			}
		}
		write(w, http.StatusOK, all)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	t.Setenv("ASSAY_SERVER", s.URL)
}

func ended(m api.Measurement) api.Measurement {
	now := time.Now()
	m.Ended, m.State = &now, api.MeasurementStateDone
	low, value, high, why := 90.0, 100.0, 110.0, "nobody knows"
	stage := api.JointStage{Name: "c4", Streams: 4, Nodes: 1, Requests: 9, OutputTokensPerSecond: api.Estimate{N: 30, Value: &value, Low: &low, High: &high},
		RequestsPerSecond: api.Estimate{Why: &why}, TtftMs: api.JointDistribution{N: 9, P99: &api.JointPercentile{Value: 12.5}}}
	m.Nodes = slices.Clone(m.Nodes)
	m.Nodes[0].State, m.Nodes[0].Ended, m.Nodes[0].Stages = api.MeasuredNodeStateMeasured, &now, &[]api.JointStage{stage}
	m.Result = &api.JointResult{Measured: 1, Missing: []string{}, Stages: []api.JointStage{stage}}
	if len(m.Nodes) > 1 {
		cause := "it did not fetch the command\x1b[31m"
		m.Nodes[1].State, m.Nodes[1].Ended, m.Nodes[1].Cause = api.MeasuredNodeStateAway, &now, &cause
		m.Result.Missing = []string{m.Nodes[1].Node}
	}
	return m
}

func TestMeasureWaitsAndNamesWhoIsMissing(t *testing.T) {
	f, m := &fake{t: t}, &measuring{}
	f.add(1, "vm-1", api.AdmissionAdmitted, api.IntentServe)
	f.add(2, "vm-2", api.AdmissionAdmitted, api.IntentServe)
	f.add(3, "vm-3", api.AdmissionAdmitted, api.IntentRetired)
	begun := api.Measurement{Id: id(7), Mode: api.MeasurementModeTogether, State: api.MeasurementStateRunning, Nodes: []api.MeasuredNode{{Node: id(1), State: "asked"}, {Node: id(2), State: "asked"}}}
	m.steps = []api.Measurement{begun, begun, ended(begun)}
	m.start(t, f)
	code, stdout, stderr := run(t, "measure", "--model", "m", "--together", "--scenario", "quick", "--start-in", "7s", "--reason", "test")
	if len(m.asked) != 1 || !slices.Equal(m.asked[0].Nodes, []string{id(1), id(2)}) || *m.asked[0].StartSeconds != 7 || *m.asked[0].Scenario != "quick" {
		t.Fatalf("asked for %+v", m.asked)
	}
	has(t, stdout, "1 of 2 nodes measured, together; done", "90–110", "12.50~", "Without "+id(2), "it did not fetch the command")
	has(t, stderr, id(2)+": away: it did not fetch", "1 of 2 nodes were not measured")
	if code != 2 || strings.Contains(stdout+stderr, "\x1b") {
		t.Errorf("exit code %d: %q", code, stdout)
	}

	begun.Nodes = begun.Nodes[:1]
	m.steps, m.looks = []api.Measurement{begun, ended(begun)}, 0
	code, stdout, _ = run(t, "measure", "--model", "m", "--in-turn", "--reason", "test", "--format", "json")
	var got api.Measurement
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 || got.Result.Measured != 1 {
		t.Errorf("exit code %d, %v: %s", code, err, stdout)
	}
	if m.asked[1].StartSeconds != nil || m.asked[1].Mode != api.MeasurementModeInTurn {
		t.Errorf("asked for %+v", m.asked[1])
	}
	m.steps = []api.Measurement{begun}
	if code, _, stderr := run(t, "measure", "--model", "m", "--in-turn", "--reason", "test", "--timeout", "1ms"); code != 2 || !strings.Contains(stderr, "measurement show "+id(7)) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestMeasureIsUsedWrongly(t *testing.T) {
	f, m := &fake{t: t}, &measuring{steps: []api.Measurement{{}}}
	m.start(t, f)
	for want, args := range map[string][]string{
		"--together or --in-turn":     {"x", "--reason", "y"},
		"at one time, or one after":   {"x", "--reason", "y", "--together", "--in-turn"},
		"--reason WHY is needed":      {"x", "--together"},
		"--start-in is for":           {"x", "--reason", "y", "--in-turn", "--start-in", "5s"},
		"whole seconds from 3s":       {"x", "--reason", "y", "--together", "--start-in", "1h"},
		"--node-timeout 1s":           {"x", "--reason", "y", "--together", "--node-timeout", "1s"},
		"which nodes?":                {"--reason", "y", "--together"},
		"and not both":                {"x", "--model", "m", "--reason", "y", "--together"},
		"no node is like that":        {"--model", "none", "--reason", "y", "--together"},
		"nothing was begun: no node ": {"wrong", "--reason", "y", "--together"},
	} {
		if code, _, stderr := run(t, append([]string{"measure"}, args...)...); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d %s, and not %q", args, code, stderr, want)
		}
	}
	if len(m.asked) > 0 {
		t.Errorf("it began %+v", m.asked)
	}
}

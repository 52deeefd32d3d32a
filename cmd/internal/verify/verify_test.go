package verify

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/verify"
)

// What assay verify --format json prints keeps its schema.
func TestVerifySchema(t *testing.T) {
	s, err := jsonschema.NewCompiler().Compile("../../../docs/formats/schema/verify.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	op, _ := verify.LogOperation(verify.OperationLog{Device: "OpenCL(0)"}, "matrix_multiply", []int{2000, 2000}, func() error { return errors.New("lost") })
	v := verified{
		Format: verifyFormat, Devices: []verify.DeviceInfo{{}}, Operations: []assay.Operation{op}, Notes: []string{"nvidia-smi: not installed"},
		Checks: []assay.Check{verify.SameAnswers("Say a.", []string{"a", "a"}, time.Unix(1, 0)), verify.SameAnswers("Say a.", []string{"a", "b"}, time.Unix(1, 0))},
	}
	v.judge(nil)
	var b bytes.Buffer
	if err := cli.WriteJSON(&b, v); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(&b)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(doc); err != nil {
		t.Error(err)
	}
	v.Verdict = 9
	b.Reset()
	if err := cli.WriteJSON(&b, v); err != nil {
		t.Fatal(err)
	}
	if doc, err := jsonschema.UnmarshalJSON(&b); err != nil || s.Validate(doc) == nil {
		t.Errorf("a verdict that does not exist keeps the schema (%v)", err)
	}
}

func TestVerifyVerdictIsTheWorstThatWasDecided(t *testing.T) {
	check := func(v assay.Verdict) assay.Check { return assay.Check{Name: "x", Verdict: v} }
	for _, tt := range []struct {
		checks []assay.Check
		err    error
		want   assay.Verdict
		exit   int
	}{
		{nil, nil, assay.Unknown, cli.ExitUnknown},
		{[]assay.Check{check(assay.Unknown)}, nil, assay.Unknown, cli.ExitUnknown},
		{[]assay.Check{check(assay.Pass), check(assay.Unknown)}, nil, assay.Pass, cli.ExitOK},
		{[]assay.Check{check(assay.Degraded), check(assay.Pass)}, nil, assay.Degraded, cli.ExitOK},
		{[]assay.Check{check(assay.Pass), check(assay.Fail)}, nil, assay.Fail, cli.ExitFailed},
		{[]assay.Check{check(assay.Pass)}, verify.ErrDeadline, assay.Unknown, cli.ExitUnknown},
		{[]assay.Check{check(assay.Pass)}, verify.ErrNoDevice, assay.Unknown, cli.ExitUnknown},
		{[]assay.Check{check(assay.Fail)}, verify.ErrCPUDevice, assay.Fail, cli.ExitFailed},
	} {
		v := verified{Checks: tt.checks}
		v.judge(tt.err)
		if got := cli.ExitCode(v.outcome(tt.err)); v.Verdict != tt.want || got != tt.exit {
			t.Errorf("%v, %v: %s, exit %d; want %s, exit %d", tt.checks, tt.err, v.Verdict, got, tt.want, tt.exit)
		}
	}
}

func TestVerifyRefusesAPasswordInTheAddress(t *testing.T) {
	var out bytes.Buffer
	f := verifyFlags{format: "text", baseURL: "http://alice:pa55word@127.0.0.1:1"}
	err := f.run(t.Context(), &out, &out)
	if err == nil || !strings.Contains(err.Error(), "--base-url holds a user or a password") || strings.Contains(err.Error()+out.String(), "pa55word") {
		t.Errorf("%v %s", err, out.String())
	}
}

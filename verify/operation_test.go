package verify

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

func TestLogOperation(t *testing.T) {
	now := time.Unix(1000, 0)
	var got []assay.Operation
	log := OperationLog{Device: "Cuda(0)", Record: func(op assay.Operation) { got = append(got, op) }, Now: func() time.Time { return now }}
	// The time is read when the work is over, not when it was started.
	op, err := LogOperation(log, "matrix_multiply", []int{2000, 2000}, func() error {
		now = now.Add(123 * time.Millisecond)
		return nil
	})
	if err != nil || len(got) != 1 {
		t.Fatalf("%v, %+v", err, got)
	}
	b, err := json.Marshal(op)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"t_ns":1000000000000,"action":"gpu_operation","component":"gpu_monitor",` +
		`"details":"Operation: matrix_multiply, Input Shape: [2000, 2000], Time: 123ms, Device: Cuda(0)",` +
		`"operation":"matrix_multiply","shape":[2000,2000],"seconds":0.123,"device":"Cuda(0)"}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	broken := errors.New("broken")
	if _, err := LogOperation(log, "copy", nil, func() error { return broken }); err != broken || len(got) != 2 || got[1].Error != "broken" {
		t.Errorf("an operation that fails is recorded and its error given back: %v, %+v", err, got)
	}
	if _, err := LogOperation(OperationLog{}, "copy", nil, func() error { return nil }); err != nil {
		t.Error(err)
	}
}

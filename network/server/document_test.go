package server

import "testing"

func TestDocumentIsRead(t *testing.T) {
	ops, err := operations()
	if err != nil {
		t.Fatal(err)
	}
	if len(ops) < 40 {
		t.Fatalf("%d operations were read", len(ops))
	}
	for _, op := range ops {
		if op.id == "" {
			t.Errorf("%s has no id", op.pattern)
		}
		if op.id == "heartbeat" && (op.body == nil || op.body.schema == nil || len(op.params) != 1 || op.params[0].kind != "string") {
			t.Errorf("heartbeat: %+v", op)
		}
	}
}

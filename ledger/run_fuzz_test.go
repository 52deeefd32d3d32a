package ledger

import (
	"bytes"
	"context"
	"testing"
)

func FuzzReadReceipt(f *testing.F) {
	r, _, _ := runReceipt(f)
	f.Add(r.Encode())
	f.Add([]byte(receiptHead + "extra \nindex 0\n\n"))
	p := runPolicy(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ReadReceipt(b)
		if err != nil {
			return
		}
		if !bytes.Equal(r.Encode(), b) {
			t.Error("a second spelling")
		}
		_, _ = p.VerifyReceipt(r, []byte("{}\n"))
	})
}

func FuzzParsePolicy(f *testing.F) {
	f.Add([]byte(runPolicyText()))
	f.Add([]byte("log x\nquorum none\n"))
	_, _, log := runReceipt(f)
	cp := log.checkpoint(f, 7, 1, 2)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePolicy(b)
		if err != nil {
			return
		}
		_, _ = p.Open(cp)
		text, err := p.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParsePolicy(text); err != nil {
			t.Errorf("read again: %v", err)
		}
	})
}

func FuzzOpenCheckpoint(f *testing.F) {
	_, _, log := runReceipt(f)
	good := log.checkpoint(f, 7, 1, 2)
	f.Add(good)
	p := runPolicy(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := p.Open(b); err == nil && !bytes.Equal(c.Raw, b) {
			t.Error("other bytes than were opened")
		}
	})
}

func FuzzReadEnvelope(f *testing.F) {
	e, err := Sign(context.Background(), runSigner(1), []byte("{}"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(e.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ReadEnvelope(b)
		if err != nil {
			return
		}
		if !bytes.Equal(e.Encode(), b) {
			t.Error("a second spelling")
		}
		_ = e.Verify(runSigner(1).Public())
	})
}

func FuzzParseStatement(f *testing.F) {
	r := readRun{}
	_, p := r.benchmark(Stamp{ID: runID(1), Node: "n", Time: runNow})
	raw, err := signStatement(context.Background(), runSigner(1), GPUBenchmark, []ResourceDescriptor{{Name: "run.json", Digest: map[string]string{"sha256": string(bytes.Repeat([]byte("0"), 64))}}}, p)
	if err != nil {
		f.Fatal(err)
	}
	e, err := ReadEnvelope(raw)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(e.Payload)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, st, err := ParseStatement(b)
		if err != nil {
			return
		}
		if st.Node == "" || len(st.Node) > MaxNode || len(s.Subject) == 0 {
			t.Errorf("%+v", st)
		}
		_ = runLayout.check(s.Subject)
	})
}

package oidc

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/store"
)

// Signing in and out leave a signed record each, in which nobody finds the person.
func TestSignInsAreRecorded(t *testing.T) {
	s := newSignIn(t, Options{Issuer: "https://issuer.example"})
	const subject = "ada@example.org"
	person, err := s.person(t.Context(), verified{subject: subject})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if err := s.begin(t.Context(), w, person, api.RoleOperator, store.Scope{All: true}); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, LogoutPath, nil)
	r.AddCookie(w.Result().Cookies()[0])
	if err := s.end(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	l, err := s.o.Store.Acquire(t.Context(), "test", "test", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	records, err := s.o.Store.NextToPublish(t.Context(), l, 100)
	if err != nil || len(records) != 2 {
		t.Fatalf("%d records: %v", len(records), err)
	}
	for i, want := range []string{"signIn", "signOut"} {
		e, err := ledger.ReadEnvelope(records[i].Bytes)
		if err != nil {
			t.Fatal(err)
		}
		st, _, err := ledger.ParseStatement(e.Payload)
		if err != nil {
			t.Fatal(err)
		}
		a, err := ledger.ActionOf(st)
		if err != nil || a.Action != want || a.Actor != "person:"+person || !strings.HasPrefix(a.Target, "session:") {
			t.Errorf("%+v: %v", a, err)
		}
		if text := string(e.Payload); strings.Contains(text, subject) || strings.Contains(text, w.Result().Cookies()[0].Value) {
			t.Errorf("the record says who it was: %s", text)
		}
	}
}

package assay_test

import (
	"testing"

	"github.com/assay-bench/assay"
)

func TestMaskURLs(t *testing.T) {
	for text, want := range map[string]string{
		"http://alice:pa55word@host:8000/v1":           "http://[secret]@host:8000/v1",
		"https://token@host":                           "https://[secret]@host",
		"https://:pa55word@host?a=b":                   "https://[secret]@host?a=b",
		"http://alice:pa@55@host/":                     "http://[secret]@host/",
		"run --proxy=http://a:b@p:1 http://c:d@e/f --": "run --proxy=http://[secret]@p:1 http://[secret]@e/f --",
		"http://host:8000/models/a@b":                  "http://host:8000/models/a@b",
		"hf://org/model@main":                          "hf://org/model@main",
		"mail alice@host":                              "mail alice@host",
		"":                                             "",
	} {
		if got := assay.MaskURLs(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

package control

import (
	"strings"
	"testing"
)

func TestServing(t *testing.T) {
	for url, want := range map[string]string{
		"http://10.0.0.7:8000":      "10.0.0.7:8000",
		"https://node7.example/v1":  "node7.example:443",
		"http://node7.example":      "node7.example:80",
		"http://[2001:db8::1]:8000": "[2001:db8::1]:8000",
		"http://[::ffff:10.0.0.7]":  "10.0.0.7:80",
		"http://127.0.0.1:8000/v1":  "127.0.0.1:8000",
	} {
		if got, err := ParseServing(url); err != nil || got.String() != want {
			t.Errorf("%s: %s, %v; not %s", url, got, err, want)
		}
	}
	for _, url := range []string{
		"", "node7:8000", "ftp://node7:21", "http://", "http://:80", "http://user:word@node7", "http://node7:0", "http://node7:65536", "http://node7:x",
		"http://a b:80", "http://a;shutdown:80", "http://a\nset server:80", "http://a%0ashutdown:80", "http://a%3bb:80", "http://[fe80::1%25eth0]:80", "http://0.0.0.0:80", "http://[::ffff:0.0.0.0]:80",
		"http://169.254.169.254", "http://[::ffff:169.254.169.254]", "http://[fe80::1]:80",
		"http://224.0.0.1", "http://a_b", "http://-a", "http://1.2.3", "http://2130706433", "http:node7", "http://ä.example", "http://" + strings.Repeat("a", 600),
	} {
		if got, err := ParseServing(url); err == nil {
			t.Errorf("%q was taken for %s", url, got)
		}
	}
}

func TestSameServing(t *testing.T) {
	for _, same := range []string{"http://10.0.0.7:80", "http://10.0.0.7", "http://10.0.0.7/v1?a", "HTTP://[::ffff:10.0.0.7]:80/"} {
		if !SameServing("http://10.0.0.7:80/v1", same) {
			t.Errorf("%s is another address", same)
		}
	}
	for _, other := range []string{"https://10.0.0.7:80", "http://10.0.0.8", "http://10.0.0.7:81", "", "nonsense"} {
		if SameServing("http://10.0.0.7:80", other) {
			t.Errorf("%s is the same address", other)
		}
	}
	if !SameServing("http://Node7.example", "http://node7.example:80") {
		t.Error("names are compared by case")
	}
}

// Whatever a node says, nothing of it can be more than a host and a port.
func FuzzServing(f *testing.F) {
	for _, s := range []string{"http://10.0.0.7:8000", "https://node7.example/v1", "http://a%0ashutdown:80", "http://a;b:80", "http://[::1]:80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, url string) {
		s, err := ParseServing(url)
		if err != nil {
			return
		}
		if strings.ContainsFunc(s.String(), func(r rune) bool {
			return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-:[]", r)
		}) || s.Host == "" || s.Port == 0 {
			t.Errorf("%q became %q", url, s)
		}
	})
}

package brokers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFlagsWinOverTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kafka.yaml")
	if err := os.WriteFile(path, []byte("brokers: [file:1]\ntopic: of-file\nsasl: {mechanism: PLAIN, user: alice}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(password, "wonder-land")
	c, err := (&Flags{file: path}).Config()
	if err != nil || c.Brokers[0] != "file:1" || c.Topic != "of-file" || c.SASL.Password != "wonder-land" {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = (&Flags{file: path, brokers: "a:1,b:2", topic: "flag"}).Config()
	if err != nil || len(c.Brokers) != 2 || c.Topic != "flag" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := (&Flags{}).Config(); err == nil || !strings.Contains(err.Error(), "--kafka") {
		t.Error(err)
	}
}

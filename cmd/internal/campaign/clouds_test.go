package campaign

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/sandbox"
	"github.com/assay-bench/assay/campaign/sandbox/sandboxtest"
	"github.com/assay-bench/assay/cmd/internal/cli/clouds"
)

const scale = 3600 // an hour of the clouds is a second

// simulated starts simulated clouds and writes their credentials.
func simulated(t *testing.T, c sandbox.Config) (s *sandbox.Sandbox, file string) {
	t.Helper()
	c.Scale = scale
	s, url := sandboxtest.Start(t, c)
	return s, write(t, "keys", fmt.Sprintf("VAST_API_KEY=%s\nVAST_API_URL=%s\nTENSORDOCK_API_KEY=%s\nTENSORDOCK_API_URL=%s\nASSAY_SANDBOX_SCALE=%d\n",
		s.Key(sandbox.Vast), url+sandbox.VastPath, s.Key(sandbox.TensorDock), url+sandbox.TensorDockPath, scale))
}

// Keys are proved over HTTP, a wrong one is told from an empty list, and the limits of
// the clouds are kept.
func TestCheckOfSimulatedClouds(t *testing.T) {
	s, file := simulated(t, sandbox.Config{})
	code, stdout, stderr := run(t, "campaign", "check", "--credentials", file, "--format", "json")
	var got []checked
	if err := json.Unmarshal([]byte(stdout), &got); code != 0 || err != nil || len(got) != 2 {
		t.Fatalf("%d %v %s%s", code, err, stdout, stderr)
	}
	for _, c := range got {
		if c.Key != "good" || *c.Instances != 0 || *c.Offers == 0 || c.Source != file {
			t.Errorf("%+v", c)
		}
	}
	if v := s.Book().Violations; len(v) > 0 {
		t.Errorf("limits were broken: %+v", v)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wrong := write(t, "wrong", strings.Replace(string(text), s.Key(sandbox.Vast), "no-such-key", 1))
	code, stdout, stderr = run(t, "campaign", "check", "--credentials", wrong, "--format", "json")
	if code != 3 || !strings.Contains(stderr, "vast refused the key from "+wrong) || !strings.Contains(stdout, `"key": "refused"`) || !strings.Contains(stdout, `"key": "good"`) {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	// A key that is revoked while the list answers, empty.
	if err := s.Set(map[string]float64{"vast:" + sandbox.FaultRetired: 1, "vast:" + sandbox.FaultKey: 1}); err != nil {
		t.Fatal(err)
	}
	if code, stdout, _ := run(t, "campaign", "check", "vast", "--credentials", file, "--format", "json"); code != 3 || !strings.Contains(stdout, `"instances": null`) {
		t.Errorf("%d %s", code, stdout)
	}
}

// The whole example is priced by the clouds' own offers.
func TestPlanIsPriced(t *testing.T) {
	s, file := simulated(t, sandbox.Config{})
	code, stdout, stderr := run(t, "campaign", "plan", example, "--credentials", file, "--format", "json")
	var p campaign.Plan
	if err := json.Unmarshal([]byte(stdout), &p); code != 0 || err != nil || p.Runnable != 21 || p.Cost == nil || p.Cost.Unpriced != 0 {
		t.Fatalf("%d %v %s%s", code, err, stdout, stderr)
	}
	for _, c := range p.Cells {
		if c.Cost.Bound.Nano < 2*c.Cost.Reserve.Nano || c.Cost.Likely.Nano <= 0 || c.Cost.Likely.Nano >= c.Cost.Bound.Nano || c.Cost.Reserve.Nano <= 0 {
			t.Errorf("%s: %+v", c.Key(), c.Cost)
		}
	}
	if p.Cost.Likely.Units() > p.Cost.Bound.Units()/2 || !strings.Contains(p.Cost.History.Source, "65 %") {
		t.Errorf("%+v", p.Cost)
	}
	if b := s.Book(); len(b.Violations) > 0 || len(b.Entries) > 0 {
		t.Errorf("a plan rents nothing and keeps limits: %+v", b)
	}
}

// What the plan computes of a machine's life and its transfer is what the clouds'
// own book has of it.
func TestEstimatesAgainstTheBook(t *testing.T) {
	const imageGB, pullGB = 8, 5
	s, file := simulated(t, sandbox.Config{Faults: map[string]float64{sandbox.SettingImageGB: imageGB, sandbox.SettingPullGB: pullGB}})
	accounts, err := (&clouds.Credentials{File: file}).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]provider.Price{}
	for name, a := range accounts {
		offers, err := a.Provider.Offers(t.Context(), provider.Query{GPU: "RTX 3090", DiskGB: 100})
		if err != nil || len(offers) == 0 {
			t.Fatalf("%s: %v", name, err)
		}
		label := "abc-" + name
		i, err := a.Provider.Create(t.Context(), provider.Order{Label: label, Offer: offers[0], Image: "ubuntu2204", DiskGB: 100, SSHKey: "ssh-ed25519 AAAA"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		sandboxtest.Boot(t, s, i.ID) // what it pulls is billed from then on
		want[label] = offers[0].Price
	}
	for s.Book().Alive > 0 {
		time.Sleep(300 * time.Millisecond) // some of the clouds' minutes
		for name, a := range accounts {
			list, err := a.Provider.List(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, i := range list {
				if err := a.Provider.Destroy(t.Context(), i.ID); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
	}
	for _, e := range s.Book().Entries {
		life := time.Duration(float64(e.Ended.Sub(e.Created)) * scale)
		down := int64((imageGB + pullGB) * 1e9)
		if e.Bandwidth.Nano == 0 {
			down = 0 // this cloud does not bill it
		}
		got, err := want[e.Label].Cost(life, down, 0)
		if err != nil {
			t.Fatal(err)
		}
		off := got.Units()/e.Cost.Units() - 1
		t.Logf("%s lived %s: %s, the book has %s (%+.3f %%)", e.Label, life.Round(time.Second), got, e.Cost, 100*off)
		if !(math.Abs(off) <= 0.1) {
			t.Errorf("%s: %s, the book has %s", e.Label, got, e.Cost)
		}
	}
}

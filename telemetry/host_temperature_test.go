package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

func TestHostTemperature(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the tree is of Linux")
	}
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"two packages": {map[string]string{
			"class/hwmon/hwmon0/name": "nvme\n", "class/hwmon/hwmon0/temp1_input": "70000\n",
			"class/hwmon/hwmon1/name": "coretemp\n", "class/hwmon/hwmon1/temp1_input": "51000\n", "class/hwmon/hwmon1/temp1_label": "Package id 0\n",
			"class/hwmon/hwmon1/temp2_input": "59000\n", "class/hwmon/hwmon1/temp2_label": "Core 0\n",
			"class/hwmon/hwmon2/name": "coretemp\n", "class/hwmon/hwmon2/temp1_input": "48500\n", "class/hwmon/hwmon2/temp1_label": "Package id 1\n",
			"class/thermal/thermal_zone0/type": "x86_pkg_temp\n", "class/thermal/thermal_zone0/temp": "51000\n",
		}, "coretemp0 51, coretemp1 48.5"},
		"die before control": {map[string]string{
			"class/hwmon/hwmon0/name": "k10temp\n", "class/hwmon/hwmon0/temp1_input": "80000\n", "class/hwmon/hwmon0/temp1_label": "Tctl\n",
			"class/hwmon/hwmon0/temp2_input": "70000\n", "class/hwmon/hwmon0/temp2_label": "Tdie\n",
		}, "k10temp0 70"},
		"no labels": {map[string]string{
			"class/hwmon/hwmon0/name": "cpu_thermal\n", "class/hwmon/hwmon0/temp1_input": "41000\n", "class/hwmon/hwmon0/temp2_input": "43000\n",
		}, "cpu_thermal0 43"},
		"zones only": {map[string]string{
			"class/thermal/thermal_zone0/type": "acpitz\n", "class/thermal/thermal_zone0/temp": "27800\n",
			"class/thermal/thermal_zone1/type": "x86_pkg_temp\n", "class/thermal/thermal_zone1/temp": "44000\n",
		}, "x86_pkg_temp0 44"},
		"none":    {map[string]string{"class/hwmon/hwmon0/name": "nvme\n"}, ""},
		"garbage": {map[string]string{"class/hwmon/hwmon0/name": "coretemp\n", "class/hwmon/hwmon0/temp1_input": "4294967295\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range tt.files {
				file = filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			h, err := NewHost(HostOptions{ProcRoot: root, SysRoot: root})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			h.temperatures(func(r assay.Reading) {
				if r.Name != assay.HostTemperature {
					t.Errorf("%s", r.Name)
				}
				got = append(got, fmt.Sprintf("%s %g", r.Device, *r.Value))
			})
			if s := strings.Join(got, ", "); s != tt.want {
				t.Errorf("%q, want %q", s, tt.want)
			}
		})
	}
}

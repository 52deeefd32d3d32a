package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/nvml/nvmltest"
	"github.com/assay-bench/assay/internal/parttest"
)

// The whole release of what is committed: made twice and compared, installed as
// packages and run by systemd, and run as an image. The long form is for all
// systems, and its second build has an empty cache.
func TestRealPackages(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" || os.Getuid() != 0 {
		parttest.Need(t, "packages are installed as root on linux/amd64")
	}
	long := os.Getenv("ASSAY_LONG") == "1"
	var log parttest.Buffer
	dir := t.TempDir()
	o := options{
		repository: "../..", commit: "HEAD", out: filepath.Join(dir, "out"), targets: known[:1], again: true, fresh: long,
		key: filepath.Join(dir, "release.key"), passphrase: filepath.Join(dir, "phrase"), log: &log,
	}
	base := filepath.Join(parttest.Scripts(t), "image-base")
	if long {
		o.targets = known
		o.imageBase = parttest.Run(t, nil, base, "arm64")
	} else {
		o.imageBase = parttest.Run(t, nil, base)
	}
	writeKey(t, o.key, o.passphrase)
	began := time.Now()
	err := release(context.Background(), o)
	t.Log(log.String())
	if err != nil {
		t.Fatal(err)
	}
	parttest.Figure(t, "made twice in %.0f s", time.Since(began).Seconds())
	c, err := readCommit(context.Background(), o.repository, o.commit)
	if err != nil {
		t.Fatal(err)
	}
	call(t, o.out, "sha256sum", "--check", "--strict", sumsFile)
	call(t, o.out, "sh", "-c", "ssh-keygen -Y verify -f "+signersFile+" -I "+signer+" -n "+signatureUse+" -s "+signatureFile+" < "+sumsFile)
	t.Run("programs", func(t *testing.T) { programsRun(t, o, c) })
	t.Run("packages", func(t *testing.T) { packagesInstall(t, o, c) })
	t.Run("image", func(t *testing.T) { imageRuns(t, o, c) })
}

// programsRun unpacks the archives: each program says which version it is, and its
// licences and what it is made of are beside it.
func programsRun(t *testing.T, o options, c commit) {
	for _, program := range programs {
		name := program + "-" + c.version + "-linux-amd64"
		dir := t.TempDir()
		call(t, dir, "tar", "-xzf", filepath.Join(o.out, name+".tar.gz"))
		got := call(t, filepath.Join(dir, name), "./"+program, "version")
		if !strings.HasPrefix(got, program+" "+c.version+" ") {
			t.Errorf("%s says it is %s", name, got)
		}
		for _, file := range []string{"LICENSE", "licenses.txt.gz", "README.md"} {
			if _, err := os.Stat(filepath.Join(dir, name, file)); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Stat(filepath.Join(o.out, name+".cdx.json")); err != nil {
			t.Error(err)
		}
	}
}

// packagesInstall installs the packages over older ones where systemd runs, and
// takes them off again. The older ones have the same programs.
func packagesInstall(t *testing.T, o options, c commit) {
	for _, tool := range []string{"unshare", "dpkg", "systemctl", "runuser", "curl", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			parttest.Need(t, "no "+tool)
		}
	}
	dir := t.TempDir()
	tree := filepath.Join(t.TempDir(), "tree")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "old"), 0o755), os.Mkdir(filepath.Join(dir, "new"), 0o755), c.export(context.Background(), tree)); err != nil {
		t.Fatal(err)
	}
	for _, d := range debs {
		name := d.name + "_" + c.debian + "_amd64.deb"
		b, err := os.ReadFile(filepath.Join(o.out, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "new", name), b, 0o644); err != nil {
			t.Fatal(err)
		}
		unpacked := t.TempDir()
		call(t, unpacked, "dpkg-deb", "--extract", filepath.Join(o.out, name), ".")
		program, err := os.ReadFile(filepath.Join(unpacked, "usr", "bin", d.name))
		if err != nil {
			t.Fatal(err)
		}
		if b, err = d.make(tree, program, "amd64", "0.0.1", c.time); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "old", d.name+"_0.0.1_amd64.deb"), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "testdata/boot", dir, "testdata/install.sh")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it ends what it started
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	parttest.Figure(t, "installed, upgraded, removed and purged in %.0f s", time.Since(began).Seconds())
}

// imageRuns has others read the image, and runs its programs in it as its user.
func imageRuns(t *testing.T, o options, c commit) {
	parttest.Install(t, "oci-readers")
	chroot, err := exec.LookPath("chroot")
	if err != nil {
		parttest.Need(t, "no chroot")
	}
	archive := "oci-archive:" + filepath.Join(o.out, "assay-"+c.version+"-oci.tar")
	for _, program := range programs {
		dir := t.TempDir()
		var config struct {
			Architecture string
			Config       struct {
				User       string
				Entrypoint []string
			}
		}
		if err := json.Unmarshal([]byte(call(t, dir, "skopeo", "inspect", "--config", archive+":"+program)), &config); err != nil {
			t.Fatal(err)
		}
		if config.Architecture != "amd64" || config.Config.User != "65532:65532" || strings.Join(config.Config.Entrypoint, " ") != "/usr/bin/"+program {
			t.Errorf("skopeo reads %+v", config)
		}
		// It checks each blob against its digest on the way.
		call(t, dir, "skopeo", "--insecure-policy", "copy", archive+":"+program, "oci:layout:"+program)
		call(t, dir, "umoci", "unpack", "--image", "layout:"+program, "bundle")
		root := filepath.Join(dir, "bundle", "rootfs")
		if err := os.Mkdir(filepath.Join(root, "proc"), 0o755); err != nil { // a runtime does it
			t.Fatal(err)
		}
		inside := func(args ...string) (string, error) {
			cmd := exec.Command("unshare", append([]string{"--mount", "--pid", "--fork", "--net", "--mount-proc=" + filepath.Join(root, "proc"),
				chroot, "--userspec=65532:65532", "--groups=", root}, args...)...)
			cmd.Env = []string{"HOME=/var/lib/assay", "PATH=/usr/bin", nvmltest.Variable + "=/scenario"}
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		if out, err := inside("/usr/bin/"+program, "version"); err != nil || !strings.HasPrefix(out, program+" "+c.version) {
			t.Errorf("%s says %s: %v", program, out, err)
		}
		opensLibraries(t, root, program, inside)
	}
}

// opensLibraries puts a driver into the image, where NVIDIA's container toolkit puts
// it, and has the program open it: without a libc it could not.
func opensLibraries(t *testing.T, root, program string, inside func(...string) (string, error)) {
	t.Helper()
	if out, err := inside("/usr/bin/"+program, "verify", "--skip-compute"); exitCode(err) != 2 {
		t.Errorf("%s verify without a GPU ends %v: %s", program, err, out)
	}
	for from, to := range map[string]string{
		filepath.Join(nvmltest.Build(t), "libnvidia-ml.so.1"): "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
		nvmltest.Scenario(t, "ecc"):                           "scenario",
	} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, to), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := inside("/usr/bin/"+program, "verify", "--skip-compute"); err != nil || !strings.Contains(out, "NVIDIA H100") {
		t.Errorf("%s did not open the driver: %v\n%s", program, err, out)
	}
	if err := os.Rename(filepath.Join(root, "usr/lib/x86_64-linux-gnu/libc.so.6"), filepath.Join(root, "libc")); err != nil {
		t.Fatal(err)
	}
	if out, err := inside("/usr/bin/"+program, "version"); err == nil || !strings.Contains(out, "libc.so.6") {
		t.Errorf("%s without a libc: %v %s", program, err, out)
	}
}

// exitCode is that of a program; -1: it was not run.
func exitCode(err error) int {
	var ee *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ee):
		return ee.ExitCode()
	}
	return -1
}

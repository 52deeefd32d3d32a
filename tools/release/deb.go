package main

import (
	"bytes"
	"crypto/md5" //nolint:gosec // dpkg's own list of a package's files has no other
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// deb is a Debian package. Its control file, scripts and files other than the
// program lie in deploy.
type deb struct {
	name    string // of the package and of its program
	summary string
	long    string            // description, a line of one space each
	files   map[string]string // path in the package: path in the repository
	conf    []string          // of these, those that an administrator edits
}

var debs = []deb{
	{
		name: "assay", summary: "measures GPU inference nodes, and runs networks of them",
		long: ` Assay proves what a GPU inference node can do: how fast it is, how healthy it is,
 what a token costs on it, and that the proof is true. This package has the whole
 program, and a service for the server of a network of nodes, which is not started
 before it was set up.
`,
		files: map[string]string{
			"usr/lib/systemd/system/assay-server.service": "deploy/assay-server.service",
			"etc/assay/server.env":                        "deploy/server.env",
			"usr/share/doc/assay/licenses.txt.gz":         "cmd/assay/licenses.txt.gz",
		},
		conf: []string{"etc/assay/server.env"},
	},
	{
		name: "assay-node", summary: "checks a GPU inference node, and reports to its network",
		long: ` Assay proves what a GPU inference node can do. This package has the lean program
 for a node, and a service for its agent, which is not started before it was told
 which server it reports to.
`,
		files: map[string]string{
			"usr/lib/systemd/system/assay-agent.service": "deploy/assay-agent.service",
			"etc/assay/agent.yaml":                       "deploy/agent.yaml",
			"usr/share/doc/assay-node/licenses.txt.gz":   "cmd/assay-node/licenses.txt.gz",
		},
		conf: []string{"etc/assay/agent.yaml"},
	},
}

// maintainer is whom Debian's tools name.
const maintainer = "The Assay authors <assay-bench@users.noreply.github.com>"

// make builds the package from the repository's files and a program.
func (d deb) make(repository string, program []byte, arch, version string, when time.Time) ([]byte, error) {
	files, err := fromTree(repository, d.files)
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(repository, "LICENSE"))
	if err != nil {
		return nil, err
	}
	files = append(files,
		file{path: "usr/bin/" + d.name, mode: 0o755, body: program},
		file{path: "usr/share/doc/" + d.name + "/copyright", mode: 0o644, body: append([]byte(copyright), license...)})
	files, err = tree(files)
	if err != nil {
		return nil, err
	}
	control, err := d.control(repository, files, arch, version)
	if err != nil {
		return nil, err
	}
	head, err := tarGz("./", control, when)
	if err != nil {
		return nil, err
	}
	data, err := tarGz("./", files, when)
	if err != nil {
		return nil, err
	}
	return ar(when, []file{{path: "debian-binary", body: []byte("2.0\n")}, {path: "control.tar.gz", body: head}, {path: "data.tar.gz", body: data}}), nil
}

const copyright = `Assay, https://github.com/assay-bench/assay
Copyright: the Assay authors. The licence follows. Those of the software of others
in the program are in licenses.txt.gz beside this file.

`

// control is what dpkg needs to know beside the files.
func (d deb) control(repository string, files []file, arch, version string) ([]file, error) {
	var sums, conf strings.Builder
	size := 0
	for _, f := range files {
		if f.dir {
			size++
			continue
		}
		size += (len(f.body) + 1023) / 1024
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.body), f.path) //nolint:gosec // as above
	}
	for _, name := range d.conf {
		conf.WriteString("/" + name + "\n")
	}
	// The program opens the system's libc at its start: it is the only thing that it
	// does not bring along.
	text := fmt.Sprintf(`Package: %s
Version: %s
Architecture: %s
Maintainer: %s
Installed-Size: %d
Depends: libc6, passwd
Recommends: ca-certificates
Section: utils
Priority: optional
Homepage: https://github.com/assay-bench/assay
Description: %s
%s`, d.name, version, arch, maintainer, size, d.summary, d.long)
	out := []file{
		{path: "control", mode: 0o644, body: []byte(text)},
		{path: "md5sums", mode: 0o644, body: []byte(sums.String())},
		{path: "conffiles", mode: 0o644, body: []byte(conf.String())},
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		b, err := os.ReadFile(filepath.Join(repository, "deploy", "debian", d.name+"."+script))
		if err != nil {
			return nil, err
		}
		out = append(out, file{path: script, mode: 0o755, body: b})
	}
	return out, nil
}

// ar is the outer archive of a package, in the format of ar(5).
func ar(when time.Time, members []file) []byte {
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, m := range members {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", m.path, when.Unix(), 0, 0, 0o100644, len(m.body))
		b.Write(m.body)
		if len(m.body)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

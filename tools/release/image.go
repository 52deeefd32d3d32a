package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Media types of the OCI image specification.
const (
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// imageUser is who the programs run as in a container: nobody that a host knows.
const imageUser = 65532

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations"`
}

type imageConfig struct {
	Created string `json:"created"`
	platform
	Config struct {
		User       string              `json:"User"`
		Env        []string            `json:"Env"`
		Entrypoint []string            `json:"Entrypoint"`
		WorkingDir string              `json:"WorkingDir"`
		Volumes    map[string]struct{} `json:"Volumes"`
		Labels     map[string]string   `json:"Labels"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	History []history `json:"history"`
}

type history struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

// layer is a part of an image's file system.
type layer struct {
	descriptor descriptor
	diff       string // digest of what is compressed in it
	from       string
}

// layout is an OCI image layout that is being made.
type layout struct{ blobs map[string][]byte }

func digest(b []byte) string { return "sha256:" + sum(b) }

func (l *layout) add(mediaType string, b []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: digest(b), Size: len(b)}
	l.blobs[d.Digest] = b
	return d
}

func (l *layout) addJSON(mediaType string, v any) (descriptor, error) {
	b, err := json.Marshal(v)
	return l.add(mediaType, b), err
}

// image makes one archive of an image layout with an image for each program, each
// for every Linux that was built.
func (m *maker) image(ctx context.Context) error {
	l := &layout{blobs: map[string][]byte{}}
	platforms := map[string][]descriptor{} // manifests by program
	for _, arch := range slices.Sorted(maps.Keys(m.built)) {
		base, err := m.baseLayer(ctx, l, arch)
		if err != nil {
			return fmt.Errorf("linux/%s: %w", arch, err)
		}
		for _, program := range programs {
			d, err := m.imageOf(l, base, program, arch)
			if err != nil {
				return err
			}
			platforms[program] = append(platforms[program], d)
		}
	}
	top := index{2, mediaIndex, nil}
	for _, program := range programs {
		d, err := l.addJSON(mediaIndex, index{2, mediaIndex, platforms[program]})
		if err != nil {
			return err
		}
		d.Annotations = map[string]string{"org.opencontainers.image.ref.name": program}
		top.Manifests = append(top.Manifests, d)
	}
	b, err := l.archive(top, m.commit)
	if err != nil {
		return err
	}
	return m.write("assay-"+m.commit.version+"-oci.tar", b)
}

// archive is the layout in one file, as skopeo and others read it.
func (l *layout) archive(top index, c commit) ([]byte, error) {
	text, err := json.Marshal(top)
	if err != nil {
		return nil, err
	}
	files := []file{
		{path: "oci-layout", mode: 0o644, body: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{path: "index.json", mode: 0o644, body: text},
	}
	for d, b := range l.blobs {
		files = append(files, file{path: "blobs/" + strings.Replace(d, ":", "/", 1), mode: 0o644, body: b})
	}
	var out bytes.Buffer
	err = writeTar(&out, "", files, c.time)
	return out.Bytes(), err
}

// layer compresses files into a blob.
func (m *maker) layer(l *layout, from string, files []file) (layer, error) {
	var plain bytes.Buffer
	if err := writeTar(&plain, "", files, m.commit.time); err != nil {
		return layer{}, err
	}
	packed, err := gzipped(plain.Bytes())
	if err != nil {
		return layer{}, err
	}
	return layer{l.add(mediaLayer, packed), digest(plain.Bytes()), from}, nil
}

// baseLayer is what all images of an architecture stand on.
func (m *maker) baseLayer(ctx context.Context, l *layout, arch string) (layer, error) {
	files, err := baseFiles(ctx, filepath.Join(m.imageBase, arch))
	if err != nil {
		return layer{}, err
	}
	certificates, err := bundle(files)
	if err != nil {
		return layer{}, err
	}
	files = append(files, certificates,
		file{path: "etc/passwd", mode: 0o644, body: fmt.Appendf(nil, "root:x:0:0:root:/root:/sbin/nologin\nassay:x:%[1]d:%[1]d:assay:/var/lib/assay:/sbin/nologin\n", imageUser)},
		file{path: "etc/group", mode: 0o644, body: fmt.Appendf(nil, "root:x:0:\nassay:x:%d:\n", imageUser)},
		file{path: "etc/nsswitch.conf", mode: 0o644, body: []byte("hosts: files dns\n")},
		// A volume takes its owner from here; the agent wants it for itself.
		file{path: "var/lib/assay", mode: 0o700, dir: true, id: imageUser},
		file{path: "tmp", mode: 0o1777, dir: true},
	)
	return m.layer(l, "libc6 and ca-certificates of Debian", files)
}

// imageOf is the image of one program.
func (m *maker) imageOf(l *layout, base layer, program, arch string) (descriptor, error) {
	doc := "usr/share/doc/" + program
	notice, err := fromTree(m.tree, map[string]string{doc + "/LICENSE": "LICENSE", doc + "/licenses.txt.gz": "cmd/" + program + "/licenses.txt.gz"})
	if err != nil {
		return descriptor{}, err
	}
	own, err := m.layer(l, program+" "+m.commit.version, append(notice, file{path: "usr/bin/" + program, mode: 0o755, body: m.built[arch][program]}))
	if err != nil {
		return descriptor{}, err
	}
	created := m.commit.time.Format("2006-01-02T15:04:05Z")
	labels := map[string]string{
		"org.opencontainers.image.title":    program,
		"org.opencontainers.image.version":  m.commit.version,
		"org.opencontainers.image.revision": m.commit.hash,
		"org.opencontainers.image.created":  created,
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source":   "https://github.com/assay-bench/assay",
	}
	c := imageConfig{Created: created, platform: platform{arch, "linux"}}
	c.Config.User = fmt.Sprintf("%[1]d:%[1]d", imageUser)
	c.Config.Env = []string{"PATH=/usr/bin", "HOME=/var/lib/assay"}
	c.Config.Entrypoint = []string{"/usr/bin/" + program}
	c.Config.WorkingDir = "/var/lib/assay"
	c.Config.Volumes = map[string]struct{}{"/var/lib/assay": {}}
	c.Config.Labels = labels
	c.RootFS.Type = "layers"
	for _, y := range []layer{base, own} {
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, y.diff)
		c.History = append(c.History, history{created, y.from})
	}
	config, err := l.addJSON(mediaConfig, c)
	if err != nil {
		return descriptor{}, err
	}
	d, err := l.addJSON(mediaManifest, manifest{2, mediaManifest, config, []descriptor{base.descriptor, own.descriptor}, labels})
	d.Platform = &platform{arch, "linux"}
	return d, err
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// commit is what is released: a tree that git has, its version and its time.
type commit struct {
	repository string
	hash       string
	time       time.Time
	version    string // 1.2.3, or 1.2.3-dev+HASH where no tag is
	debian     string // the same, in Debian's order: before 1.2.3
}

// tagged is how a release is tagged.
var tagged = regexp.MustCompile(`^v([0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?)$`)

// source is where the tree says which version it is on the way to.
const source = "cmd/internal/cli/version.go"

var developed = regexp.MustCompile(`(?m)^var Release = "([0-9]+\.[0-9]+\.[0-9]+)-dev"$`)

func readCommit(ctx context.Context, repository, name string) (commit, error) {
	c := commit{repository: repository}
	out, err := c.git(ctx, "show", "--no-patch", "--format=%H %ct", name+"^{commit}", "--")
	if err != nil {
		return c, err
	}
	hash, seconds, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return c, fmt.Errorf("git's time of %s: %w", name, err)
	}
	c.hash, c.time = hash, time.Unix(unix, 0).UTC()
	tags, err := c.git(ctx, "tag", "--points-at", c.hash)
	if err != nil {
		return c, err
	}
	for tag := range strings.Lines(string(tags)) {
		if m := tagged.FindStringSubmatch(strings.TrimSpace(tag)); m != nil {
			if c.version != "" {
				return c, fmt.Errorf("commit %s has the tags of two releases: %s and v%s", c.hash, m[0], c.version)
			}
			c.version, c.debian = m[1], strings.Replace(m[1], "-", "~", 1)
		}
	}
	if c.version != "" {
		return c, nil
	}
	text, err := c.git(ctx, "show", c.hash+":"+source)
	if err != nil {
		return c, err
	}
	m := developed.FindSubmatch(text)
	if m == nil {
		return c, fmt.Errorf("%s of %s names no version of the kind 1.2.3-dev", source, c.hash)
	}
	c.version = fmt.Sprintf("%s-dev+%s", m[1], c.hash[:12])
	c.debian = fmt.Sprintf("%s~dev%s.%s", m[1], c.time.Format("20060102150405"), c.hash[:12])
	return c, nil
}

func (c commit) git(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", c.repository}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		return nil, failed(cmd, err)
	}
	return out, nil
}

// failed is the error of a command with what it said.
func failed(cmd *exec.Cmd, err error) error {
	var ee *exec.ExitError
	if errors.As(err, &ee) {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(ee.Stderr))
	}
	return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
}

// export writes the commit's tree to a new directory.
func (c commit) export(ctx context.Context, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	archive := dir + ".tar"
	defer os.Remove(archive)
	to, err := filepath.Abs(archive)
	if err != nil {
		return err
	}
	if _, err := c.git(ctx, "archive", "--format=tar", "--output="+to, c.hash); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "tar", "-xf", archive, "-C", dir)
	if _, err := cmd.Output(); err != nil {
		return failed(cmd, err)
	}
	return nil
}

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/simulate"
)

// recorded is a run that every agent delivers as its own.
type recorded struct {
	scratch string
	files   map[string][]byte
	id      string // of the run, as its files have it
	node    string
	created string
	nonce   string
}

// record measures a simulated engine for a moment.
func record(ctx context.Context, scratch string) (*recorded, error) {
	engine, err := simulate.New(simulate.DefaultConfig())
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- engine.Serve(serving, ln) }()
	defer func() { stop(); <-served }()

	c := hammer.DefaultConfig()
	c.URL = "http://" + ln.Addr().String()
	c.Load = hammer.Load{Mode: "closed", Concurrency: 4, Requests: 40}
	c.Data.InputTokens, c.Data.OutputTokens = 16, 16
	if err := hammer.Resolve(ctx, &c); err != nil {
		return nil, err
	}
	dir := filepath.Join(scratch, "recorded")
	node := ulid.Make().String()
	if _, err := hammer.Run(ctx, c, dir, hammer.Options{Version: assay.Version{Assay: "swarm"}, Node: node}); err != nil {
		return nil, fmt.Errorf("record a run: %w", err)
	}
	r := &recorded{scratch: scratch, files: map[string][]byte{}, node: node}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if r.files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	var m assay.Manifest
	if m, err = journal.DecodeManifest(r.files[journal.RunFile]); err != nil {
		return nil, err
	}
	r.id = m.ID
	r.created = strconv.FormatInt(m.Created, 10)
	r.nonce = m.Nonce
	return r, nil
}

// sign makes the run an agent's own and signs it: the records, and the files.
func (r *recorded) sign(ctx context.Context, node string, s ledger.Signer, key ledger.Key) ([]ledger.Record, map[string][]byte, error) {
	dir, err := os.MkdirTemp(r.scratch, "run-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	id := ulid.Make().String()
	created := strconv.FormatInt(time.Now().UnixNano(), 10)
	fresh := make([]byte, len(r.nonce)/2)
	_, _ = rand.Read(fresh) // it never fails
	nonce := hex.EncodeToString(fresh)
	files := map[string][]byte{}
	for name, b := range r.files {
		b = bytes.ReplaceAll(b, []byte(r.id), []byte(id))
		b = bytes.ReplaceAll(b, []byte(r.node), []byte(node))
		b = bytes.ReplaceAll(b, []byte(r.created), []byte(created))
		if r.nonce != "" { // a second run with the same one would be an old run
			b = bytes.ReplaceAll(b, []byte(r.nonce), []byte(nonce))
		}
		files[name] = b
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return nil, nil, err
		}
	}
	records, err := ledger.SignRun(ctx, dir, s, key, ledger.SignOptions{})
	return records, files, err
}

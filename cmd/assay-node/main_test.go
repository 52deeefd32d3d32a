package main

import (
	"testing"

	"github.com/assay-bench/assay/cmd/internal/cli/clitest"
)

func TestCommandTree(t *testing.T) { clitest.Tree(t, root) }

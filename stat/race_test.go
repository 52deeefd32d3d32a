//go:build race

package stat

const raced = true

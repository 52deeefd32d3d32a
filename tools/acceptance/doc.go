// Package acceptance holds the checks of the whole program: the built binaries
// against a simulator in a process of its own, with figures that are printed
// and held to their limits. .ci/run builds the binaries and runs it.
package acceptance

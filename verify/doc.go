// Package verify asks whether a GPU is what it says it is, and whether it
// computes right.
//
// It promises:
//
//   - The product of two matrices is checked bit for bit, on every vendor's
//     hardware: the inputs are such that every partial sum is exact in float32,
//     so no order of summation and no fused operation changes a bit.
//   - A result is judged in the caller's process, from the numbers that came
//     back. The driver runs in a child that is killed at its deadline, and its
//     word is not taken for the result.
//   - Nothing runs on the CPU in place of the GPU. A CPU is refused
//     ([ErrCPUDevice]), and no request can ask for it.
//   - What could not be found out is Unknown. A model that the catalogue does
//     not know, or a reading that is absent, is never a pass and never a fault.
//   - Every check says what it proves and what it does not.
//
// What no check here can show: a node's owner can run the work on other hardware
// of theirs, and can replace the driver. Identity, speed and memory size together
// make that expensive; they do not make it impossible. One GPU that poses as two is
// found only by challenges to both at the same time, which is not done here.
package verify

import "errors"

// Errors that decide the exit code of a command.
var (
	// ErrNoDevice means that there is no GPU to verify, or none that the
	// libraries show: could not measure, exit 2.
	ErrNoDevice = errors.New("no GPU found")
	// ErrCPUDevice means that the only device computes on the CPU. It is
	// refused: measured, and failed, exit 3.
	ErrCPUDevice = errors.New("the device is a CPU, not a GPU")
	// ErrDeadline means that the driver did not answer in time; its process was
	// killed: could not measure, exit 2.
	ErrDeadline = errors.New("the GPU driver did not answer in time")
	// ErrDriver means that the child ended early or made no sense, as when a
	// driver crashes: could not measure, exit 2.
	ErrDriver = errors.New("the GPU driver's process failed")
)

//go:build !unix

package inference

func descriptorRoom() int64 { return 0 }

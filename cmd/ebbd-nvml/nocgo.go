//go:build !cgo

// Command ebbd-nvml asks NVIDIA's management library about the GPUs of this
// host. Built without cgo it can't, says so, and the agent falls back to
// nvidia-smi.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Println(`{"devices":null,"error":"built without cgo"}`)
	os.Exit(3)
}

// Labhost is what the hosts of a lab run: as their first process, as workloads,
// and as the commands that start these elsewhere. Like ebb and ebbd it is built
// without cgo and without the race detector, since a lab has many of them.
package main

import (
	"fmt"
	"os"

	"ebb/demo/lab"
)

func main() {
	if err := lab.Main(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "labhost:", err)
		os.Exit(1)
	}
}

package engine_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// A history here is hours of virtual time on a real journal file: by default few
// are tried. "-rapid.checks=N" tries more.
const histories = "12"

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", histories); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

# ebb: build, test, look. Each target is a plain line; "make test" installs what
# the tests need where it may (root on Debian), so that a fresh machine passes.

GO    ?= go
CGO   := $(shell command -v $${CC:-cc} >/dev/null 2>&1 && echo 1 || echo 0)

.PHONY: build test unit race lint e2e bench demo man histories sim mutants deps fmt clean recordings

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ebb ./cmd/ebb
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ebbd ./cmd/ebbd
	@if [ $(CGO) = 1 ]; then CGO_ENABLED=1 CGO_CFLAGS="-O2 -Wno-deprecated-declarations" $(GO) build -trimpath -o bin/ebbd-nvml ./cmd/ebbd-nvml; else echo "no C compiler: ebbd-nvml is left out"; fi

test: deps build lint histories race e2e

unit:
	$(GO) test ./...

# Whole fleets of real processes run one after the other: two of them at once on
# two cores would measure the machine.
FLEETS = ./cmd/ebb ./demo/lab

race:
	CGO_ENABLED=1 $(GO) test -race -timeout 30m $$($(GO) list ./... | grep -v -x -e ebb/cmd/ebb -e ebb/demo/lab)
	CGO_ENABLED=1 $(GO) test -race -timeout 30m -p 1 $(FLEETS)

lint:
	@out=$$(gofmt -l .); [ -z "$$out" ] || { echo "not gofmt'd: $$out"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	GOOS=darwin CGO_ENABLED=0 $(GO) vet ./cmd/ebb

# The scripts of the demo, with the built programs. The lab and the journeys in a
# terminal run with the tests.
e2e: build
	.ci/e2e

# What ebb promises in numbers, as a table; it fails only on ratios, and on what must
# not happen on any machine. One group of rows: make bench ONLY=facts
bench:
	@$(GO) run .ci/bench.go '$(ONLY)'
	@$(if $(ONLY),,$(GO) test -run '^$$' -bench . -benchmem ./tui/...)

demo: build
	bin/ebb demo

# ebb.1 and a page for each verb, the same for the same commit.
man: build
	bin/ebb man bin/man

# 500 fixed simulated histories, and 20 new ones, whose seeds are printed.
histories:
	@$(GO) test -c -o bin/sim.test ./demo/sim
	@cd demo/sim && ../../bin/sim.test -test.timeout 20m -test.run TestHistories -seeds 500 -new 20

# One simulated history again, as the lines of a journal: make sim SEED=4711. Many
# of them: make sim SEEDS=100000 FIRST=1.
sim:
	@$(GO) test -c -o bin/sim.test ./demo/sim
	@cd demo/sim && ../../bin/sim.test -test.timeout 0 $(if $(SEEDS),-test.run TestHistories -first $(or $(FIRST),1) -seeds $(SEEDS) -progress 10s,-test.run TestSeed -seed $(or $(SEED),1) -out /dev/fd/3 3>&1 >&2)

# The films of the journals in demo/recordings: a cast and a moving picture each.
recordings:
	EBB_RECORD=write $(GO) test -count=1 -run TestRecordings ./cmd/ebb

# Breaks each check that must never fail, one at a time: a test has to notice.
mutants:
	@$(GO) run .ci/mutants.go

deps:
	@.ci/deps

fmt:
	gofmt -w .

clean:
	rm -rf bin

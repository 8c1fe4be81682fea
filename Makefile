# `make help` lists what there is. `make test` is what CI runs (.ci/run).

# The module needs a newer Go than many machines have: let the go command fetch it.
export GOTOOLCHAIN = auto

FUZZTIME ?= 3s
SEEDS    ?= 10000
FIRST    ?= 1
N        ?= 300
LATE     ?= OffsetCommit=100ms Produce=100ms Fetch=60ms Metadata=40ms JoinGroup=200ms,SyncGroup=200ms Heartbeat=200ms ListOffsets=100ms,OffsetFetch=100ms
SEED     ?= 0
NODES    ?= 1
PORT     ?= 29092

# Where goroutines meet; cores have none (internal/lint sees to that), so the race detector would only slow them down.
# internal/realkafka is left out: it starts brokers, and the same shells run against the embedded broker here.
RACE := $(patsubst %,./%,$(wildcard streams internal/shell internal/group internal/kafka internal/broker statestore/pebblestore))

.PHONY: help demo test vet fmt-check unit race kill-test late lint fuzz sim kafka kafka-stop bench bench-rebalance bench-failure bench-recovery bench-test ledger-test cover

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## count the words of Newton's Opticks, with a broker inside the program
	@echo "Fetching and compiling takes about two minutes the first time; after that a second or two."
	go run ./examples/wordcount

test: vet fmt-check unit race kill-test fuzz bench-test ledger-test ## all that CI checks; real-broker tests need Java and Maven, or are skipped (REQUIRE_KAFKA=1: they fail)

vet: ## go vet
	$(TIMED) go vet ./...
	$(TIMED) go vet -tags failpoints ./internal/fail ./streams

fmt-check: ## fail on files that gofmt would change
	@files=$$(git ls-files --cached --others --exclude-standard --deduplicate -- '*.go' ':!:*/testdata/*' | xargs "$$(go env GOROOT)/bin/gofmt" -l) && \
	if [ -n "$$files" ]; then echo "gofmt -w these files:"; echo "$$files"; exit 1; fi

# streams comes first: its tests wait for sessions and elections, and the others are done meanwhile.
unit: ## unit and integration tests of all packages, internal/lint among them
	$(TIMED) go test -p 2 -timeout 30m ./streams ./...

race: ## tests of the packages where goroutines meet, under the race detector
	@if [ "$$(go env CGO_ENABLED)" = 1 ]; then set -x; $(TIMED) go test -p 2 -timeout 25m -short -race $(addsuffix /...,$(RACE)); \
	else echo "left out: the race detector needs a C compiler"; fi

kill-test: ## processes killed between any two steps, N cases (default 300): make kill-test N=5000; SEED=<seed> N=1 replays one
	go test -tags failpoints -count=1 ./internal/fail
	$(TIMED) go test -tags failpoints -count=1 -timeout 0 -v -run '^TestKill' ./streams -kill.n=$(N) -kill.seed=$(SEED)

late: ## tests of streams with an embedded broker that takes its time with one kind of request after the other, about 15 minutes
	for late in $(LATE); do $(TIMED) go test -count=1 -short -parallel 6 -timeout 15m ./streams -broker.late=$$late || exit 1; done

lint: ## go vet, our own lint, and golangci-lint if it is installed
	go vet ./...
	go test -count=1 ./internal/lint
	@if command -v golangci-lint >/dev/null; then golangci-lint run ./...; else \
	echo "golangci-lint is not installed (CI does without: building it takes 2.5 minutes); GOTOOLCHAIN=$$(go env GOVERSION) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0"; fi

fuzz: ## each fuzz target for FUZZTIME (default 3s)
	$(TIMED) .ci/fuzz $(FUZZTIME)

sim: ## the whole runtime under faults, one run a seed: make sim SEEDS=100000 (default 10000), FIRST=1
	go test -count=1 -timeout 0 -v -run '^TestSeeds$$' ./internal/sim -sim.seeds=$(SEEDS) -sim.first=$(FIRST)

kafka: ## start NODES (default 1) real brokers from PORT (default 29092) on; prints the address
	internal/realkafka/kafka.sh start .cache/kafka $(NODES) $(PORT)

kafka-stop: ## stop them
	internal/realkafka/kafka.sh stop .cache/kafka

bench: ## us beside Kafka Streams, goka and hand-written loops, about 35 minutes (QUICK=1: a look, 5 minutes)
	bench/run

bench-rebalance: ## tasks that move, beside Kafka Streams: silences, rounds, cold restores, about 15 minutes (QUICK=1: a look, 4 minutes)
	bench/run rebalance

bench-failure: ## records that fail and calls that take their time, beside sarama and Confluent's parallel consumer, about 9 minutes (QUICK=1: a look, 3 minutes)
	bench/run failure

bench-recovery: ## time to the first fresh result after kill -9, at lags of 100 to 1,000,000 records, beside serial catch-up and Kafka Streams, about 4 minutes (QUICK=1: 3 minutes)
	bench/run recovery

bench-test: ## vet and test the benchmark's harness and programs (modules of their own)
	cd bench && $(TIMED:%=../%) go vet ./... && go test ./...
	cd bench/goka && $(TIMED:%=../../%) go vet ./... && go test ./...

ledger-test: ## vet and test examples/ledger (a module of its own: it has a database driver)
	cd examples/ledger && go vet ./... && $(TIMED:%=../../%) go test ./...

cover: ## statement coverage by package; the profile goes to coverage.out
	go test -p 2 -coverpkg=./... -coverprofile=coverage.out ./...
	go tool cover -func=coverage.out | tail -1

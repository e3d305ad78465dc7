# The one entry point; CI calls nothing else.
# Always --release --workspace: the client library is built in C, five minutes, and one profile builds it once.

SHELL := /bin/bash
.DEFAULT_GOAL := help
# The steps of one target stand in order; cargo uses the processors by itself.
.NOTPARALLEL:
.PHONY: help build fmt lint test demo chaos planted failover bench bench-latency bench-growth bench-peers deny clean-brokers check-build-tools check-broker

CARGO_FLAGS := --release --workspace --locked
HARNESS := target/release/harness

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

build: check-build-tools ## build everything, with optimisation
	cargo build $(CARGO_FLAGS)

fmt: ## format the code
	cargo fmt --all

lint: check-build-tools ## formatting and lints; a warning is an error
	cargo fmt --all --check
	cargo clippy $(CARGO_FLAGS) --all-targets -- -D warnings

# Six episodes, two of them on three brokers, before the tests: a failure there ends it. Two test threads: more of them only make the
# one broker slower.
test: check-build-tools check-broker lint build ## all tests, on a real broker started for them (or KAFKA_BOOTSTRAP_SERVERS); first six episodes of chaos
	target/release/chaos --episodes 6 --seed 22
	$(HARNESS) with-broker -- cargo test $(CARGO_FLAGS) --no-fail-fast -- --test-threads=2

demo: build ## a pipeline on a real broker, with instances that crash
	target/release/demo

EPISODES ?= 10
SEED ?= 1

chaos: check-broker build ## EPISODES of live traffic, faults drawn from SEED, every third on three brokers; each judged by the oracle
	target/release/chaos --episodes $(EPISODES) --seed $(SEED)

planted: check-broker build ## rules of the client switched off one by one; the oracle must notice each
	target/release/transom-simulation planted
	target/release/planted

failover: check-broker build $(if $(QUICK),,bench-peers) ## kill -9 at named points, REPEATS of each; how long readers wait, also for Kafka Streams; QUICK=1
	target/release/failover $(if $(REPEATS),--repeats $(REPEATS)) $(if $(QUICK),--quick)

BENCH := target/release/bench
BENCH_EXTENT := $(if $(QUICK),--quick)

bench: check-broker build bench-peers ## CPU and records/s against the raw client, franz-go and Kafka Streams; QUICK=1 takes 4 minutes
	$(BENCH) throughput $(BENCH_EXTENT)

bench-latency: check-broker build bench-peers ## latency under an open loop, against Kafka Streams; QUICK=1
	$(BENCH) latency $(BENCH_EXTENT)

bench-growth: check-broker build bench-peers ## cold start, memory, cost by partitions, workers and record size; QUICK=1
	$(BENCH) growth $(BENCH_EXTENT)

# A peer whose tools are missing does not take part, and the bench says so.
bench-peers:
	@mkdir -p target/bench
	@command -v go >/dev/null && cd tests/bench/peers/franz && go build -o ../../../../target/bench/franz . \
	  || echo 'franz-go is not built: it needs Go 1.26' >&2
	@command -v mvn >/dev/null && mvn --quiet --batch-mode --file tests/bench/peers/streams/pom.xml compile dependency:copy-dependencies \
	  || echo 'Kafka Streams is not built: it needs Java 17 and Maven (Debian: apt-get install openjdk-17-jdk-headless maven)' >&2

deny: ## licences, banned and unknown sources of dependencies
	@command -v cargo-deny >/dev/null || { echo "cargo-deny not found: cargo install --locked cargo-deny" >&2; exit 69; }
	cargo deny check licenses bans sources

# A broker goes with its test program, also when that is killed; this is for what a power cut or a dead daemon left.
clean-brokers: ## remove every test broker on this machine, used or not
	@docker ps --all --quiet --filter label=transom.harness 2>/dev/null | xargs --no-run-if-empty docker rm --force --volumes
	@pkill -KILL --full '[k]afka\.Kafka .*/transom-broker-[^/]*/server\.properties' || true
	@rm -rf -- "$${TMPDIR:-/tmp}"/transom-broker-*

check-build-tools:
	@missing=; \
	command -v cargo >/dev/null || missing="$$missing\n  cargo (https://rustup.rs)"; \
	command -v cc >/dev/null || missing="$$missing\n  cc (Debian: apt-get install gcc)"; \
	command -v perl >/dev/null || missing="$$missing\n  perl (Debian: apt-get install perl)"; \
	if [[ -n $$missing ]]; then printf "missing build tools:$$missing\n" >&2; exit 69; fi

# Before the build, not after: nobody should wait ten minutes to learn that no broker can be started.
check-broker:
	@if [[ -n "$$KAFKA_BOOTSTRAP_SERVERS" ]]; then exit 0; fi; \
	if timeout 10 docker version >/dev/null 2>&1; then exit 0; fi; \
	if command -v java >/dev/null && command -v mvn >/dev/null; then exit 0; fi; \
	printf '%s\n' 'nothing here can run a Kafka broker. One of:' \
	  '  Docker             Debian: apt-get install docker.io iptables, then start dockerd' \
	  '  Java 17 and Maven  Debian: apt-get install openjdk-17-jdk-headless maven' \
	  '  running brokers    KAFKA_BOOTSTRAP_SERVERS=host:port make test' >&2; \
	exit 69

# Each target is one call; what it does stands in the script of the same name, with its options at the top.
.DEFAULT_GOAL := help
.PHONY: help run check test test-c test-sanitizers test-ruby test-ha ha-demo lint bench bench-python instructions soak bench-timers fuzz docs \
  fmt miri wheels install install-c loom programs proofs test-page

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

run: ## build and serve on 127.0.0.1:6379 (PORT=7000, ARGS="my.conf --loglevel verbose"; SETUP=no installs nothing)
	@scripts/run

check: ## formatting, clippy and the unit tests of changed crates: before each commit
	@scripts/check

test: ## every test but `make test-ha` and the sanitizers, with a real redis-server to compare with (SETUP=no installs nothing)
	@scripts/test

test-ha: ## failovers by Sentinel, with redis-py's client and mixed servers; two minutes
	@scripts/test-ha

ha-demo: ## a primary, two replicas and three Sentinels here; kills the primary (ARGS="--fault stop", ARGS=--help)
	@scripts/setup redis sentinel
	@scripts/ha-demo $(ARGS)

test-sanitizers: ## the C and C++ bindings under ThreadSanitizer and Valgrind
	@scripts/test-c --sanitizers

test-c: ## the C and C++ bindings alone, as in `make test`
	@scripts/test-c

test-page: ## the page of metrics-port in a headless Chromium; seconds (ARGS=--picture renews the README's picture)
	@scripts/test-page $(ARGS)

test-ruby: ## the Ruby gem alone, with its extension and in pure Ruby
	@scripts/test-ruby

programs: ## real programs (queues, locks, limiters, clients) on redis-server and here (ARGS=--quick: a few; ARGS=--help)
	@scripts/programs $(ARGS)

proofs: ## kills, failovers, power cuts and link cuts at full length, three hours (ARGS="kills power links")
	@scripts/proofs $(ARGS)

install: ## the server: stripped binary, systemd unit, man page and completions (PREFIX=/usr/local DESTDIR=)
	@scripts/install "$(or $(PREFIX),/usr/local)"

install-c: ## the C library, its headers, pkg-config and CMake files (PREFIX=/usr/local)
	@scripts/install-c "$(or $(PREFIX),/usr/local)"

lint: ## formatting, clippy, Python, docs, dependencies, layout
	@scripts/lint

bench: ## the figures of the README, beside redis-server (QUICK=1 for a short run)
	@scripts/bench

bench-timers: ## the timers beside those of the field (QUICK=1 for a short run, ARGS=--help for options)
	@scripts/bench-timers

bench-python: ## the Python package beside its peers (ARGS="aio --rounds 3", ARGS=--help)
	@scripts/bench-python

fuzz: ## each fuzz target for a minute (FUZZ_TIME=1h, TARGETS="resp_parse", JOBS=2)
	@scripts/fuzz

wheels: ## the Python package's wheels, in target/wheels (ARGS=--test: tested with every Python that is here)
	@scripts/wheels $(ARGS)

docs: ## the API documentation, in target/doc
	cargo doc --workspace --no-deps --features punctual/async

fmt: ## format all code
	cargo fmt --all

miri: ## the library's tests under Miri, which finds undefined behaviour
	@scripts/miri

loom: ## the driver's sleep and wake-up in every order of its threads
	@scripts/loom

instructions: ## instructions of the hot operations against the table (scripts/instructions --renew writes it)
	@scripts/instructions

soak: ## the queues in long storms of checked operations (STORM_OPS=1000000 STORM_TIMERS=400 PUNCTUAL_SEED=17)
	STORM_OPS=$${STORM_OPS:-10000000} STORM_TIMERS=$${STORM_TIMERS:-20000} cargo test --release -p punctual --test storms
